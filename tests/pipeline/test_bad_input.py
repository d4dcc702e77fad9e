"""Tests bad input through the command line: exit code 2 and one message in three parts, or a status and code 3."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from gradscore.cli.main import main
from tests.model.folders import save_adapter, save_llama
from tests.pipeline.runs import CONTEXT, WARMUP, alpaca_rows, read, write_jsonl


class Line:
    """The command line, run inside the test process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], model: Path, folder: Path) -> None:
        self.capsys = capsys
        self.model = model
        self.folder = folder

    def score(self, dataset: Path, **options: Any) -> tuple[int, str, str]:
        """Return the exit code of scoring, its stdout and its stderr."""
        options = {
            "model": self.model, "dataset": dataset, "output": self.folder / "s.parquet", **WARMUP, **options
        }  # fmt: skip
        words = ["score"]
        for name, value in options.items():
            flag = "--" + name.replace("_", "-")
            words += [flag] if value is True else [flag, str(value)]
        code = main(words)
        captured = self.capsys.readouterr()
        assert "Traceback" not in captured.err, captured.err
        return code, captured.out, captured.err

    def refused(self, dataset: Path, *parts: str, **options: Any) -> None:
        """Require exit code 2 and one message with these parts in this order; nothing is left behind."""
        code, out, err = self.score(dataset, **options)
        message = err[err.index("gradscore: ") :]
        assert code == 2, err
        assert out == ""
        at = 0
        for part in parts:
            assert part in message[at:], message
            at = message.index(part, at) + len(part)
        assert not (self.folder / "s.parquet").exists()

    def table(self) -> pd.DataFrame:
        """Return the score table."""
        return read(self.folder / "s.parquet")


@pytest.fixture
def line(capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path) -> Line:
    return Line(capsys, model, tmp_path)


def text_file(path: Path, content: str, encoding: str = "utf-8") -> Path:
    """Write the text as it is, line ends included, and return the path."""
    path.write_bytes(content.encode(encoding))
    return path


def lines_of(count: int, end: str = "\n") -> str:
    """Return alpaca rows as JSON lines."""
    return "".join(json.dumps(row) + end for row in alpaca_rows(count))


def test_a_missing_file(line: Line, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rows.jsonl", alpaca_rows(1))
    line.refused(
        tmp_path / "row.jsonl", "There is no file", "similar names there: rows.jsonl", "Check the path"
    )


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file(line: Line, tmp_path: Path, content: str) -> None:
    line.refused(text_file(tmp_path / "d.jsonl", content), "d.jsonl has no rows", "Check that")


def test_a_broken_line_is_named(line: Line, tmp_path: Path) -> None:
    dataset = text_file(tmp_path / "d.jsonl", lines_of(6) + "\n" + '{"instruction": "a", output: 3}\n')
    line.refused(dataset, "cannot be read", "line 8 column 22: broken JSON", "--skip-bad-rows")
    code, out, _ = line.score(dataset, skip_bad_rows=True)
    assert code == 3  # finished, with a row that failed
    assert "6 ok, 1 invalid: line 8 column 22: broken JSON" in out


def test_utf16(line: Line, tmp_path: Path) -> None:
    dataset = text_file(tmp_path / "d.jsonl", lines_of(3), "utf-16")
    line.refused(dataset, "is encoded in UTF-16", "first bytes are ff fe", "iconv -f UTF-16")


@pytest.mark.parametrize(("start", "end"), [("\ufeff", "\n"), ("", "\r\n"), ("\ufeff", "\r\n")])
def test_a_byte_order_mark_and_windows_line_ends_change_nothing(
    line: Line, tmp_path: Path, start: str, end: str, expected: pd.DataFrame
) -> None:
    code, _, _ = line.score(text_file(tmp_path / "d.jsonl", start + lines_of(20, end)))
    assert code == 0
    columns = ["row_index", "row_key", "n_tokens", "loss", "gsnr"]
    pd.testing.assert_frame_equal(line.table()[columns], expected[columns])


def test_csv_with_quotes_and_line_ends(line: Line, tmp_path: Path) -> None:
    content = 'instruction,output\n"Say ""hi"", please","Hi.\nAnd again:\r\nhi."\nSay two,2\n'
    code, _, _ = line.score(text_file(tmp_path / "d.csv", content), views=1)
    assert code == 0
    assert line.table()["row_index"].tolist() == [0, 1]
    assert line.table()["n_target_tokens"].tolist() == [len("Hi.\nAnd again:\r\nhi.") + 1, 2]  # and the stop


def test_missing_columns(line: Line, tmp_path: Path) -> None:
    dataset = write_jsonl(tmp_path / "d.jsonl", [{"instruction": "a", "solution": "b"}])
    line.refused(dataset, "of no known schema", "instruction, solution", "--columns instruction=")


def test_missing_null_and_numeric_fields_are_rows_with_a_status(line: Line, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [*alpaca_rows(4), {"instruction": "a"}, {"instruction": None, "output": "b"}]
    rows += [{"instruction": "Add", "output": 3}, {"instruction": 7, "output": "seven"}, {}]
    code, out, err = line.score(write_jsonl(tmp_path / "d.jsonl", rows))
    status = line.table()["status"]
    assert code == 3, (out, err)
    assert (status[:4] == "ok").all()
    assert status[[4, 5, 8]].str.match(r"invalid: .*(instruction|output)").all(), status.tolist()
    assert (status[[6, 7]] == "ok").all(), status.tolist()  # a number is text enough


def test_a_nul_character_is_text(line: Line, tmp_path: Path) -> None:
    rows = [*alpaca_rows(3), {"instruction": "a\0b", "input": "", "output": "c\0d"}]
    code, _, _ = line.score(write_jsonl(tmp_path / "d.jsonl", rows))
    assert code == 0
    assert set(line.table()["status"]) == {"ok"}


def test_a_row_of_6000_words(line: Line, tmp_path: Path) -> None:
    rows = [*alpaca_rows(3), {"instruction": "Go on", "output": "word " * 6000}]
    code, _, _ = line.score(write_jsonl(tmp_path / "d.jsonl", rows))
    assert code == 0
    assert line.table()["truncated"].tolist() == [False] * 3 + [True]
    assert line.table()["n_tokens"][3] == CONTEXT
    assert line.table()["gsnr"].notna().all()


def test_all_targets_truncated_away(line: Line, dataset: Path) -> None:
    line.refused(dataset, "None of 20 rows", "has a target token", "gradscore preview", max_length=4)
    assert not (line.folder / "s.run").exists()


def test_more_tokens_than_the_model_takes(line: Line, dataset: Path) -> None:
    line.refused(dataset, "--max-length 257", "256 tokens", max_length=257)


def test_an_unknown_category_field(line: Line, dataset: Path) -> None:
    line.refused(
        dataset,
        "'topic' is in no row",
        "instruction, input, output, kind",
        "--category-field",
        category_field="topic",
    )


def test_a_path_that_is_no_model(line: Line, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    line.refused(dataset, "is no model", "no config.json", "Pass a folder", model=tmp_path / "empty")
    line.refused(dataset, "does not exist", "Check the path", model=tmp_path / "nowhere")
    line.refused(dataset, "no model can be loaded from", "Pass its folder", model=dataset)


def test_an_adapter_of_another_model(line: Line, dataset: Path, tmp_path: Path) -> None:
    adapter = save_adapter(tmp_path / "adapter", save_llama(tmp_path / "wide", hidden_size=32))
    line.refused(dataset, "does not belong to", "size mismatch", "pass that as --model", adapter=adapter)
    line.refused(dataset, "is a PEFT adapter, not a model", "--adapter", model=adapter)
    code, _, _ = line.score(dataset)  # the mistakes are not in the way
    assert code == 0


def broken_model(folder: Path, *, everywhere: bool) -> Path:
    """Write a model whose embedding holds NaN: of every token, or of the letter Q only."""
    save_llama(folder, max_position_embeddings=CONTEXT)
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    embedding[slice(None) if everywhere else vocabulary["Q"]] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_a_model_of_nan_weights(line: Line, dataset: Path, tmp_path: Path) -> None:
    model = broken_model(tmp_path / "nan", everywhere=True)
    line.refused(dataset, "gives loss nan", "before anything was learned", "Look for NaN", model=model)
    line.refused(
        dataset, "no finite gradient", "all 4 rows", "--dtype float32", model=model, view_source="single"
    )


def test_a_row_whose_gradient_is_nan_has_a_status_and_the_others_a_score(line: Line, tmp_path: Path) -> None:
    model = broken_model(tmp_path / "nan", everywhere=False)
    rows = alpaca_rows(8)
    rows[5] = {**rows[5], "instruction": "Quote"}
    dataset = write_jsonl(tmp_path / "d.jsonl", rows)
    code, out, _ = line.score(dataset, model=model, view_source="single")
    assert code == 3
    assert "7 ok, 1 non_finite" in out
    table = line.table()
    assert table["status"].tolist() == ["ok"] * 5 + ["non_finite"] + ["ok"] * 2
    assert table.loc[5, ["loss", "grad_norm", "gsnr", "layer_norms"]].isna().all()
