"""From a table to files: the page, the single pictures, the profile."""

import os
from dataclasses import dataclass
from pathlib import Path

from gradscore.config import FilterConfig
from gradscore.errors import ConfigError, StorageError
from gradscore.filter.advice import AUTO, resolve_by
from gradscore.records import Reporter
from gradscore.report.profile import save_profile
from gradscore.report.study import filter_of_manifest, study
from gradscore.report.words import Language, Words
from gradscore.table.aside import written_aside
from gradscore.table.read import read_table

N_EXAMPLES = 25
"""Rows listed of the best, and as many of the worst."""
PNG_WIDTH = 720
PNG_SCALE = 2
_SAFE = "The score table is untouched."


@dataclass(frozen=True)
class ReportOptions:
    """What a report run is asked for."""

    output: str | None = None
    """The page, a .html file."""
    kept: str | None = None
    """Manifest of a filter run whose choice is shown; None takes the choice from the filter's options."""
    dataset: str | None = None
    """Where the dataset is now, if not where the table says."""
    language: Language = "en"
    png: str | None = None
    """Folder for the pictures."""
    profile: str | None = None
    """File for the profile."""
    overwrite: bool = False


@dataclass(frozen=True)
class ReportOutcome:
    """What a report run did."""

    written: tuple[str, ...]
    n_rows: int
    n_kept: int
    n_undecided: int | None
    """None where the table has no error to tell it by."""
    found: tuple[str, ...]
    """Symptoms that were found, in words."""
    warnings: tuple[str, ...]


def make_report(config: FilterConfig, options: ReportOptions, reporter: Reporter) -> ReportOutcome:
    """Return the outcome of writing what is asked for.

    Raises:
        GradscoreError: the table, an option or an output cannot be used.
    """
    _check_outputs(options)
    table = str(config.table)
    if options.kept is not None:
        config = filter_of_manifest(Path(options.kept).expanduser(), Path(table).expanduser())
    if config.by == AUTO:
        config, said = resolve_by(read_table(table, lists=False), config)
        for line in said:
            reporter.message(line)
    found = study(table, config, dataset=options.dataset, n_examples=N_EXAMPLES, reporter=reporter)
    words = Words(options.language)
    written = []
    if options.profile is not None:
        save_profile(found.profile, Path(options.profile).expanduser())
        written.append(options.profile)
    if options.output is not None or options.png is not None:
        # Imported here: Altair and the chart library take a second that a profile does not need.
        from gradscore.report.page import render_page
        from gradscore.report.pictures import pictures_of

        pictures, rows = pictures_of(found, words)
        if options.png is not None:
            written += write_pictures(
                {picture.name: picture.chart.to_dict() for picture in pictures},
                rows,
                Path(options.png).expanduser(),
            )
        if options.output is not None:
            reporter.message("Writing the page")
            write_text(Path(options.output).expanduser(), render_page(found, pictures, rows, words))
            written.append(options.output)
    symptoms = tuple(
        words(f"reading.{reading.name}.symptom") for reading in found.readings if reading.state == "found"
    )
    doubts = (
        [f"The profile is one of data with findings ({'; '.join(symptoms)}). A reference should have none."]
        if options.profile is not None and symptoms
        else []
    )
    return ReportOutcome(
        written=tuple(written),
        n_rows=len(found.decisions),
        n_kept=int(found.decisions.keep.sum()),
        n_undecided=int(found.cut.undecided.sum()) if found.cut.error_column else None,
        found=symptoms,
        warnings=(*found.decisions.warnings, *doubts, *filter(None, [found.text_problem])),
    )


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all.

    Raises:
        StorageError: it cannot be written.
    """
    with written_aside(path, what="the page", safe=_SAFE) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_pictures(
    charts: dict[str, dict[str, object]], rows: list[dict[str, object]], folder: Path
) -> list[str]:
    """Write each Vega-Lite chart as NAME.png, 720 points wide, and return the paths.

    Raises:
        StorageError: the folder or a file cannot be written.
    """
    import vl_convert

    from gradscore.report.charts import CONFIG

    _make_folder(folder, "--png")
    written = []
    for name, chart in charts.items():
        datasets = {**chart.get("datasets", {}), "rows": rows}  # type: ignore[dict-item]
        alone = {**chart, "datasets": datasets, "width": PNG_WIDTH}
        path = folder / f"{name}.png"
        with written_aside(path, what=f"the picture {name}", safe=_SAFE) as temporary:
            temporary.write_bytes(vl_convert.vegalite_to_png(alone, scale=PNG_SCALE, config=CONFIG["light"]))
        written.append(str(path))
    return written


def _check_outputs(options: ReportOptions) -> None:
    """Raise unless something is asked for and no file is in the way; all mistakes are listed."""
    mistakes = []
    if options.output is None and options.png is None and options.profile is None:
        mistakes.append(
            "No output was given. Pass --output report.html, --png FOLDER or --save-profile FILE.json."
        )
    if options.output is not None and Path(options.output).suffix.lower() not in (".html", ".htm"):
        mistakes.append(f"--output {options.output} must end in .html. For pictures pass --png FOLDER.")
    if mistakes:
        raise ConfigError.of(mistakes)
    existing = [
        name
        for name in (options.output, options.profile)
        if name is not None and Path(name).expanduser().exists()
    ]
    if existing and not options.overwrite:
        raise StorageError(
            f"Results are already there: {', '.join(existing)}. Pass --overwrite to replace them, or give another name."
        )
    # Now, and not after the minutes that a large table takes.
    for option, folder in _folders(options).items():
        _make_folder(folder, option)


def _folders(options: ReportOptions) -> dict[str, Path]:
    files = {"--output": options.output, "--save-profile": options.profile}
    folders = {option: Path(name).expanduser().parent for option, name in files.items() if name is not None}
    return folders if options.png is None else {**folders, "--png": Path(options.png).expanduser()}


def _make_folder(folder: Path, option: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"The folder {folder} cannot be made: {error.strerror}. Give {option} another place."
        ) from error
    if not os.access(folder, os.W_OK):
        raise StorageError(
            f"Nothing can be written into {folder}: no permission. Give {option} another place."
        )
