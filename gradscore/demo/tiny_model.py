"""A tiny Llama for `gradscore demo --fast`: built, trained for a few seconds and saved as an ordinary folder.

It knows the demo's own tasks a little and nothing else, so that the line can be seen from end to end
without a download. Its scores say nothing about other data. 160 steps take about four seconds on one core
and bring the loss from ln(512) = 6.2 to about 2 nats per token.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from gradscore.demo.dataset import DemoRow, demo_rows

VOCABULARY = 512
LONGEST_TOKENS = 512
STEPS = 160
BATCH_ROWS = 8
LEARNING_RATE = 3e-3
TRAINING_ROWS = 600
TRAINING_SEED = 987
"""Another seed than the demo's data, so that the model has not seen the rows that it will score."""
START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True)
class TinyModel:
    """Where the tiny model lies and how far its training came."""

    folder: Path
    steps: int
    loss_first: float
    """Loss of the first step, in nats per token."""
    loss_last: float
    """Mean loss of the last ten steps, in nats per token."""


def build_tiny_model(folder: Path, steps: int = STEPS) -> TinyModel:
    """Return a tiny chat model, trained on sound demo rows of another seed and saved at `folder`.

    The same versions give the same weights; the caller's random state is left as it was.
    """
    rows = [row for row in demo_rows(TRAINING_ROWS, TRAINING_SEED) if row.fault is None]
    tokenizer = _tokenizer([text for row in rows for text in (row.instruction, row.input, row.output)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(TRAINING_SEED)
        model = LlamaForCausalLM(_architecture(tokenizer))
        losses = _train(model, tokenizer, [_chat(row) for row in rows], steps)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    last = losses[-10:]
    return TinyModel(folder, steps, losses[0], sum(last) / len(last))


def _tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer, so that no text is unknown to it, with merges learnt from `texts`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START],
        chat_template=CHATML,
        model_max_length=LONGEST_TOKENS,
    )


def _architecture(tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LONGEST_TOKENS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
        pad_token_id=tokenizer.convert_tokens_to_ids(PAD),
    )


def _chat(row: DemoRow) -> list[dict[str, str]]:
    question = f"{row.instruction}\n{row.input}" if row.input else row.instruction
    return [{"role": "user", "content": question}, {"role": "assistant", "content": row.output}]


def _train(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, chats: list[list[dict[str, str]]], steps: int
) -> list[float]:
    """Return the loss of each step of plain AdamW on whole conversations, prompts included."""
    texts = [tokenizer.apply_chat_template(chat, tokenize=False) for chat in chats]
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    model.train()
    losses = []
    for _ in range(steps):
        chosen = torch.randint(len(texts), (BATCH_ROWS,)).tolist()
        batch = tokenizer(
            [texts[place] for place in chosen],
            return_tensors="pt",
            padding=True,
            truncation=True,
            add_special_tokens=False,
        )
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        loss = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses
