"""Which tokens write numbers."""

from transformers import PreTrainedTokenizerBase


def number_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the tokens whose text holds a decimal digit of any script; special tokens write no text.

    Numerals that are words (three, 三) do not count: they are used where nothing is counted.
    """
    special = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
    # Names of tokens are not their text (<0x0A> is a line break), so those with a digit are decoded.
    named = [
        id
        for token, id in tokenizer.get_vocab().items()
        if id not in special and any(map(str.isdecimal, token))
    ]
    texts = tokenizer.batch_decode([[id] for id in named])
    return frozenset(id for id, text in zip(named, texts, strict=True) if any(map(str.isdecimal, text)))
