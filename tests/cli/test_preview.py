"""Tests cli/preview.py: target tokens are marked, with colour or without, and rows can be had as JSON."""

import json
from types import SimpleNamespace

import pytest

from gradscore.cli.main import main
from gradscore.cli.preview import marked_text
from tests.cli.conftest import FakePipeline

PREVIEW = ["preview", "--dataset", "d.jsonl", "--model", "m"]
PIECES = (("Say [b]hi[/b].\n", False), ("hi", True), (" ", False), ("bye", True))


def test_without_colour_targets_stand_between_brackets(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    row = SimpleNamespace(
        row_index=4, side=None, status="ok", n_tokens=9, n_target_tokens=2, truncated=True, pieces=PIECES
    )
    pipeline.preview = SimpleNamespace(rows=(row,), counts={"rows": 12, "no_target_tokens": 3})
    assert main([*PREVIEW, "--rows", "1"]) == 0
    assert pipeline.n_rows_asked == 1
    page = capsys.readouterr().out
    assert "Say [b]hi[/b].\n⟦hi⟧ ⟦bye⟧\n" in page
    assert "row 4: ok, 9 tokens, 2 of them targets, truncated" in page
    assert "12 rows" in page
    assert "3 no target tokens" in page


def test_with_colour_the_text_is_unchanged_and_targets_are_styled() -> None:
    text = marked_text(PIECES, with_colour=True)
    assert text.plain == "Say [b]hi[/b].\nhi bye"
    assert [text.plain[span.start : span.end] for span in text.spans] == ["hi", "bye"]


def test_a_long_line_is_not_broken(pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]) -> None:
    row = SimpleNamespace(
        row_index=0,
        side="chosen",
        status="ok",
        n_tokens=1,
        n_target_tokens=1,
        truncated=False,
        pieces=(("word " * 100, True),),
    )
    pipeline.preview = SimpleNamespace(rows=(row,), counts={})
    main(PREVIEW)
    page = capsys.readouterr().out
    assert f"⟦{'word ' * 100}⟧" in page
    assert "row 0 (chosen): ok" in page


def test_control_characters_cannot_steer_the_terminal() -> None:
    text = marked_text([("a\x1b[2Jb\x00c\td\n\x7f", False)], with_colour=True)
    assert text.plain == "a␛[2Jb␀c\td\n␡"


def test_json_prints_one_object_a_line(pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.records = [{"row_index": 0, "input_ids": [1, 2]}, {"row_index": 1, "input_ids": []}]
    assert main([*PREVIEW, "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == pipeline.records


def test_no_rows_is_fewer_than_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PREVIEW, "--rows", "-1"]) == 2
    assert "--rows" in capsys.readouterr().err
