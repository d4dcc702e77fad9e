"""The views that a run takes of every row, made or found as the configuration says."""

from collections.abc import Sequence
from typing import Any

from gradscore.config import ModelConfig, RunConfig
from gradscore.errors import ConfigError
from gradscore.model.checkpoints import checkpoint_views
from gradscore.model.dropout import dropout_views
from gradscore.model.trunk import Trunk
from gradscore.model.views import View, single_view, with_base, write_views
from gradscore.model.warmup import train_views
from gradscore.records import EncodedRow, Reporter
from gradscore.table.run import RunFolder


def make_views(
    config: RunConfig,
    model: Any,
    rows: list[EncodedRow],
    run: RunFolder,
    pad_id: int,
    max_tokens: int,
    trunk: Trunk | None,
    reporter: Reporter,
) -> list[View]:
    """Return the views, oldest first per member, after listing them in the run folder.

    Raises:
        GradscoreError: see `train_views` and `checkpoint_views`.
    """

    if config.model.view_source == "warmup":
        views = train_views(
            model,
            rows,
            config=config.model,
            seed=config.data.seed,
            folder=run.path,
            pad_id=pad_id,
            max_batch_tokens=max_tokens,
            trunk=trunk,
            reporter=reporter,
        )
    elif config.model.checkpoints is not None:
        views = checkpoint_views(config.model.checkpoints)
    elif config.model.view_source == "dropout":
        views = dropout_views(config.model.views, config.data.seed)
    else:
        views = [single_view()]
    if config.model.include_base and config.model.view_source != "single":
        views = with_base(views)
    write_views(run.path, views)
    if views_per_member(views) < 2:
        reporter.message(
            "Warning: there is only one view, so gsnr will be empty; losses and norms are scored. "
            "For gsnr take two views or more, such as --view-source warmup --views 4."
        )
    return views


def views_per_member(views: Sequence[View]) -> int:
    """Return how many views a row is seen under by one member."""
    return sum(view.member == views[0].member for view in views)


def planned_views(config: ModelConfig) -> tuple[int, int]:
    """Return how many views a row will be seen under by one member, and how many members there will be."""
    if config.checkpoints is not None:
        n_views = len(checkpoint_views(config.checkpoints))
    else:
        n_views = 1 if config.view_source == "single" else config.views
    has_base = config.include_base and config.view_source != "single"
    return n_views + has_base, config.members if config.view_source == "warmup" else 1


def needs_adapter(config: RunConfig) -> bool:
    """Return whether the model gets an adapter: to be trained, to be loaded, or to be counted."""
    if config.model.checkpoints is not None:
        is_adapter = checkpoint_views(config.model.checkpoints)[0].kind == "adapter"
        if config.model.adapter is not None and not is_adapter:
            raise ConfigError(
                f"--adapter {config.model.adapter} has no place on --checkpoints that are full models. Leave one of them out."
            )
        return is_adapter
    return (
        config.model.view_source == "warmup"
        or config.model.adapter is not None
        or config.gradients.parameters == "lora"
    )
