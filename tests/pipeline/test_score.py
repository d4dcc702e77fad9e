"""Tests scoring end to end: what the finished table holds, row by row and in its footer."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from gradscore.config import from_mapping
from gradscore.measures import parse_measures
from gradscore.pipeline import score_dataset
from gradscore.records import ScoredRow
from gradscore.table.read import read_table
from tests.pipeline.runs import MOMENTS, SCORES, alpaca_rows, read, score, score_config, write_jsonl


def metadata(table: Path) -> dict[str, object]:
    """Return the footer as docs tell a reader to get it."""
    return json.loads(pq.read_schema(table).metadata[b"gradscore"])


def test_rows_are_in_source_order_and_every_score_is_a_finite_number(expected: pd.DataFrame) -> None:
    assert set(expected.columns) == {*ScoredRow.__dataclass_fields__, *parse_measures("default")} - {
        "measures"
    }
    assert expected["row_index"].tolist() == list(range(20))
    assert expected["row_key"].is_unique
    assert set(expected["status"]) == {"ok"}
    assert set(expected["n_views"]) == {3}
    for name in (*SCORES, *MOMENTS):
        assert expected[name].between(0, 1e6).all(), name
    assert (expected["n_target_tokens"] > 0).all()
    assert (expected["n_target_tokens"] < expected["n_tokens"]).all()
    assert expected["gsnr_spread"].isna().all()  # one member
    assert expected["sketch"].isna().all()  # none was asked for


def test_the_footer_says_all_that_is_needed_to_read_trust_and_repeat(
    finished: Path, dataset: Path, model: Path, expected: pd.DataFrame
) -> None:
    footer = metadata(finished)
    assert footer["source"] == {
        "dataset": str(dataset), "format": "jsonl", "columns": ["instruction", "input", "output", "kind"],
        "n_rows": 20, "split": None, "subset": None, "data_files": None,
    }  # fmt: skip
    assert from_mapping(footer["config"]) == score_config(model=model, dataset=dataset, output=finished)
    assert footer["model"]["fingerprint"].startswith("sha256:")
    assert footer["identity"]["model_fingerprint"] == footer["model"]["fingerprint"]
    assert footer["layer_names"] == ["layer 0", "layer 1"]
    assert all(len(norms) == 2 for norms in expected["layer_norms"])
    by_view = np.stack(expected["view_layer_norms"]).reshape(-1, 3, 2)
    np.testing.assert_allclose(by_view.mean(1), np.stack(expected["layer_norms"]), rtol=1e-6)
    assert footer["noise_floor"] == pytest.approx(0.711, abs=1e-3)
    assert footer["gradients"]["engine"] == "hooks"
    check = footer["gradients"]["check"]
    assert check["coverage"] == 1.0
    assert 0 < check["max_relative_error"] < 1e-4
    assert [view["step"] for view in footer["views"]] == [3, 4, 5]
    assert {column["name"] for column in footer["columns"]} == set(expected.columns)
    assert footer["versions"].keys() >= {"gradscore", "torch", "transformers", "peft"}
    assert footer["timing"]["rows_scored"] == 20
    assert footer["rendering"].startswith("Rendered with the chat template of the tokenizer")


def test_the_footer_names_the_content_of_the_data(finished: Path, model: Path, tmp_path: Path) -> None:
    rows = alpaca_rows(20)
    rows[-1] = {**rows[-1], "output": "changed"}
    score(model=model, dataset=write_jsonl(tmp_path / "d.jsonl", rows), output=tmp_path / "s.parquet")
    other = metadata(tmp_path / "s.parquet")["identity"]["data_fingerprint"]
    assert other != metadata(finished)["identity"]["data_fingerprint"]


def test_the_saved_configuration_replays_to_the_same_table(
    finished: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    config = metadata(finished)["config"]
    config["table"]["output"] = str(tmp_path / "again.parquet")
    score_dataset(from_mapping(config))
    pd.testing.assert_frame_equal(read(tmp_path / "again.parquet"), expected)


def test_a_row_without_a_score_says_why_and_has_null_everywhere(model: Path, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [*alpaca_rows(6)]
    rows[1] = {"instruction": "Say nothing", "output": ""}
    rows[3] = {"instruction": "Say much", "output": "much " * 100}
    lines = [json.dumps(row) for row in rows]
    lines[4] = '{"instruction": "broken'
    dataset = tmp_path / "d.jsonl"
    dataset.write_text("\n".join(lines))
    outcome = score(
        model=model, dataset=dataset, output=tmp_path / "s.parquet", truncate="drop", max_length=200,
        skip_bad_rows=True, category_field="instruction", sketch=4,
    )  # fmt: skip
    table = read(tmp_path / "s.parquet")
    assert table["status"].tolist()[:4] == ["ok", "no_target_tokens", "ok", "too_long"]
    assert table["status"][4].startswith("invalid: line 5 column 17: broken JSON")
    assert outcome.status_counts == table["status"].value_counts().to_dict()
    assert outcome.n_rows == 6
    scores = [*SCORES, *MOMENTS, "gsnr_spread", "layer_norms", "view_layer_norms", "sketch"]
    is_ok = table["status"] == "ok"
    assert table.loc[~is_ok, scores].isna().all(axis=None)
    assert (table.loc[~is_ok, "n_views"] == 0).all()
    assert table.loc[is_ok, [*SCORES, *MOMENTS]].notna().all(axis=None)
    assert all(len(sketch) == 4 for sketch in table.loc[is_ok, "sketch"])
    assert table["n_tokens"][3] > 200  # what --max-length would have to be
    assert table["category"].isna().tolist() == [False] * 4 + [True, False]


def test_a_long_row_is_cut_and_says_so(model: Path, tmp_path: Path) -> None:
    rows = [*alpaca_rows(4), {"instruction": "Say much", "input": "", "output": "much " * 100}]
    dataset = write_jsonl(tmp_path / "d.jsonl", rows)
    for side in ("right", "left"):
        output = tmp_path / f"{side}.parquet"
        score(model=model, dataset=dataset, output=output, truncate=side, max_length=200)
        table = read(output)
        assert table["truncated"].tolist() == [False] * 4 + [True]
        assert table["n_tokens"][4] == 200
        assert table["loss"].notna().all()


def test_both_sides_of_a_pair_are_rows_of_their_own(model: Path, tmp_path: Path) -> None:
    rows = [{"prompt": f"Say {i}", "chosen": f"It is {i}.", "rejected": f"No, not {i}!"} for i in range(6)]
    dataset = write_jsonl(tmp_path / "d.jsonl", rows)
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", side="both")
    table = read(tmp_path / "s.parquet")
    assert table["row_index"].tolist() == [i for i in range(6) for _ in range(2)]
    assert table["side"].tolist() == ["chosen", "rejected"] * 6
    assert table["gsnr"].notna().all()
    score(model=model, dataset=dataset, output=tmp_path / "chosen.parquet")
    chosen = read(tmp_path / "chosen.parquet")
    # The warm-up sees chosen answers only, so both runs have the same views.
    both = table[table["side"] == "chosen"].reset_index(drop=True)
    pd.testing.assert_series_equal(chosen["loss"], both["loss"], rtol=1e-5)


def test_a_folder_table_is_read_as_one(
    model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    score(model=model, dataset=dataset, output=tmp_path / "scores")
    pd.testing.assert_frame_equal(read(tmp_path / "scores"), expected)
    assert len(read_table(tmp_path / "scores")) == 20
    assert not (tmp_path / "scores.run" / "parts").exists()
