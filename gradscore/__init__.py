"""gradscore: score every sample of an instruction-tuning dataset by its gradient, and keep the best.

The line, one folder per stage, each importing only from those before it:

    data       open a dataset, render its rows, mark the target tokens, make batches
    model      load the model, attach an adapter, warm it up, keep and switch views
    gradients  per-sample gradients of the counted parameters, by three engines
    scores     GSNR and the other numbers, from the gradients of one row under all views
    table      the Parquet score table, written in parts while the run goes on
    quality    from a few columns to the probability that a row is sound
    filter     which rows are kept, and the reason for each
    emit       the kept rows in the dataset's own format, with a manifest
    validate   faults planted in a copy of the user's rows, and which columns find them
    report     what a finished table says: page, pictures, profile, comparison, `read_scores` for notebooks

`pipeline` joins them, with the steps of a scoring run in `run` and the checks before it in `doctor`; `cli` is the
command line and `demo` its sample. `records`, `errors`, `measures` and `config` are shared by all.
Importing this package loads nothing heavy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscore.report.read_scores import read_scores as read_scores

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Return `read_scores`, imported when it is first asked for: it brings numpy, pandas and pyarrow."""
    if name == "read_scores":
        from gradscore.report.read_scores import read_scores

        return read_scores
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
