"""The fast engine: one batched forward and backward pass, per-sample gradients from hooks on the way.

A forward hook on every counted module keeps its input; a hook on its output receives the gradient that comes
back and reduces the pair at once (`rules`, `reduction`), so that nothing larger than one layer is alive at a
time. Weight gradients are never computed: no parameter requires a gradient. The graph starts at the *output* of
the first counted module, which is made a leaf, so that nothing is propagated below it. That is where the time is
saved: a pass that forms no weight gradient needs about two thirds of a training step. Plain LoRA layers are run as
one function (`lora`) that takes the place of hooks on A and B.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gradscore.data.batch import Batch
from gradscore.errors import UnsupportedError
from gradscore.gradients.engine import GradientEngine, SampleGradients
from gradscore.gradients.lora import FusedLayer, fused, fused_layer
from gradscore.gradients.parameters import CountedParameter
from gradscore.gradients.reduction import Kept, Reduction
from gradscore.gradients.rules import (
    NEEDS_OUTPUT,
    Call,
    Rule,
    by_row,
    is_position_table,
    linear_rule,
    rule_for,
)
from gradscore.model.forward import PLAIN_HEADS, base_model, sample_losses
from gradscore.model.forward import Reduction as LossReduction


def unsupported_by_hooks(
    model: nn.Module, parameters: tuple[CountedParameter, ...], reduction: Reduction
) -> list[str]:
    """Return the names of counted parameters that the hooks engine has no formula for; empty if it has all.

    Also named are parameters shared by several modules whose exact norm cannot be had from its parts, and those of
    an output head that `sample_losses` shows the targets of all rows in one sequence.
    """
    causal = base_model(model)
    mixes_rows = causal.config.model_type not in PLAIN_HEADS
    head_modules = set(causal.get_output_embeddings().modules()) if mixes_rows else set()
    missing = []
    for parameter in parameters:
        rules = [rule_for(model, name) for name in parameter.module_names]
        is_split = len(rules) > 1 and not reduction.adds_up(model.get_parameter(parameter.name).shape)
        is_mixed = any(model.get_submodule(name) in head_modules for name in parameter.module_names)
        if None in rules or is_split or is_mixed:
            missing.append(parameter.name)
    return missing


def has_positions(model: nn.Module, parameters: tuple[CountedParameter, ...]) -> bool:
    """Return whether every counted parameter is the matrix of one linear map that is applied to every token.

    The head is not: it is shown the positions that predict a target, and no others.
    """
    head = base_model(model).get_output_embeddings()
    return all(
        len(p.module_names) == 1
        and p.attribute == "weight"
        and rule_for(model, p.module_names[0]) is linear_rule
        and model.get_submodule(p.module_names[0]) not in set(head.modules())
        for p in parameters
    )


class HooksEngine(GradientEngine):
    """Per-sample gradients from module hooks; the model's parameters are frozen by it."""

    name = "hooks"

    def __init__(
        self,
        model: nn.Module,
        parameters: tuple[CountedParameter, ...],
        reduction: Reduction,
        loss: LossReduction = "mean",
    ) -> None:
        missing = unsupported_by_hooks(model, parameters, reduction)
        if missing:
            counted = sum(p.numel for p in parameters)
            uncovered = sum(p.numel for p in parameters if p.name in missing)
            raise UnsupportedError(
                f"The hooks engine has no formula for {len(missing)} of the counted parameters "
                f"({uncovered / counted:.1%} of all counted coordinates), such as {', '.join(missing[:3])}. "
                "Use --engine loop, which covers everything, or count other --parameters."
            )
        super().__init__(model.requires_grad_(False), parameters, reduction, loss)
        self.modules: dict[str, dict[str, str]] = defaultdict(dict)
        for parameter in parameters:
            for module_name in parameter.module_names:
                self.modules[module_name][parameter.attribute] = parameter.name
        head = base_model(model).get_output_embeddings()
        self.counts_head = any(model.get_submodule(name) is head for name in self.modules)

    def gradients(self, batch: Batch) -> SampleGradients:
        """Return the gradients of every row from one forward and one backward pass.

        Raises:
            UnsupportedError: a counted module was called in a way in which rows cannot be told apart.
        """
        received: dict[str, list[Kept]] = defaultdict(list)
        layers = self._fused_layers()
        receivers = {
            name: _LoraReceiver(name, layer.adapter, batch, self, received) for name, layer in layers.items()
        }
        with torch.enable_grad():
            with fused(layers, receivers), self._hooked(batch, received, layers):
                losses = sample_losses(self.model, batch, self.loss, call_head=self.counts_head)
            if losses.requires_grad:  # else no counted module was called, and `_complete` says so
                losses.sum().backward()
        kept = [self._complete(parameter, received[parameter.name]) for parameter in self.parameters]
        return SampleGradients(
            losses=losses.detach(),
            norms_squared=torch.stack([k.norm_squared for k in kept], 1),
            vectors=tuple(k.vector for k in kept),
        )

    def _fused_layers(self) -> dict[str, FusedLayer]:
        """Return the LoRA layers of which A and B alone are counted, and which are of the plain kind at this moment.

        Where the base weight is counted too, its module must be called for its hook to see anything.
        """
        layers = {}
        for layer_name in {name.partition(".lora_A.")[0] for name in self.modules if ".lora_A." in name}:
            layer = fused_layer(self.model.get_submodule(layer_name))
            counts_b = layer is not None and f"{layer_name}.lora_B.{layer.adapter}" in self.modules
            if layer is not None and counts_b and f"{layer_name}.base_layer" not in self.modules:
                layers[layer_name] = layer
        return layers

    def _complete(self, parameter: CountedParameter, parts: list[Kept]) -> Kept:
        """Return the sum of a parameter's contributions.

        A parameter that nothing came back for may be unused, or used in a way that hooks do not see. The two
        cannot be told apart here, so neither is passed off as a zero gradient.
        """
        if not parts:
            raise UnsupportedError(
                f"No gradient came back to the counted parameter {parameter.name} through its module. Leave it out "
                "with a regular expression in --parameters if the loss does not depend on it, or use --engine loop."
            )
        if len(parts) > 1 and not self.reduction.adds_up(self.model.get_parameter(parameter.name).shape):
            raise UnsupportedError(
                f"{parameter.name} is used {len(parts)} times in one forward pass, and its exact norm cannot be had "
                "from the parts. Use --norms projected, --projection 0, or --engine loop."
            )
        return self.reduction.sum(parts)

    @contextmanager
    def _hooked(
        self, batch: Batch, received: dict[str, list[Kept]], layers: dict[str, FusedLayer]
    ) -> Iterator[None]:
        """Put hooks on all counted modules but those of fused layers; take them off again even after an error."""
        handles = []
        try:
            for module_name, names in self.modules.items():
                if module_name.partition(".lora_")[0] in layers:
                    continue
                module = self.model.get_submodule(module_name)
                rule = rule_for(self.model, module_name)
                assert rule is not None, f"{module_name} passed the check at construction"
                hook = _ForwardHook(module_name, names, rule, batch, self.reduction, received)
                handles.append(module.register_forward_hook(hook, with_kwargs=True))
            yield
        finally:
            for handle in handles:
                handle.remove()


class _LoraReceiver:
    """Takes what a fused LoRA layer gives in the backward pass, and keeps the gradients of A and B."""

    def __init__(
        self,
        layer_name: str,
        adapter: str,
        batch: Batch,
        engine: HooksEngine,
        received: dict[str, list[Kept]],
    ) -> None:
        self.names = [f"{layer_name}.lora_{part}.{adapter}" for part in "AB"]
        self.shape = batch.input_ids.shape
        self.engine, self.received = engine, received

    def __call__(self, x: Tensor, h: Tensor, e: Tensor, u: Tensor) -> None:
        for module_name, inputs, gradient in zip(self.names, (x, h), (u, e), strict=True):
            name = self.engine.modules[module_name]["weight"]
            inputs, gradient = (by_row(v, self.shape, module_name).flatten(1, -2) for v in (inputs, gradient))
            self.received[name].append(self.engine.reduction.linear(name, inputs, gradient))


class _ForwardHook:
    """Binds each call of a module to the gradient that comes back for that call's output."""

    def __init__(
        self,
        module_name: str,
        names: Mapping[str, str],
        rule: Rule,
        batch: Batch,
        reduction: Reduction,
        received: dict[str, list[Kept]],
    ) -> None:
        self.module_name, self.names, self.rule = module_name, names, rule
        self.shape = batch.input_ids.shape
        self.reduction, self.received = reduction, received

    def __call__(
        self, module: nn.Module, arguments: tuple[Tensor, ...], keywords: dict[str, Any], output: Tensor
    ) -> Tensor | None:
        x = arguments[0].detach()
        expanded = None
        if is_position_table(module, x, self.shape[0]):
            # One lookup serves all rows; give each row its own, so that gradients come back apart.
            output = expanded = output.detach().expand(self.shape[0], -1, -1).clone()
        if not output.requires_grad:
            output.requires_grad_(True)
        call = Call(
            module_name=self.module_name,
            module=module,
            names=self.names,
            shape=self.shape,
            x=x,
            output=output.detach() if self.rule in NEEDS_OUTPUT else None,
            keywords=keywords,
        )
        output.register_hook(lambda e: self._receive(call, e))
        return expanded

    def _receive(self, call: Call, e: Tensor) -> None:
        for name, kept in self.rule(call, e.detach(), self.reduction).items():
            self.received[name].append(kept)
