"""Errors that a user sees: one message in three parts, and a class that says whose move it is.

Every message says what is wrong, what was found, and what to do next. The command line catches
`GradscoreError` once, in `cli.main`, prints the message without a traceback and exits with
`exit_code`; anything else that escapes is our bug and shows its traceback.
"""


class GradscoreError(Exception):
    """Base of everything that is shown to the user as a message rather than as a traceback."""

    exit_code = 2


class ConfigError(GradscoreError):
    """An option or a configuration file is wrong; all mistakes found are listed together."""

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        """Each mistake by itself, so that a caller can add its own before they are shown together."""
        lines = [f"{len(mistakes)} options are wrong:", *(f"  - {mistake}" for mistake in mistakes)]
        super().__init__(mistakes[0] if len(mistakes) == 1 else "\n".join(lines))

    @classmethod
    def of(cls, mistakes: list[str]) -> "ConfigError":
        """Return one error that lists every mistake, each on its own line."""
        return cls(*mistakes)


class DatasetError(GradscoreError):
    """The dataset cannot be read as asked: missing, broken, or of another shape."""


class ModelError(GradscoreError):
    """The model, its tokenizer or an adapter cannot be used as asked."""


class UnsupportedError(GradscoreError):
    """The request is well formed but this release cannot do it; the message names what can."""


class CheckFailedError(GradscoreError):
    """A check before or during the run found numbers that must not be trusted."""


class TableError(GradscoreError):
    """A score table is missing, incomplete, or belongs to other data or another configuration."""


class StorageError(GradscoreError):
    """Results could not be written; what was complete before is untouched."""
