"""Tests that anyone can recompute the scores: from the run folder, with plain peft and autograd alone."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from gradscore.pipeline import preview_json
from tests.pipeline.runs import score_config

MOMENTUM = 0.9


def adapter_folders(run: Path) -> list[Path]:
    """Return the views' PEFT folders, oldest first."""
    views = json.loads((run / "views" / "views.json").read_text())["views"]
    return [run / "views" / view["path"] for view in views]


def plain_gradient(
    model: PeftModel, input_ids: list[int], target_mask: list[int]
) -> tuple[float, np.ndarray]:
    """Return a row's loss and its gradient over the adapter, from the model's own logits."""
    ids = torch.tensor(input_ids)
    logits = model(input_ids=ids[None]).logits[0]
    is_target = torch.tensor(target_mask, dtype=torch.bool)[1:]
    log_p = logits[:-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
    loss = -log_p[is_target].mean()
    lora = [p for name, p in model.named_parameters() if "lora_" in name]
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, lora)])
    return float(loss.detach()), gradient.double().numpy()


def test_loss_norm_and_gsnr_follow_from_the_run_folder(
    finished: Path, model: Path, dataset: Path, expected: pd.DataFrame
) -> None:
    chosen = {0, 7, 10, 19}
    records = [
        record
        for record in preview_json(score_config(model=model, dataset=dataset))
        if record["row_index"] in chosen
    ]
    losses, gradients = [], []
    folders = adapter_folders(finished.with_suffix(".run"))
    assert len(folders) == 3
    for folder in folders:
        base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        adapted = PeftModel.from_pretrained(base, folder, is_trainable=True).eval()
        results = [plain_gradient(adapted, r["input_ids"], r["target_mask"]) for r in records]
        losses.append([loss for loss, _ in results])
        gradients.append([gradient for _, gradient in results])

    weights = MOMENTUM ** np.arange(len(folders) - 1, -1, -1)
    weights /= weights.sum()
    concentration = (weights**2).sum()
    for place, record in enumerate(records):
        g = np.stack([view[place] for view in gradients])
        mean = weights @ g
        variance = weights @ (g**2).sum(1) - mean @ mean
        noise = variance / (1 - concentration)
        signal = max(mean @ mean - concentration * noise, 0.0)
        row = expected.iloc[record["row_index"]]
        assert row["row_key"] == record["row_key"]
        assert row["n_tokens"] == len(record["input_ids"])
        assert row["n_target_tokens"] == sum(record["target_mask"])
        norms = np.linalg.norm(g, axis=1)
        found = {
            "loss": np.mean([view[place] for view in losses]),
            "loss_last": losses[-1][place],
            "grad_norm": norms.mean(),
            "grad_norm_first": norms[0],
            "gsnr": np.sqrt(mean @ mean / variance),
            "gsnr_unbiased": np.sqrt(signal / noise),
        }
        for name, value in found.items():
            assert row[name] == pytest.approx(value, rel=1e-4), (record["row_index"], name)
