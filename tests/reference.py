"""The slow, obviously right twin of every engine: one row, one full forward, one backward, in a loop."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradscore.data.batch import collate
from gradscore.records import EncodedRow


def row_loss(model: nn.Module, row: EncodedRow, reduction: str = "mean") -> Tensor:
    """Return one row's loss from the model's own full logits, without padding, mask or shortcuts."""
    batch = collate([row], pad_id=0)
    logits = model(input_ids=batch.input_ids, use_cache=False).logits[0]
    targets = batch.target_mask[0, 1:]
    return functional.cross_entropy(
        logits[:-1][targets], batch.input_ids[0, 1:][targets], reduction=reduction
    )


def row_gradients(
    model: nn.Module, rows: list[EncodedRow], names: list[str], reduction: str = "mean"
) -> list[dict[str, Tensor]]:
    """Return, for each row, the gradient of its loss with respect to each named parameter."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    counted = {name: parameters[name] for name in names}
    result = []
    for row in rows:
        for parameter in counted.values():
            parameter.requires_grad_(True)
        gradients = torch.autograd.grad(
            row_loss(model, row, reduction), list(counted.values()), allow_unused=True, materialize_grads=True
        )
        for parameter in counted.values():
            parameter.requires_grad_(False)
        result.append(dict(zip(counted, gradients, strict=True)))
    return result
