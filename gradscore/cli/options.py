"""The options of a command, generated from the configuration's fields, and the configuration they give.

The dataclasses in `config` are the only place where an option's name, type, default and sentence stand.
Precedence is command line over `--config` file over default, so each command has to know which options
were typed: it asks the parser where a value came from rather than comparing it with the default, since
typing the default is a wish too. All mistakes of the command line and the file are reported together.
"""

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from gradscore.config import SECTIONS, RunConfig, load_yaml, raise_if_any, section_mistakes
from gradscore.errors import ConfigError

# Headings in docs/cli.md; the terminal shows one plain list, since panels cut names at 80 columns.
PANELS = {
    "data": "Data",
    "model": "Model and views",
    "gradients": "Gradients",
    "scores": "Scores",
    "table": "Score table",
    "filter": "Which rows are kept",
    "emit": "Where they go",
    "validate": "Planted faults",
}
METAVARS = {int: "N", float: "X", str: "TEXT"}


@dataclass(frozen=True)
class Offer:
    """The settings that one command takes: pairs of section and field, in the order of its help page."""

    fields: tuple[tuple[str, str], ...]
    required: tuple[str, ...] = ()
    """Fields that must be given on the command line or in the file."""
    positional: str | None = None
    """The field that is given without a flag."""


def offer_sections(
    *sections: str, required: tuple[str, ...] = (), positional: str | None = None, **only: tuple[str, ...]
) -> Offer:
    """Return the offer of whole sections, and of some fields (`section=("field", ...)`) of others."""
    fields = [(section, name) for section in sections for name in field_names(section)]
    fields += [(section, name) for section, names in only.items() for name in names]
    return Offer(tuple(fields), required, positional)


def field_names(section: str) -> list[str]:
    """Return the names of a section's fields, in order."""
    return [field.name for field in dataclasses.fields(SECTIONS[section])]


def flag_of(name: str) -> str:
    """Return the flag of a field: `max_length` is `--max-length`."""
    return "--" + name.replace("_", "-")


def command_with(offer: Offer, run: Callable[..., int]) -> Callable[..., int]:
    """Return `run` as a typer command that takes the offered options and `--config`.

    `run` gets the finished `RunConfig` first, unless it offers none, then its own options by keyword.
    """

    def command(context: typer.Context, config: str | None = None, **values: Any) -> int:
        typed = {name for name in values if _was_typed(context, name)}
        given: dict[str, dict[str, Any]] = {}
        for section, name in offer.fields:
            value = values.pop(name)
            if name in typed:
                given.setdefault(section, {})[name] = value
        return run(build_config(offer, given, config), **values) if offer.fields else run(**values)

    own = list(inspect.signature(run, eval_str=True).parameters.values())[1 if offer.fields else 0 :]
    generated = [_parameter(offer, section, name) for section, name in offer.fields]
    # Arguments without a flag come first in the usage line.
    generated.sort(key=lambda parameter: parameter.name != offer.positional)
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
            *generated,
            *([_CONFIG_PARAMETER] if offer.fields else []),
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
        ]
    )
    command.__doc__ = run.__doc__
    return command


def _was_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


_CONFIG_PARAMETER = inspect.Parameter(
    "config",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE.yaml",
            help="Settings by section; options on the command line win over it.",
        ),
    ],
)


def _parameter(offer: Offer, section: str, name: str) -> inspect.Parameter:
    field = next(field for field in dataclasses.fields(SECTIONS[section]) if field.name == name)
    hint = get_type_hints(SECTIONS[section])[name]
    shown = {"help": field.metadata["help"], "rich_help_panel": PANELS[section]}
    kind: Any = str | None
    default = field.default
    if name == offer.positional:
        info: Any = typer.Argument(metavar=name.upper(), show_default=False, **shown)
    elif hint is bool:
        kind = bool
        info = typer.Option(
            f"{flag_of(name)}/--no-{name.replace('_', '-')}", show_default=bool(field.default), **shown
        )
    else:
        info = typer.Option(flag_of(name), metavar=_metavar(hint), **shown)
        default = None if default is None else str(default)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def _metavar(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "|".join(get_args(hint))
    kinds = get_args(hint) or (hint,)
    return next(METAVARS[kind] for kind in kinds if kind in METAVARS)


def build_config(offer: Offer, given: dict[str, dict[str, Any]], path: str | None) -> RunConfig:
    """Return the configuration: `given` (text as typed, by section) over the file at `path` over defaults.

    Raises:
        ConfigError: any value is wrong or a required one is missing, in either place; all are listed.
    """
    mistakes: list[str] = []
    merged: dict[str, dict[str, Any]] = {}
    for section, values in _from_file(path, mistakes).items():
        merged[section] = dict(values)
    for section, values in given.items():
        for name, typed in values.items():
            value = _parse(typed, get_type_hints(SECTIONS[section])[name])
            for problem in section_mistakes(section, {name: value}):
                mistakes.append(_as_typed(problem, section, name))
                break
            else:
                merged.setdefault(section, {})[name] = value
    sections = {section: _build_section(section, values, mistakes) for section, values in merged.items()}
    typed_names = {name for values in given.values() for name in values}
    for section, name in offer.fields:
        if name in offer.required and name not in typed_names and merged.get(section, {}).get(name) is None:
            mistakes.append(_missing(offer, section, name))
    raise_if_any(mistakes)
    return RunConfig(**sections)


def _from_file(path: str | None, mistakes: list[str]) -> dict[str, dict[str, Any]]:
    """Return the usable values of the file's sections; what is wrong with the others goes to `mistakes`."""
    if path is None:
        return {}
    usable: dict[str, dict[str, Any]] = {}
    for section, values in load_yaml(path).items():
        if section not in SECTIONS:
            mistakes.append(f"{path}: section {section!r} is unknown; sections are: {', '.join(SECTIONS)}.")
        elif not isinstance(values, dict):
            mistakes.append(f"{path}: section {section!r} must hold fields, but it is {values!r}.")
        else:
            for name, value in values.items():
                problems = section_mistakes(section, {name: value})
                mistakes.extend(f"{path}: {problem}" for problem in problems)
                if not problems:
                    usable.setdefault(section, {})[name] = value
    return usable


def _build_section(section: str, values: dict[str, Any], mistakes: list[str]) -> Any:
    try:
        return SECTIONS[section](**values)
    except ConfigError as error:
        mistakes.extend(error.mistakes)
        return None


def _parse(typed: Any, hint: Any) -> Any:
    """Return the typed text as the number that `hint` asks for, or unchanged where it is none."""
    kinds = get_args(hint) or (hint,)
    for number in (int, float):
        if number in kinds:
            try:
                return number(typed)
            except ValueError:
                return typed
    return typed


def _as_typed(problem: str, section: str, name: str) -> str:
    """Return a mistake in the words of the command line rather than of the file."""
    return problem.replace(f"{section}.{name}", flag_of(name)).replace(" or nothing (null)", "")


def _missing(offer: Offer, section: str, name: str) -> str:
    field = next(field for field in dataclasses.fields(SECTIONS[section]) if field.name == name)
    shown = name.upper() if name == offer.positional else flag_of(name)
    return f"{shown} is missing, on the command line and in {section}.{name} of a --config file. It takes: {field.metadata['help']}"
