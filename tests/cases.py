"""The architectures and adapters that every gradient engine must agree on, as tiny random models.

`architecture(name)` builds one in-process from its configuration: a few thousand parameters, seeded, in
float64 unless asked otherwise. `with_lora` adds an adapter whose B is *not* zero: on a fresh adapter the
gradient of A is exactly zero, and a comparison of zeros proves nothing.
"""

from collections.abc import Callable

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MixtralConfig,
    Phi3Config,
    PhiConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
)
from transformers.pytorch_utils import Conv1D

from gradscore.data.batch import Batch, collate
from gradscore.model.lora_layers import in_layers
from gradscore.records import EncodedRow

VOCABULARY = 64

SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**SHAPE, "num_key_value_heads": 2, "head_dim": 4}
EXPERTS = {"num_experts_per_tok": 2, "output_router_logits": False}

ARCHITECTURES: dict[str, Callable[[], PreTrainedConfig]] = {
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2
    ),
    "llama": lambda: LlamaConfig(**GROUPED),
    "qwen2": lambda: Qwen2Config(**GROUPED),
    "qwen3": lambda: Qwen3Config(**GROUPED),
    "gemma2": lambda: Gemma2Config(**GROUPED, query_pre_attn_scalar=4, sliding_window=8),
    "gemma3": lambda: Gemma3TextConfig(**GROUPED, query_pre_attn_scalar=4, sliding_window=8),
    "gpt_neox": lambda: GPTNeoXConfig(**SHAPE),
    "phi": lambda: PhiConfig(**SHAPE),
    "phi3": lambda: Phi3Config(**SHAPE, num_key_value_heads=2),
    "mixtral": lambda: MixtralConfig(**GROUPED, **EXPERTS, num_local_experts=4),
    "qwen2_moe": lambda: Qwen2MoeConfig(
        **GROUPED, **EXPERTS, num_experts=4, moe_intermediate_size=8, shared_expert_intermediate_size=12
    ),
}

FUSED_EXPERTS = ("mixtral", "qwen2_moe")
"""Architectures whose experts are three-dimensional parameters rather than Linear modules."""

WITHOUT_SDPA = ("gemma2",)
"""Architectures whose soft-capped attention transformers offers in its eager form only."""

ATTENTION = [
    (name, kind)
    for name in ARCHITECTURES
    for kind in ("eager", "sdpa")
    if not (kind == "sdpa" and name in WITHOUT_SDPA)
]
"""Every architecture with every attention implementation it has."""

ADAPTERS: dict[str, dict[str, object]] = {
    "lora": {"r": 4, "lora_alpha": 8},
    "rslora": {"r": 3, "lora_alpha": 8, "use_rslora": True},
    "dora": {"r": 2, "lora_alpha": 4, "use_dora": True},
}


LORA_CASES = [
    (name, attention, adapter)
    for name, attention in ATTENTION
    for adapter in ADAPTERS
    if not (adapter == "dora" and name in FUSED_EXPERTS)
]
"""Every architecture, attention and adapter; PEFT has no DoRA for fused experts."""


def architecture(
    name: str,
    attention: str = "eager",
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    n_layers: int = 2,
) -> PreTrainedModel:
    """Return a tiny random model of the named architecture, in evaluation mode."""
    config = ARCHITECTURES[name]()
    if n_layers != config.num_hidden_layers:
        config = type(config)(**{**config.to_dict(), "num_hidden_layers": n_layers, "layer_types": None})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        # The grouped matrix product of expert layers exists up to float32 only.
        experts = {"experts_implementation": "eager"} if name in FUSED_EXPERTS else {}
        model = AutoModelForCausalLM.from_config(
            config, attn_implementation=attention, dtype=dtype, **experts
        )
        # Norm weights start at 1 (or 0) and biases at 0: move them, so that a formula that forgets them fails.
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.data += 0.2 * torch.randn_like(parameter)
            else:
                parameter.data += 0.1 * torch.randn_like(parameter)
    model.config.use_cache = False
    return model.eval().requires_grad_(False)


def with_lora(
    model: PreTrainedModel, adapter: str = "lora", seed: int = 1, layers: str | None = None
) -> PeftModel:
    """Return `model` with a perturbed adapter on all linear layers of its blocks, or of the `layers` named."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        fan_in_fan_out = model.config.model_type == "gpt2"
        config = LoraConfig(
            target_modules=_linear_names(model, layers) if layers else "all-linear",
            task_type="CAUSAL_LM",
            fan_in_fan_out=fan_in_fan_out,
            **ADAPTERS[adapter],
        )
        peft_model = get_peft_model(model, config, autocast_adapter_dtype=False)
        for name, parameter in peft_model.named_parameters():
            if "lora_" in name:
                parameter.data = parameter.data.to(model.dtype)
                parameter.data += 0.2 * torch.randn_like(parameter)
    return peft_model.eval()


def _linear_names(model: PreTrainedModel, layers: str) -> list[str]:
    head = model.get_output_embeddings()
    kinds = (torch.nn.Linear, Conv1D)
    linear = [name for name, m in model.named_modules() if isinstance(m, kinds) and m is not head]
    return in_layers(model, linear, layers)


def rows(lengths: tuple[int, ...] = (9, 5, 12, 7), seed: int = 2) -> list[EncodedRow]:
    """Return random rows: the first third of each is prompt, the rest target but for one token in the middle."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for index, length in enumerate(lengths):
        input_ids = torch.randint(3, VOCABULARY, (length,), generator=generator).numpy()
        target_mask = torch.arange(length).numpy() >= max(1, length // 3)
        if length > 6:
            target_mask[length // 2] = False
        made.append(
            EncodedRow(
                row_index=index,
                row_key=f"{index:032x}",
                status="ok",
                input_ids=input_ids,
                target_mask=target_mask,
                n_tokens=length,
                n_target_tokens=int(target_mask.sum()),
            )
        )
    return made


def batch(padding_side: str = "right", lengths: tuple[int, ...] = (9, 5, 12, 7)) -> Batch:
    """Return the random rows as one padded batch."""
    return collate(rows(lengths), pad_id=0, padding_side=padding_side)
