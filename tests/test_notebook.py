"""Tests that docs/notebook.ipynb runs from top to bottom on a score table and shows a picture."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.table.rows import scored, write_table

NOTEBOOK = Path(__file__).parent.parent / "docs" / "notebook.ipynb"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jupyter_client's event loop, not ours
def test_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [scored(i, category=f"kind {i % 3}", gsnr_se=0.1, gsnr_unbiased=0.5) for i in range(40)]
    table = write_table(tmp_path / "scores.parquet", rows)
    monkeypatch.setenv("GRADSCORE_TABLE", str(table))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    kinds = {
        kind
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for kind in output.get("data", {})
    }
    assert {"image/png", "text/html"} <= kinds


def test_notebook_is_stored_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")] == []
