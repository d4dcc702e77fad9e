"""Tests that the help page comes at once: nothing heavy is imported for it."""

import resource
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "pandas", "peft", "datasets", "pyarrow", "numpy", "sklearn", "matplotlib")
REPORT = "; import sys; print(*sorted(name for name in sys.modules if '.' not in name), file=sys.stderr)"


def imported_by(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after the statement."""
    done = subprocess.run(
        [sys.executable, "-c", statement + REPORT], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "page", ["['--help']", "['score', '--help']", "['validate', '--help']", "['demo', '--help']"]
)
def test_help_imports_nothing_heavy(page: str) -> None:
    assert imported_by(f"from gradscore.cli.main import main; main({page})").isdisjoint(HEAVY)


def test_the_test_above_would_see_a_heavy_import() -> None:
    assert "numpy" in imported_by("from gradscore.cli.main import main; import numpy; main(['--help'])")


def test_help_takes_less_than_four_tenths_of_a_second() -> None:
    # Processor time and not wall time: other work on the machine must not fail the test.
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "gradscore.cli", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.4


def test_filtering_loads_neither_torch_nor_scikit_learn_nor_matplotlib() -> None:
    names = imported_by("import gradscore.pipeline, gradscore.quality.model, gradscore.filter.advice")
    assert names.isdisjoint({"torch", "transformers", "sklearn", "matplotlib"})
    assert "pyarrow" in names
