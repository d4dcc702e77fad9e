"""The yardstick engine: torch.func's vmap over grad, with the whole model as one function of its parameters.

Exact on any architecture that functorch accepts, which leaves out data-dependent control flow such as the
routing of expert layers. It computes every gradient of a chunk of rows before anything is reduced, so that
its memory is rows x counted parameters; the chunk is chosen to keep that under `GRADIENTS_PER_CHUNK`.
No attention mask is passed: rows start in the first column, and the mask code of transformers branches on data.
"""

from typing import cast

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional

from gradscore.data.batch import Batch, collate
from gradscore.errors import UnsupportedError
from gradscore.gradients.engine import GradientEngine, SampleGradients
from gradscore.model.forward import wide

GRADIENTS_PER_CHUNK = 2**26
"""Gradient entries alive at a time: 256 MiB in float32."""


class VmapEngine(GradientEngine):
    """torch.func `vmap(grad(loss))` over `functional_call`."""

    name = "vmap"

    def gradients(self, batch: Batch) -> SampleGradients:
        """Return the gradients of every row, a chunk of rows at a time.

        Raises:
            UnsupportedError: functorch refuses the model.
        """
        if not batch.is_right_padded:
            batch = collate(batch.rows, pad_id=0, device=batch.input_ids.device)
        n_rows = max(1, GRADIENTS_PER_CHUNK // sum(parameter.numel for parameter in self.parameters))
        pairs = zip(batch.input_ids.split(n_rows), batch.target_mask.split(n_rows), strict=True)
        chunks = [self._chunk(input_ids, target_mask) for input_ids, target_mask in pairs]
        return SampleGradients(
            losses=torch.cat([chunk.losses for chunk in chunks]),
            norms_squared=torch.cat([chunk.norms_squared for chunk in chunks]),
            vectors=tuple(
                torch.cat(parts) for parts in zip(*(chunk.vectors for chunk in chunks), strict=True)
            ),
        )

    def _chunk(self, input_ids: Tensor, target_mask: Tensor) -> SampleGradients:
        values = {p.name: self.model.get_parameter(p.name).detach() for p in self.parameters}
        per_row = vmap(grad_and_value(self._row_loss), in_dims=(None, 0, 0), randomness="different")
        try:
            gradients, losses = per_row(values, input_ids, target_mask)
        except RuntimeError as error:
            if "vmap" not in str(error) and "transform" not in str(error):
                raise
            raise UnsupportedError(
                f"The vmap engine cannot run {type(self.model).__name__}: functorch refuses it ({_first_line(error)}). "
                "Use --engine hooks or --engine loop."
            ) from error
        kept = [self.reduction.formed(p.name, gradients.pop(p.name)) for p in self.parameters]
        return SampleGradients(
            losses=losses.detach(),
            norms_squared=torch.stack([k.norm_squared for k in kept], 1),
            vectors=tuple(k.vector for k in kept),
        )

    def _row_loss(self, values: dict[str, Tensor], input_ids: Tensor, target_mask: Tensor) -> Tensor:
        arguments = {"input_ids": input_ids[None], "use_cache": False}
        logits = functional_call(self.model, values, args=(), kwargs=arguments, tie_weights=True).logits[
            0, :-1
        ]
        # Cast to a Tensor: functorch hands over a wrapper that the type checker does not know.
        token_losses = functional.cross_entropy(wide(cast(Tensor, logits)), input_ids[1:], reduction="none")
        counted = torch.where(target_mask[1:], token_losses, torch.zeros_like(token_losses)).sum()
        return counted / target_mask.sum() if self.loss == "mean" else counted


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:120]
