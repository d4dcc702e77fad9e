"""What a module does in its transformer block, read from its name by an explicit table.

The words `attention`, `ffn` and `ffn-in` must mean the same modules in every architecture, so each name is
listed under the families that use it, and nothing is guessed from shapes. Where a model has a weight matrix
that the table does not know, asking for such a word is an error (`modules_with_role`), not a smaller set.

Fused experts of a mixture (one three-dimensional parameter) have their role too; whether a method can handle
them is for that method to say.
"""

import re
from collections.abc import Collection
from typing import Literal

from torch import nn

from gradscore.errors import UnsupportedError

Role = Literal["attention", "ffn_in", "ffn_out", "embedding", "head", "norm", "router", "other"]

ROLES: dict[str, Role] = {
    # Llama, Mistral, Mixtral, Qwen 2/3, Gemma 1-3, OLMo, Granite, SmolLM3, StableLM, StarCoder 2, GPT-OSS
    "q_proj": "attention",
    "k_proj": "attention",
    "v_proj": "attention",
    "o_proj": "attention",
    "gate_proj": "ffn_in",
    "up_proj": "ffn_in",
    "down_proj": "ffn_out",
    # Phi-3, GLM-4: queries, keys and values fused, gate and up fused
    "qkv_proj": "attention",
    "gate_up_proj": "ffn_in",
    # Phi 1-2, OPT
    "self_attn.dense": "attention",
    "out_proj": "attention",
    "fc1": "ffn_in",
    "fc2": "ffn_out",
    # GPT-2, GPT-Neo, GPT-BigCode, StarCoder 2
    "c_attn": "attention",
    "attn.c_proj": "attention",
    "c_fc": "ffn_in",
    "mlp.c_proj": "ffn_out",
    # GPT-NeoX, Falcon, BLOOM
    "query_key_value": "attention",
    "attention.dense": "attention",
    "self_attention.dense": "attention",
    "dense_h_to_4h": "ffn_in",
    "dense_4h_to_h": "ffn_out",
    # GPT-J
    "fc_in": "ffn_in",
    "fc_out": "ffn_out",
    # DeepSeek 2-3: low-rank queries, keys and values
    "q_a_proj": "attention",
    "q_b_proj": "attention",
    "kv_a_proj_with_mqa": "attention",
    "kv_b_proj": "attention",
    # mixtures of experts: fused in transformers 5 (named like the dense layers), separate before
    "gate_up_proj_bias": "ffn_in",
    "down_proj_bias": "ffn_out",
    "w1": "ffn_in",
    "w3": "ffn_in",
    "w2": "ffn_out",
    "mlp.gate": "router",
    "mlp.router": "router",
    "block_sparse_moe.gate": "router",
    "shared_expert_gate": "router",
    # outside the blocks
    "embed_tokens": "embedding",
    "embed_positions": "embedding",
    "embed_in": "embedding",
    "word_embeddings": "embedding",
    "wte": "embedding",
    "wpe": "embedding",
    "lm_head": "head",
    "embed_out": "head",
}
"""Last part, or last two parts, of a module's name to its role; the longer match counts."""

FAMILIES = (
    "GPT-2, GPT-Neo, GPT-NeoX, GPT-J, Llama, Mistral, Mixtral, Qwen, Gemma, Phi, Falcon, OPT, BLOOM, OLMo"
)

_NORM = re.compile(r"(^ln_(1|2|f|attn|mlp)|norm|norm_?[12f])$")
_BLOCK = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)(?:\.|$)")
# What PEFT puts around or behind the name of the module it adapts.
_WRAPPING = re.compile(
    r"^base_model\.model\.|\.base_layer(?=\.|$)|\.modules_to_save\.[^.]+|\.original_module"
    r"|\.lora_(A|B|embedding_A|embedding_B|magnitude_vector)(\.[^.]+)*$"
)


def module_role(name: str) -> Role:
    """Return the role of a module, given its name or the name of one of its parameters, also inside PEFT.

    `other` where the table does not know the name, or for a container.
    """
    plain = module_name(name)
    last_two = ".".join(plain.split(".")[-2:])
    last = plain.rpartition(".")[2]
    if last_two in ROLES:
        return ROLES[last_two]
    if last in ROLES:
        return ROLES[last]
    return "norm" if _NORM.search(last) else "other"


def module_name(name: str) -> str:
    """Return the name that the module has in the plain model: without PEFT's wrapping and `.weight` or `.bias`."""
    return re.sub(r"\.(weight|bias)$", "", plain_parameter_name(name))


def plain_parameter_name(name: str) -> str:
    """Return the name that a parameter has in the plain model; for an adapter's parameter, its module's name."""
    return _WRAPPING.sub("", name)


def layer_index(name: str) -> int | None:
    """Return the number of the block that a module or parameter belongs to, or None outside the blocks."""
    match = _BLOCK.search(name)
    return int(match.group(1)) if match else None


def modules_with_role(model: nn.Module, roles: Collection[Role]) -> list[str]:
    """Return the plain names of the modules with one of these roles that hold a weight matrix, in model order.

    A fused expert parameter counts by its own name, such as `model.layers.0.mlp.experts.down_proj`.

    Raises:
        UnsupportedError: a block holds a weight matrix whose role the table does not know.
    """
    names = [module_name(n) for n, p in model.named_parameters() if p.ndim >= 2 and ".lora_" not in n]
    unknown = [n for n in names if layer_index(n) is not None and module_role(n) == "other"]
    if unknown:
        kinds = sorted({n.rpartition(".")[2] for n in unknown})
        words = ", ".join(sorted(roles))
        raise UnsupportedError(
            f"What {words} means in this model ({type(model).__name__}) is not known: it has the modules "
            f"{', '.join(kinds)}. Known families: {FAMILIES}. Give module names or a regular expression instead."
        )
    return [n for n in names if module_role(n) in roles]


def is_expert(name: str) -> bool:
    """Return whether a name is of a fused expert parameter: three-dimensional, without a module of its own."""
    return re.search(r"\.experts\.[a-z]\w*$", module_name(name)) is not None
