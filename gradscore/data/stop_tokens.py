"""Which tokens end an answer."""

from transformers import PreTrainedTokenizerBase


def stop_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the tokens that can end an answer: the end token and other special ones, such as those that end a turn.

    A turn's end is often neither the end token nor among the tokenizer's named special tokens (Gemma), so all added
    tokens that are marked as special count, but those for unknown text and for the beginning.
    """
    special = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
    special |= set(tokenizer.all_special_ids)
    never = {tokenizer.bos_token_id, tokenizer.unk_token_id}
    return frozenset((special - never) | ({tokenizer.eos_token_id} - {None}))
