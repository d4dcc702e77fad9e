"""The schemas that are known: which columns each needs, and how one is recognised from the column names.

A schema names *roles* (instruction, output, …); each role has a usual column and sometimes a second
spelling. The first schema whose needed roles all have a column is taken, in the order of `SCHEMAS`: the
most telling columns come first, so that an alpaca file with a rendered `text` column is alpaca.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gradscore.config import DataConfig
from gradscore.errors import ConfigError, DatasetError


@dataclass(frozen=True)
class KnownSchema:
    """A schema's roles, each with the columns that may fill it, the usual one first."""

    needed: Mapping[str, tuple[str, ...]]
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


CONTEXT = {"system": ("system",), "tools": ("tools",)}

SCHEMAS: dict[str, KnownSchema] = {
    "preference": KnownSchema(
        {"chosen": ("chosen",), "rejected": ("rejected",)},
        {
            "prompt": ("prompt", "conversations", "messages", "instruction", "question"),
            "input": ("input",),
            **CONTEXT,
        },
    ),
    "messages": KnownSchema({"messages": ("messages",)}, CONTEXT),
    "sharegpt": KnownSchema({"conversations": ("conversations", "conversation")}, CONTEXT),
    "alpaca": KnownSchema(
        {"instruction": ("instruction",), "output": ("output", "response")},
        {"input": ("input", "context"), "history": ("history",), **CONTEXT},
    ),
    "prompt_completion": KnownSchema(
        {"prompt": ("prompt",), "completion": ("completion", "response")}, CONTEXT
    ),
    "question_answer": KnownSchema({"question": ("question",), "answer": ("answer",)}, CONTEXT),
    "text": KnownSchema({"text": ("text",)}),
}


@dataclass(frozen=True)
class Schema:
    """The schema of one dataset: its name, and the column of each role that has one."""

    name: str
    columns: Mapping[str, str]
    """Role to column; a dotted path reaches inside a column. An optional role may be absent from rows."""


def recognise(columns: Sequence[str], config: DataConfig) -> Schema:
    """Return the schema of a dataset with these columns; --schema and --columns override what is recognised.

    Raises:
        DatasetError: no schema fits, or a column named in --columns does not exist.
        ConfigError: --columns is not role=column,role=column, or names a role that no schema has.
    """
    given = parse_columns(config.columns)
    _refuse_absent(given, columns)
    names = list(SCHEMAS) if config.schema == "auto" else [config.schema]
    knowing = [name for name in names if set(given) <= set(_roles(name))]
    if not knowing:
        raise ConfigError(
            f"--columns gives the roles {', '.join(given)}, which no one schema of {', '.join(names)} has. "
            f"Roles are: {'; '.join(f'{name}: {chr(44).join(_roles(name))}' for name in names)}."
        )
    for name in knowing:
        found = _assign(SCHEMAS[name], columns, given)
        if found is not None:
            return Schema(name, found)
    raise _unrecognised(columns, config)


def parse_columns(text: str | None) -> dict[str, str]:
    """Return role to column from `role=column,role=column`.

    Raises:
        ConfigError: a part has no `=`, or one of its sides is empty.
    """
    pairs = [part.partition("=") for part in text.split(",")] if text else []
    if not all(role.strip() and column.strip() for role, _, column in pairs):
        raise ConfigError(
            f"--columns takes role=column,role=column; it is {text!r}. "
            "Write for instance --columns instruction=question,output=solution."
        )
    return {role.strip(): column.strip() for role, _, column in pairs}


def _roles(name: str) -> list[str]:
    return [*SCHEMAS[name].needed, *SCHEMAS[name].optional]


def _refuse_absent(given: Mapping[str, str], columns: Sequence[str]) -> None:
    absent = [c for c in given.values() if c not in columns and c.split(".")[0] not in columns]
    if absent:
        raise DatasetError(
            f"--columns names {', '.join(absent)}, not found in the dataset; its columns are: "
            f"{', '.join(columns)}. Correct --columns."
        )


def _assign(known: KnownSchema, columns: Sequence[str], given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the column of each role, or None when a needed role has none."""
    found = dict(given)
    for role, spellings in known.needed.items():
        column = given.get(role) or next((c for c in spellings if c in columns), None)
        if column is None:
            return None
        found[role] = column
    for role, spellings in known.optional.items():
        # JSON rows may have a column that the first row lacks, so the usual spelling is looked for in each.
        free = [c for c in spellings if c in columns and c not in found.values()]
        found.setdefault(role, free[0] if free else spellings[0])
    return found


def _unrecognised(columns: Sequence[str], config: DataConfig) -> DatasetError:
    lines = [
        f"  {name}: {', '.join('|'.join(spellings) for spellings in known.needed.values())}"
        for name, known in SCHEMAS.items()
    ]
    wanted = "of no known schema" if config.schema == "auto" else f"not those of --schema {config.schema}"
    return DatasetError(
        f"The dataset's columns are {wanted}; they are: {', '.join(columns) or '(none)'}.\n"
        "Known schemas and the columns they need:\n" + "\n".join(lines) + "\n"
        "Name the columns, for instance --columns instruction=question,output=solution, or convert the dataset."
    )
