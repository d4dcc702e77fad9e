"""Tests what makes a run the same run: other data, settings or models are refused, and mistakes leave nothing behind."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gradscore.errors import TableError
from tests.pipeline.counter import ROWS_PER_BATCH, Counter
from tests.pipeline.runs import alpaca_rows, read, score, write_jsonl
from tests.tiny_tokenizer import CHATML


def test_a_changed_source_is_refused_and_overwrite_starts_anew(
    counter: Counter, model: Path, tmp_path: Path
) -> None:
    dataset = write_jsonl(tmp_path / "d.jsonl", alpaca_rows(12))
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet", **ROWS_PER_BATCH}
    counter.batches_left = 3
    with pytest.raises(KeyboardInterrupt):
        score(**options)
    counter.batches_left = None
    write_jsonl(
        dataset, [*alpaca_rows(11), {"instruction": "Say", "input": "", "output": "other", "kind": "a"}]
    )
    with pytest.raises(
        TableError, match=r"with other settings or data.*\n  - data_fingerprint: (.|\n)*--overwrite"
    ):
        score(**options)
    score(**options, overwrite=True)
    assert len(read(tmp_path / "s.parquet")) == 12


def test_a_finished_table_of_changed_data_is_replaced_when_asked(model: Path, tmp_path: Path) -> None:
    dataset = write_jsonl(tmp_path / "d.jsonl", alpaca_rows(6))
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet"}
    score(**options)
    before = read(tmp_path / "s.parquet")
    write_jsonl(dataset, reversed(alpaca_rows(6)))
    score(**options, overwrite=True)
    assert read(tmp_path / "s.parquet")["row_key"].tolist() == before["row_key"].tolist()[::-1]


def test_a_changed_chat_template_is_refused(
    counter: Counter, model: Path, dataset: Path, tmp_path: Path
) -> None:
    template = tmp_path / "template.jinja"
    template.write_text(CHATML)
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet", **ROWS_PER_BATCH}
    options |= {"view_source": "single", "chat_template": template}
    counter.batches_left = 3
    with pytest.raises(KeyboardInterrupt):
        score(**options)
    counter.batches_left = None
    template.write_text(CHATML.replace("message['role']", "message['role'] + ':'"))
    with pytest.raises(TableError, match=r"- chat_template_fingerprint: "):
        score(**options)
    template.write_text(CHATML)
    score(**options)
    assert sorted(counter.rows) == list(range(20))


def test_other_settings_are_refused_with_what_differs(interrupted: dict[str, Any], counter: Counter) -> None:
    scored = list(counter.rows)
    with pytest.raises(TableError) as caught:
        score(**interrupted, momentum=0.5, lora_rank=4)
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("s.run holds a run with other settings or data. What differs:")
    assert lines[1:3] == ["  - model.lora_rank: 8 before, 4 now", "  - scores.momentum: 0.9 before, 0.5 now"]
    assert "--overwrite" in lines[3]
    assert counter.rows == scored
    score(**interrupted)  # the refusal has harmed nothing
    assert sorted(counter.rows) == list(range(20))


def test_another_model_is_refused(interrupted: dict[str, Any], model: Path, tmp_path: Path) -> None:
    other = shutil.copytree(model, tmp_path / "other")
    config = other / "config.json"
    config.write_text(config.read_text().replace('"rms_norm_eps": 1e-06', '"rms_norm_eps": 1e-05'))
    with pytest.raises(TableError, match=r"- model_fingerprint: "):
        score(**{**interrupted, "model": other})


@pytest.mark.parametrize(
    "mistake",
    [
        {"parameters": "no_such_name"},
        {"lora_targets": "no_such_module"},
        {"category_field": "no_such_column"},
        {"stride": 3, "projection": 4},
    ],
)
def test_a_mistake_leaves_nothing_that_is_in_the_way(
    mistake: dict[str, Any], model: Path, dataset: Path, tmp_path: Path, counter: Counter
) -> None:
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet"}
    with pytest.raises(Exception, match=r"no_such|thin"):
        score(**options, **mistake)
    assert not list(tmp_path.rglob("step-*"))  # said before the warm-up, not after it
    score(**options)
    assert sorted(counter.rows) == list(range(20))


def test_a_finished_table_is_refused_before_anything_is_loaded(
    finished: Path, dataset: Path, tmp_path: Path
) -> None:
    table = shutil.copy(finished, tmp_path / "s.parquet")
    with pytest.raises(TableError, match=r"finished score table is already at .*--overwrite"):
        score(model=tmp_path / "no-model", dataset=dataset, output=table)


def test_overwrite_scores_again(
    finished: Path, model: Path, dataset: Path, tmp_path: Path, counter: Counter, expected: pd.DataFrame
) -> None:
    table = tmp_path / "s.parquet"
    score(model=model, dataset=dataset, output=table)
    counter.rows.clear()
    with pytest.raises(TableError):
        score(model=model, dataset=dataset, output=table)
    score(model=model, dataset=dataset, output=table, overwrite=True)
    assert sorted(counter.rows) == list(range(20))
    pd.testing.assert_frame_equal(read(table), expected)
