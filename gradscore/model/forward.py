"""The loss of every row of a batch, with logits only where there is a target.

A training step computes logits for every position of the padded batch and keeps them for the backward
pass; with a vocabulary of 50k that is most of its memory and, in small models, a large part of its time.
Here the decoder runs once, its output is gathered at the positions that predict a target token, and the head
and the cross-entropy run over these in chunks. The gradient with respect to the decoder's output is formed
in the same pass, chunk by chunk, so that no logits are alive afterwards and nothing is computed twice.

`tests/reference.py` computes the same loss from the model's own full logits.
"""

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from peft import PeftModel
from torch import Tensor, nn
from torch.nn import functional

from gradscore.data.batch import Batch
from gradscore.model.midway import started_from

Reduction = Literal["mean", "sum"]

LOGITS_PER_CHUNK = 2**24
"""Logits alive at a time: 64 MiB in float32, and as much again for their gradient."""

PLAIN_HEADS = frozenset(
    [
        "gpt2",
        "gpt_neo",
        "gpt_neox",
        "gptj",
        "opt",
        "llama",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen3",
        "qwen2_moe",
        "qwen3_moe",
        "phi",
        "phi3",
        "gemma",
        "gemma2",
        "gemma3_text",
        "olmo",
        "olmo2",
        "stablelm",
        "smollm3",
        "starcoder2",
        "falcon",
        "bloom",
    ]
)
"""Model types whose logits are the head applied to the decoder's output, but for a soft cap named in the
configuration. Others scale logits in ways of their own; for these the model's own forward is called."""


def sample_losses(
    model: nn.Module, batch: Batch, reduction: Reduction = "mean", call_head: bool = False
) -> Float[Tensor, " n"]:
    """Return each row's loss: the mean (or sum) over its target tokens of -ln p(token | tokens before), in nats.

    Args:
        model: a transformers causal language model, or a PEFT model around one.
        batch: at least one target token in every row. Where it is midway, the layers below are not run again.
        reduction: `mean` or `sum` over a row's target tokens.
        call_head: call the head as a module on [n, targets, d], so that its hooks see it, instead of
            multiplying with its weight in chunks. Needed where the head's own gradient is counted.
    """
    causal = base_model(model)
    rows, columns = torch.nonzero(batch.target_mask[:, 1:], as_tuple=True)
    if causal.config.model_type in PLAIN_HEADS:
        with started(causal, batch):
            hidden = causal.get_decoder()(**decoder_inputs(causal.get_decoder(), batch)).last_hidden_state
        token_losses = _plain_head_losses(causal, hidden, batch, rows, columns, call_head)
    else:
        token_losses = _own_head_losses(causal, batch, rows, columns)
    losses = token_losses.new_zeros(len(batch)).index_add(0, rows, token_losses)
    return losses / batch.n_target_tokens if reduction == "mean" else losses


def base_model(model: nn.Module) -> Any:
    """Return the transformers model inside a PEFT model, or the model itself."""
    return model.get_base_model() if isinstance(model, PeftModel) else model


def started(causal: nn.Module, batch: Batch) -> AbstractContextManager[None]:
    """Let the forward pass begin at the bottom, or where the batch already is."""
    return nullcontext() if batch.midway is None else started_from(causal, batch.midway)


def decoder_inputs(module: nn.Module, batch: Batch) -> dict[str, Any]:
    """Return the keyword arguments of one forward pass.

    Under causal attention a row that starts in the first column never sees the padding behind it, so no mask
    is passed: attention then takes its fastest path, and no data-dependent branch is left that functorch
    would refuse.
    """
    accepted = inspect.signature(module.forward).parameters
    arguments: dict[str, Any] = {"input_ids": batch.input_ids, "use_cache": False}
    if not batch.is_right_padded:
        arguments["attention_mask"] = batch.attention_mask
    if "position_ids" in accepted:
        arguments["position_ids"] = batch.position_ids
    return arguments


def _plain_head_losses(
    causal: Any, hidden: Float[Tensor, "n t d"], batch: Batch, rows: Tensor, columns: Tensor, call_head: bool
) -> Float[Tensor, " m"]:
    head = causal.get_output_embeddings()
    labels = batch.input_ids[rows, columns + 1]
    soft_cap = getattr(causal.config, "final_logit_softcapping", None)
    if call_head or type(head) is not nn.Linear:  # a head that carries an adapter is more than its weight
        place = torch.cumsum(batch.target_mask[:, 1:], 1)[rows, columns] - 1
        padded = hidden.new_zeros(len(batch), int(place.max()) + 1, hidden.shape[-1])
        logits = head(padded.index_put((rows, place), hidden[rows, columns]))[rows, place]
        return functional.cross_entropy(wide(capped(logits, soft_cap)), labels, reduction="none")
    return _HeadLosses.apply(hidden[rows, columns], head.weight, head.bias, labels, soft_cap)


def _own_head_losses(causal: Any, batch: Batch, rows: Tensor, columns: Tensor) -> Float[Tensor, " m"]:
    logits = own_head_logits(causal, batch, rows, columns)
    return functional.cross_entropy(wide(logits), batch.input_ids[rows, columns + 1], reduction="none")


def own_head_logits(causal: Any, batch: Batch, rows: Tensor, columns: Tensor) -> Float[Tensor, "m v"]:
    """Return logits from the model's own forward, but show its head only the positions that predict a target."""

    def gather(_module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (arguments[0][rows, columns].unsqueeze(0), *arguments[1:])

    handle = causal.get_output_embeddings().register_forward_pre_hook(gather)
    try:
        with started(causal, batch):
            return causal(**decoder_inputs(causal, batch)).logits[0]
    finally:
        handle.remove()


def wide(values: Tensor) -> Tensor:
    """Return `values` in float32 if they are in a half-precision type, else unchanged."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def capped(logits: Tensor, soft_cap: float | None) -> Tensor:
    """Return soft-capped logits, c tanh(logits / c) (Gemma 2, arXiv:2408.00118, section 2)."""
    return logits if soft_cap is None else soft_cap * torch.tanh(logits / soft_cap)


class _Chunk(NamedTuple):
    losses: Float[Tensor, " m"]
    hidden_gradient: Float[Tensor, "m d"]
    """Empty, [0, d], if no gradient is needed."""


class _HeadLosses(torch.autograd.Function):
    """Cross-entropy of head(hidden) in chunks; differentiable with respect to `hidden` only.

    The loss of a token is a scalar, so its gradient with respect to the hidden state, (p - onehot) W, can be
    formed at once in the forward pass and only be scaled in the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "m d"],
        weight: Float[Tensor, "v d"],
        bias: Float[Tensor, " v"] | None,
        labels: Int[Tensor, " m"],
        soft_cap: float | None,
    ) -> Float[Tensor, " m"]:
        rows_per_chunk = max(1, LOGITS_PER_CHUNK // weight.shape[0])
        chunks = [
            _chunk(h, weight, bias, y, soft_cap, ctx.needs_input_grad[0])
            for h, y in zip(hidden.split(rows_per_chunk), labels.split(rows_per_chunk), strict=True)
        ]
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(torch.cat([chunk.hidden_gradient for chunk in chunks]))
        return torch.cat([chunk.losses for chunk in chunks])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None, None, None]:
        (hidden_gradient,) = ctx.saved_tensors
        scaled = gradients[0][:, None].to(hidden_gradient.dtype) * hidden_gradient
        return scaled, None, None, None, None


def _chunk(
    hidden: Float[Tensor, "m d"],
    weight: Float[Tensor, "v d"],
    bias: Float[Tensor, " v"] | None,
    labels: Int[Tensor, " m"],
    soft_cap: float | None,
    with_gradient: bool,
) -> _Chunk:
    logits = wide(capped(functional.linear(hidden, weight, bias), soft_cap))
    if not with_gradient:
        losses = functional.cross_entropy(logits, labels, reduction="none")
        return _Chunk(losses, hidden[:0])
    slope = None if soft_cap is None else 1 - (logits / soft_cap) ** 2
    # One pass of exp, in place: logits become probabilities, and then their gradient.
    logits -= logits.amax(1, keepdim=True)
    picked = logits.gather(1, labels[:, None])[:, 0]
    total = logits.exp_().sum(1)
    logits /= total[:, None]
    logits[torch.arange(len(labels), device=labels.device), labels] -= 1
    gradient = logits if slope is None else logits * slope
    return _Chunk(total.log() - picked, gradient.to(weight.dtype) @ weight)
