"""Tests gradscore.report.make and the page: files, what the page says, and that text of rows stays text."""

import html
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gradscore.config import EmitConfig, FilterConfig, RunConfig
from gradscore.errors import ConfigError, StorageError, TableError
from gradscore.pipeline import filter_dataset
from gradscore.records import SilentReporter
from gradscore.report.make import ReportOptions, ReportOutcome, make_report
from tests.report.tables import make_table
from tests.table.rows import scored, write_table


def report(table: Path, options: ReportOptions, **config: str) -> ReportOutcome:
    return make_report(FilterConfig(table=str(table), **config), options, SilentReporter())


def page_of(table: Path, **options: str) -> str:
    output = table.with_name("report.html")
    report(table, ReportOptions(output=str(output), overwrite=True, **options), top_k="0.3")
    return output.read_text(encoding="utf-8")


class Tags(HTMLParser):
    """Collects the tags and the attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(make_table(tmp_path_factory.mktemp("report")))


def test_the_page_is_small_and_asks_for_nothing(page: str) -> None:
    assert len(page.encode()) < 2_000_000
    tags = Tags()
    tags.feed(page)
    assert not {"link", "iframe", "img", "object"} & set(tags.tags)
    assert [
        value for name, value in tags.attributes if name in ("src", "href") and not str(value).startswith("#")
    ] == []
    assert "default-src 'none'" in page
    assert "@import" not in page


def test_html_in_a_row_is_text(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert tags.tags.count("h1") == 1
    assert tags.tags.count("script") == 3
    assert not any(name.startswith("on") for name, _ in tags.attributes)
    assert html.escape("<img src=x onerror=", quote=False) in page
    assert "⟨U+202E⟩" in page
    assert "\u202e" not in page
    assert "{{ 7 * 7 }}" in page


def test_json_in_the_page_is_whole_and_has_no_markup(page: str) -> None:
    text = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)
    assert text is not None
    assert "<" not in text[1]
    content = json.loads(text[1])
    assert {row["label"] for row in content["rows"]} == {"<b>bold</b>", "plain", "(none)"}
    names = {"cut", "pair-cosines", "layers", "layers-by-view", "scatter-loss", "correlations"}
    assert names <= content["charts"].keys()
    assert "Median over 20 rows, oldest view on the left" in page
    assert '"group": "step 10"' in text[1]


def test_the_cut_its_undecided_rows_and_reasons_are_said(page: str) -> None:
    assert "12 of 40 ranked rows are kept, by gsnr (--top-k 0.3). The cut lies at 28.5." in page
    assert "2 rows (5% of the ranked) lie within one standard error (gsnr_se) of the cut" in page
    assert "dropped: past --top-k 0.3 (rank 40 of 40, gsnr 1)" in page


def test_chinese_page(tmp_path: Path) -> None:
    page = page_of(make_table(tmp_path), language="zh")
    assert '<html lang="zh">' in page
    assert "截断位置" in page


def test_a_dataset_that_is_gone_or_changed_is_said_on_the_page(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    rows = tmp_path / "rows.jsonl"
    rows.write_text(rows.read_text().replace("text of row 39", "another"))
    assert "1 of the rows shown are no longer as they were when they were scored (row 39)" in page_of(table)
    rows.unlink()
    page = page_of(table)
    assert "The dataset that was scored is no longer at" in page
    assert "text not available" in page
    outcome = report(table, ReportOptions(profile=str(tmp_path / "p.json")))
    assert any(
        "no longer at" in warning for warning in outcome.warnings
    )  # on the screen too, not the page alone


def test_without_a_sketch_the_page_says_how_to_get_one(tmp_path: Path) -> None:
    assert "--sketch 1024" in page_of(make_table(tmp_path, with_sketch=False))


def test_a_table_without_gsnr_can_be_looked_at_by_loss(tmp_path: Path) -> None:
    rows = [scored(i, gsnr=None, n_views=1) for i in range(9)] + [scored(9, status="too_long")]
    table = write_table(tmp_path / "s.parquet", rows, noise_floor=None)
    outcome = report(table, ReportOptions(output=str(tmp_path / "r.html")), by="loss")
    assert (outcome.n_rows, outcome.n_kept, outcome.n_undecided) == (10, 3, None)


def test_a_column_that_is_added_later_comes_by_itself(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    arrow = pq.read_table(table)
    pq.write_table(arrow.append_column("novelty", arrow["loss"]), table)
    assert 'data-chart="distribution-novelty"' in page_of(table)


def test_the_choice_of_a_filter_run_is_shown_from_its_manifest(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    config = RunConfig(
        filter=FilterConfig(table=str(table), by="loss", ascending=True, top_k="5"),
        emit=EmitConfig(output=str(tmp_path / "kept.jsonl")),
    )
    manifest = filter_dataset(config).manifest
    options = ReportOptions(kept=manifest, profile=str(tmp_path / "p.json"))
    assert report(table, options).n_kept == 5
    pq.write_table(pq.read_table(table).slice(1), table)
    with pytest.raises(TableError, match="was made from another score table"):
        report(table, ReportOptions(kept=manifest, profile=str(tmp_path / "q.json")))


def test_a_file_that_is_no_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("{}")
    options = ReportOptions(kept=str(tmp_path / "m.json"), profile=str(tmp_path / "p.json"))
    with pytest.raises(TableError, match="is not the manifest of a filter run"):
        report(make_table(tmp_path), options)


def test_pictures_are_written_one_by_one(tmp_path: Path) -> None:
    outcome = report(make_table(tmp_path, n=12), ReportOptions(png=str(tmp_path / "png")))
    assert (tmp_path / "png" / "cut.png").read_bytes().startswith(b"\x89PNG")
    assert len(outcome.written) == len(list((tmp_path / "png").iterdir())) > 8


def test_outputs_are_checked_before_any_work(tmp_path: Path) -> None:
    table = tmp_path / "none.parquet"
    with pytest.raises(ConfigError, match="No output was given"):
        report(table, ReportOptions())
    with pytest.raises(ConfigError, match=r"must end in \.html"):
        report(table, ReportOptions(output="r.pdf"))
    (tmp_path / "r.html").write_text("mine")
    with pytest.raises(StorageError, match="already there"):
        report(table, ReportOptions(output=str(tmp_path / "r.html")))


def test_folders_of_outputs_are_made_or_refused_before_any_work(tmp_path: Path) -> None:
    """A page into a folder that was not there failed only after the whole table had been studied."""
    new = tmp_path / "a" / "b"
    with pytest.raises(TableError, match="no score table"):
        report(tmp_path / "none.parquet", ReportOptions(output=str(new / "r.html")))
    assert new.is_dir()
    (tmp_path / "file").write_text("mine")
    for options in (
        ReportOptions(output=str(tmp_path / "file" / "r.html")),
        ReportOptions(profile=str(tmp_path / "file" / "p.json")),
        ReportOptions(png=str(tmp_path / "file" / "png")),
    ):
        with pytest.raises(
            StorageError, match=r"cannot be made: .* Give --(output|save-profile|png) another place"
        ):
            report(tmp_path / "none.parquet", options)


def test_reading_a_table_needs_no_torch() -> None:
    import subprocess

    code = "import gradscore.report.make, gradscore.report.page, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def noisy(folder: Path) -> Path:
    """Return a table whose errors of gsnr are as large as its differences."""
    rows = [scored(i, gsnr=5.0 + i / 10, gsnr_se=3.0) for i in range(40)]
    return write_table(folder / "noisy.parquet", rows)


@pytest.mark.parametrize(
    ("language", "words"), [("en", "the order by gsnr may be noise"), ("zh", "按 gsnr 的顺序可能是噪声")]
)
def test_the_doubt_about_the_order_is_in_the_language_of_the_page(
    tmp_path: Path, language: str, words: str
) -> None:
    page = page_of(noisy(tmp_path), language=language)
    assert words in page
    assert ("may be noise" in page) == (language == "en")


def test_a_profile_of_unhealthy_data_is_saved_with_a_doubt(tmp_path: Path) -> None:
    outcome = report(noisy(tmp_path), ReportOptions(profile=str(tmp_path / "p.json")))
    assert any("A reference should have none." in warning for warning in outcome.warnings)
    assert (tmp_path / "p.json").exists()


def test_a_folder_that_cannot_be_written_is_found_before_the_table_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "os.access", lambda path, mode: False
    )  # tests may run as root, who may write anywhere
    with pytest.raises(StorageError, match=r"Nothing can be written into .* Give --output another place"):
        report(tmp_path / "none.parquet", ReportOptions(output=str(tmp_path / "r.html")))


def test_the_page_shows_the_cut_by_the_column_that_a_validation_found(tmp_path: Path) -> None:
    best = {"name": "loss", "better": "low", "auroc": {"value": 0.9, "low": 0.8, "high": 0.95}}
    quality = {"evidence": {"best_column": best}, "fitted_on": {"dataset": "rows.jsonl"}}
    table = make_table(tmp_path, quality=quality)
    output = tmp_path / "report.html"
    report(table, ReportOptions(output=str(output)), by="auto", top_k="0.3")
    assert "12 of 40 ranked rows are kept, by loss (--top-k 0.3)" in output.read_text(encoding="utf-8")


def test_without_a_cut_none_is_named(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    output = tmp_path / "report.html"
    report(table, ReportOptions(output=str(output)), top_k="1.0")
    assert "40 of 40 ranked rows are kept, by gsnr (nothing is cut)." in output.read_text(encoding="utf-8")


def test_draws_of_one_model_are_not_said_to_be_trained(tmp_path: Path) -> None:
    draws = [{"name": f"dropout-{k}", "kind": "dropout", "member": 0, "step": k} for k in range(2)]
    page = page_of(make_table(tmp_path, views=draws))
    assert "the views are dropout draws of one model" in page
    assert "grows darker to the right" not in page
