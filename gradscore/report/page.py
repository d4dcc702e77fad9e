"""One self-contained HTML page from a study: no request leaves it, and nothing in a row is ever run.

Three walls hold the text of rows: the template escapes everything, JSON inside the page has its angle brackets
escaped, and a content security policy runs only scripts with this page's nonce and allows no connection at all.
"""

import hashlib
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from gradscore import __version__
from gradscore.filter.noise import order_noise
from gradscore.report.charts import CONFIG
from gradscore.report.columns import LENGTH
from gradscore.report.examples import GROUPS
from gradscore.report.picture import Picture, Records
from gradscore.report.pictures import SCATTER_ROWS, column_title
from gradscore.report.profile import SAMPLED_ROWS
from gradscore.report.study import Study
from gradscore.report.untrusted import visible
from gradscore.report.words import Words

OPENING_CHARACTERS = 110
MAX_EXAMPLE_COLUMNS = 8
SECTIONS = ("cut", "readings", "confounds", "scatters", "distributions", "directions", "rows", "columns")


def render_page(study: Study, pictures: Sequence[Picture], rows: Records, words: Words) -> str:
    """Return the page as HTML text."""
    table = study.table
    missing = [
        words(f"no_{what}")
        for what, name in (("sketch", "pair-cosines"), ("layers", "layers"))
        if not any(picture.name == name for picture in pictures)
    ]
    return render_template(
        "page.html.jinja",
        words,
        charts={picture.name: picture.chart.to_dict() for picture in pictures},
        rows=rows,
        name=visible(Path(table.metadata["source"]["dataset"]).name, 120),
        made=_made(study, words),
        pictures=pictures,
        readings=study.readings,
        warnings=_warnings(study, words),
        headline=_headline(study, words),
        summary=_summary(study, words),
        sections=[(name, words(f"section.{name}", by=study.config.by)) for name in SECTIONS],
        counts={words(f"code.{code}"): count for code, count in study.decisions.counts().items()},
        correlation=_correlation(study, words),
        by=study.config.by,
        missing=missing,
        text_problem=None if study.text_problem is None else visible(study.text_problem, 1000),
        groups=[group for group in GROUPS if any(example.group == group for example in study.examples)],
        examples=study.examples,
        example_columns=_example_columns(study),
        has_categories=any(example.category is not None for example in study.examples),
        columns=study.columns,
    )


def render_template(
    template: str, words: Words, *, charts: dict[str, Any], rows: Records, **values: Any
) -> str:
    """Return a template of this folder as HTML with style, scripts and chart library in it.

    Args:
        template: file name in this folder.
        words: sentences of the page.
        charts: Vega-Lite charts by name.
        rows: the data set that charts share under the name `rows`.
        values: what else the template names; all text in it is escaped.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    content = {"charts": charts, "rows": rows, "config": CONFIG}
    nonce = hashlib.sha256(
        repr((content, sorted(values.items(), key=lambda item: item[0]))).encode()
    ).hexdigest()
    return environment.from_string(_read(template)).render(
        words=words,
        charts=content,
        number=shown_number,
        measure=shown_measure,
        opening=_opening,
        nonce=nonce[:32],
        # Ours and the library's, not the dataset's.
        style=Markup(_read("page.css")),
        script=Markup(_read("page.js")),
        bundle=Markup(_chart_library()),
        **values,
    )


def shown_number(value: float) -> str:
    """Return a number in at most four digits, as a person reads it."""
    if not math.isfinite(value):
        return "–"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}"


def shown_measure(name: str, value: float) -> str:
    """Return the value of a measure: shares in per cent, other numbers as they are."""
    return f"{value:.1%}" if "share" in name else shown_number(value)


@cache
def _chart_library() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script; bundling takes seconds, so it is done once a process."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")


def _read(name: str) -> str:
    return (files("gradscore.report") / name).read_text(encoding="utf-8")


def _opening(fields: Sequence[tuple[str, str]]) -> str:
    """Return the beginning of a row's text on one line."""
    text = " · ".join(" ".join(text.split()) for _, text in fields)
    return text if len(text) <= OPENING_CHARACTERS else text[:OPENING_CHARACTERS] + " …"


def _made(study: Study, words: Words) -> str:
    metadata = study.table.metadata
    return words(
        "made",
        version=__version__,
        table=visible(str(study.table.path), 200),
        model=visible(str(metadata.get("model", {}).get("name", words("unknown"))), 200),
        views=len(metadata.get("views", [])) or words("unknown"),
        engine=metadata.get("gradients", {}).get("engine", words("unknown")),
    )


def _warnings(study: Study, words: Words) -> list[str]:
    """Return the warnings of the cut; that the order may be noise in the language of the page."""
    noise = order_noise(study.table)
    own = None if noise is None else noise.warning
    found = [warning for warning in study.decisions.warnings if warning != own]
    shown = [visible(warning.removeprefix("Warning: "), 1000) for warning in found]
    if noise is None or len(found) == len(study.decisions.warnings):
        return shown
    name = "members" if noise.n_members > 1 else "views"
    return [words(f"warning.noise_{name}", error=noise.error, spread=noise.spread), *shown]


def _headline(study: Study, words: Words) -> list[tuple[str, str]]:
    decisions, values = study.decisions, study.profile.values
    found: list[tuple[str, float | None]] = [
        (words("rows"), float(len(decisions))),
        (words("scored"), float((decisions.rank > 0).sum())),
        (words("kept"), float(decisions.keep.sum())),
        (words("undecided"), float(study.cut.undecided.sum()) if study.cut.error_column else None),
        (words("median_of", name="gsnr"), values.get("gsnr_median")),
        (words("noise_floor"), study.table.metadata.get("noise_floor")),
        (words("median_of", name="loss"), values.get("loss_median")),
        (words("median_of", name="grad_norm"), values.get("norm_median")),
        (words("median_of", name=LENGTH), values.get("length_median")),
    ]
    noise = order_noise(study.table)
    if noise is not None:
        found[6:6] = [(words("error_of"), noise.error), (words("spread_of"), noise.spread)]
    return [(label, shown_number(value)) for label, value in found if value is not None]


def _summary(study: Study, words: Words) -> list[str]:
    decisions, cut = study.decisions, study.cut
    options = {"--minimum": study.config.minimum, "--maximum": study.config.maximum}
    thresholds = ", ".join(f"{option} {value}" for option, value in options.items() if value)
    n_ranked = int((decisions.rank > 0).sum())
    sentences = [
        words(
            "summary.kept",
            kept=int((decisions.keep & (decisions.rank > 0)).sum()),
            ranked=n_ranked,
            by=study.config.by,
            top_k=f"--top-k {decisions.top_k}" if cut.value is not None else thresholds or words("no_cut"),
        )
    ]
    if cut.value is not None:
        sentences[0] += " " + words("summary.cut", value=cut.value)
    if cut.error_column is not None:
        sentences.append(
            words(
                "summary.undecided",
                n=int(cut.undecided.sum()),
                share=cut.undecided.sum() / max(n_ranked, 1),
                column=cut.error_column,
                kept=int((cut.undecided & decisions.keep).sum()),
            )
        )
    elif cut.value is not None:
        sentences.append(words("summary.no_error"))
    floor = study.table.metadata.get("noise_floor")
    if floor is not None:
        sentences.append(words("summary.floor", floor=floor))
    counts = {"points": min(SCATTER_ROWS, n_ranked), "rows": len(decisions)}
    sampled = words("summary.sampled", examples=len(study.examples), lists=SAMPLED_ROWS, **counts)
    return [*sentences, sampled]


def _correlation(study: Study, words: Words) -> str:
    def shown(name: str) -> str:
        found = study.correlations.get(name)
        return words("unknown") if found is None else f"{found.rho:.2f} [{found.low:.2f}, {found.high:.2f}]"

    share = study.category_share
    return words(
        "correlation",
        by=column_title(study.config.by, words),
        length=shown(LENGTH),
        loss=shown("loss"),
        category=words("unknown") if share is None else f"{share:.0%}",
    )


def _example_columns(study: Study) -> list[str]:
    names = [column.name for column in study.columns if not column.is_detail]
    first = [study.config.by] if study.config.by not in names else []
    errors = [study.cut.error_column] if study.cut.error_column else []
    return list(dict.fromkeys([*first, *names[:MAX_EXAMPLE_COLUMNS], *errors, LENGTH]))
