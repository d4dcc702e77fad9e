"""What a validation knows about the columns of a table: which one to rank by, from evidence in its footer.

A table has it when it was scored with `--quality`: the model carries how well every kind of column found
planted faults. Without it there is nothing to advise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gradscore.config import FilterConfig
from gradscore.errors import ConfigError
from gradscore.table.read import ScoreTable

AUTO = "auto"
QUALITY = "quality"


@dataclass(frozen=True, slots=True)
class Advice:
    """The column that found most planted faults, and the one that is ranked by unless told otherwise."""

    column: str
    is_ascending: bool
    auroc: Mapping[str, float]
    """`value`, `low` and `high`."""
    default: str
    default_auroc: Mapping[str, float] | None
    dataset: str

    @property
    def sentence(self) -> str:
        """One line that points out the better column."""
        against = ""
        if self.default_auroc is not None:
            against = f" against {_shown(self.default_auroc)} of {self.default}"
        ascending = " --ascending" if self.is_ascending else ""
        return (
            f"On faults planted in {self.dataset}, {self.column} reached AUROC {_shown(self.auroc)}{against}: "
            f"rank with --by {self.column}{ascending} (or --by {AUTO})."
        )


def read_advice(table: ScoreTable) -> Advice | None:
    """Return the advice in a table's footer; None where there is none or its column is not in the table."""
    quality: Mapping[str, Any] = table.metadata.get("quality") or {}
    evidence = quality.get("evidence", {})
    best, default = evidence.get("best_column"), evidence.get("default_column")
    if best is None or best["name"] not in table.numeric_columns:
        return None
    return Advice(
        column=best["name"],
        is_ascending=best["better"] == "low",
        auroc=best["auroc"],
        default=default["name"] if default else "gsnr",
        default_auroc=default["auroc"] if default else None,
        dataset=str(quality.get("fitted_on", {}).get("dataset")),
    )


def resolve_by(table: ScoreTable, config: FilterConfig) -> tuple[FilterConfig, list[str]]:
    """Return the configuration with `--by auto` replaced by a column, and what there is to say about the ranking.

    Raises:
        ConfigError: `auto` was asked for, and no validation is recorded in the table or none found a column.
    """
    advice = read_advice(table)
    if config.by == QUALITY:
        return config, [sentence for sentence in [_worth_of_quality(table)] if sentence]
    if config.by == AUTO:
        if advice is None:
            raise ConfigError(
                f"--by {AUTO} ranks by the column that a validation found best, and {table.path} records none. Run "
                "`gradscore validate`, then score with --quality FOLDER/quality.json; or name a column with --by."
            )
        chosen = replace(config, by=advice.column, ascending=advice.is_ascending)
        found = f"AUROC {_shown(advice.auroc)} on faults planted in {advice.dataset}"
        return chosen, [f"--by {AUTO}: {advice.column}, {found}."]
    if advice is None or config.by != advice.default or advice.column == advice.default:
        return config, []
    is_clear = advice.default_auroc is None or advice.auroc["low"] > advice.default_auroc["value"]
    return config, [advice.sentence] if is_clear else []


def _worth_of_quality(table: ScoreTable) -> str | None:
    """Return where quality was fitted and how well it did there; None where the table does not say."""
    quality: Mapping[str, Any] = table.metadata.get("quality") or {}
    evidence, fitted_on = quality.get("evidence", {}), quality.get("fitted_on", {})
    found = (evidence.get("auroc") or {}).get("all")
    if found is None:
        return None
    model = fitted_on.get("language_model", {}).get("name")
    where = f"quality was fitted on {fitted_on.get('dataset')} with {model}, AUROC {_shown(found)} on planted faults"
    if evidence.get("verdict") == "finds faults":
        return f"{where}."
    return f"Warning: {where}: it does not find them. Do not filter by it."


def _shown(auroc: Mapping[str, float]) -> str:
    return f"{auroc['value']:.2f} [{auroc['low']:.2f}, {auroc['high']:.2f}]"
