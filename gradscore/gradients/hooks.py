"""The fast engine: one batched forward and backward pass, per-sample gradients from hooks on the way.

A forward hook on every counted module keeps its input; a hook on its output receives the gradient that comes
back and reduces the pair at once (`rules`, `reduction`), so that nothing larger than one layer is alive at a
time. Weight gradients are never computed: no parameter requires a gradient. The graph starts at the *output* of
the first counted module, which is made a leaf, so that nothing is propagated below it. That is where the time is
saved: a pass that forms no weight gradient needs about two thirds of a training step.
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
from gradscore.gradients.parameters import CountedParameter
from gradscore.gradients.reduction import Kept, Reduction
from gradscore.gradients.rules import NEEDS_OUTPUT, Call, Rule, is_position_table, rule_for
from gradscore.model.forward import Reduction as LossReduction
from gradscore.model.forward import base_model, sample_losses


def unsupported_by_hooks(
    model: nn.Module, parameters: tuple[CountedParameter, ...], reduction: Reduction
) -> list[str]:
    """Return the names of counted parameters that the hooks engine has no formula for; empty if it has all.

    Also named are parameters shared by several modules whose exact norm cannot be had from its parts.
    """
    missing = []
    for parameter in parameters:
        rules = [rule_for(model, name) for name in parameter.module_names]
        is_split = len(rules) > 1 and not reduction.adds_up(model.get_parameter(parameter.name).shape)
        if None in rules or is_split:
            missing.append(parameter.name)
    return missing


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
        self.model = model.requires_grad_(False)
        self.parameters = parameters
        self.reduction = reduction
        self.loss = loss
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
        with torch.enable_grad():
            with self._hooked(batch, received):
                losses = sample_losses(self.model, batch, self.loss, call_head=self.counts_head)
            losses.sum().backward()
        kept = [self._complete(parameter, received[parameter.name]) for parameter in self.parameters]
        return SampleGradients(
            losses=losses.detach(),
            norms_squared=torch.stack([k.norm_squared for k in kept], 1),
            vectors=tuple(k.vector for k in kept),
        )

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
    def _hooked(self, batch: Batch, received: dict[str, list[Kept]]) -> Iterator[None]:
        """Put hooks on all counted modules, and take them off again even after an error."""
        handles = []
        try:
            for module_name, names in self.modules.items():
                module = self.model.get_submodule(module_name)
                rule = rule_for(self.model, module_name)
                assert rule is not None, f"{module_name} passed the check at construction"
                hook = _ForwardHook(module_name, names, rule, batch, self.reduction, received)
                handles.append(module.register_forward_hook(hook, with_kwargs=True))
            yield
        finally:
            for handle in handles:
                handle.remove()


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
        self.n_rows, self.n_positions = batch.input_ids.shape
        self.reduction, self.received = reduction, received

    def __call__(
        self, module: nn.Module, arguments: tuple[Tensor, ...], keywords: dict[str, Any], output: Tensor
    ) -> Tensor | None:
        x = arguments[0].detach()
        expanded = None
        if is_position_table(module, x, self.n_rows):
            # One lookup serves all rows; give each row its own, so that gradients come back apart.
            output = expanded = output.detach().expand(self.n_rows, -1, -1).clone()
        if not output.requires_grad:
            output.requires_grad_(True)
        call = Call(
            module_name=self.module_name,
            module=module,
            names=self.names,
            n_rows=self.n_rows,
            n_positions=self.n_positions,
            x=x,
            output=output.detach() if self.rule in NEEDS_OUTPUT else None,
            keywords=keywords,
        )
        output.register_hook(lambda e: self._receive(call, e))
        return expanded

    def _receive(self, call: Call, e: Tensor) -> None:
        for name, kept in self.rule(call, e.detach(), self.reduction).items():
            self.received[name].append(kept)
