"""A pipeline that only remembers what it was asked, so that the command line is tested without a model."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import gradscore
from gradscore.config import RunConfig
from gradscore.records import Reporter


@dataclass
class FakePipeline:
    """What the command line calls, with results that a test can set."""

    configs: list[RunConfig] = field(default_factory=list)
    status_counts: dict[str, int] = field(default_factory=lambda: {"ok": 8})
    error: BaseException | None = None
    warning: str | None = None
    advised_by: str | None = None
    preview: Any = None
    records: list[dict[str, Any]] = field(default_factory=list)
    n_rows_asked: int | None = None
    diagnosis: Any = None

    def _called(self, config: RunConfig) -> None:
        self.configs.append(config)
        if self.error is not None:
            raise self.error

    def score_dataset(self, config: RunConfig, reporter: Reporter) -> SimpleNamespace:
        self._called(config)
        reporter.start("scoring", 8)
        reporter.advance(8)
        return SimpleNamespace(
            table=config.table.output,
            run_folder=str(config.table.output).replace(".parquet", ".run"),
            n_rows=8,
            status_counts=self.status_counts,
            seconds=4.0,
            n_scored=8,
            rows_per_second=2.0,
            summary={"gsnr_floor": 0.57735, "engine": "hooks", "gsnr_quartiles": (1.0, 2.0, 3.0)},
            warning=self.warning,
            advised_by=self.advised_by,
        )

    def filter_dataset(self, config: RunConfig, reporter: Reporter) -> SimpleNamespace:
        self._called(config)
        output = str(config.emit.output)
        return SimpleNamespace(
            output=output,
            manifest=output + ".manifest.json",
            dropped=output + ".dropped.parquet",
            n_rows=8,
            n_kept=2,
            reason_counts={"kept: top-k": 2, "past the cut": 6},
            messages=["the cut lies at gsnr 1.5"],
        )

    def doctor_dataset(self, config: RunConfig, reporter: Reporter) -> Any:
        self._called(config)
        return self.diagnosis

    def preview_dataset(self, config: RunConfig, n_rows: int | None, reporter: Reporter) -> Any:
        self._called(config)
        self.n_rows_asked = n_rows
        return self.preview

    def preview_json(self, config: RunConfig, reporter: Reporter) -> Iterator[dict[str, Any]]:
        self._called(config)
        yield from self.records


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    fake = FakePipeline()
    module = ModuleType("gradscore.pipeline")
    for name in ("doctor_dataset", "score_dataset", "filter_dataset", "preview_dataset", "preview_json"):
        setattr(module, name, getattr(fake, name))
    monkeypatch.setitem(sys.modules, "gradscore.pipeline", module)
    monkeypatch.setattr(gradscore, "pipeline", module, raising=False)
    return fake
