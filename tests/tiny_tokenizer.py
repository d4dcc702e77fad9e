"""A byte-level tokenizer built in-process, for every test that needs tokens but no downloaded file."""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Chat template of the tiny tokenizer: roles and contents between markers, no tools, no default system turn."""

SPECIAL_TOKENS = ("<|pad|>", "<|bos|>", "<|im_end|>", "<|im_start|>")
"""Ids 0 to 3, in this order; the 256 bytes follow."""


def byte_tokenizer(
    *, chat_template: str | None = CHATML, adds_bos: bool = True, has_eos: bool = True
) -> PreTrainedTokenizerFast:
    """Return a fast tokenizer of 260 tokens: one per byte, and padding, beginning, end and turn start.

    `adds_bos` puts `<|bos|>` before plain text, as Llama tokenizers do; the chat template never writes it.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL_TOKENS])
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|bos|> $A", special_tokens=[("<|bos|>", vocabulary["<|bos|>"])]
        )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        bos_token="<|bos|>",
        eos_token="<|im_end|>" if has_eos else None,
    )
    fast.chat_template = chat_template
    return fast


def save_byte_tokenizer(folder: Path) -> None:
    """Write the default tiny tokenizer into `folder`, where `AutoTokenizer.from_pretrained` finds it."""
    byte_tokenizer().save_pretrained(str(folder))


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer that was saved in `folder`."""
    return AutoTokenizer.from_pretrained(str(folder))
