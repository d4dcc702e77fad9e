"""`gradscore compare`: two score tables over the same rows, or a table beside a reference profile."""

from typing import TYPE_CHECKING, Annotated

import typer

from gradscore.cli.exit_codes import DONE
from gradscore.cli.options import Offer

if TYPE_CHECKING:
    from gradscore.report.compare import ProfileComparison, TableComparison

OFFER = Offer(())
EXAMPLE = "Example: gradscore compare scores.parquet other-seed.parquet --output compare.html"
N_SHOWN = 5


def run(
    left: Annotated[str, typer.Argument(metavar="A", help="Score table.", show_default=False)],
    right: Annotated[
        str,
        typer.Argument(
            metavar="B",
            help="Another score table, or a profile (.json) that `gradscore report --save-profile` wrote.",
            show_default=False,
        ),
    ],
    by: Annotated[
        str, typer.Option("--by", metavar="TEXT", help="Column whose moved rows are shown.")
    ] = "gsnr",
    top_k: Annotated[
        float, typer.Option("--top-k", metavar="X", help="Share of the rows that counts as the top.")
    ] = 0.3,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="TEXT", help="Page (.html) or picture (.png) of two tables."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
) -> int:
    """Say how far two score tables agree, or which measures of a table have left the range of a reference profile."""
    # Imported here since they load numpy and pandas, which --help must not wait for.
    from gradscore.report.compare import CompareOptions, TableComparison, compare

    found = compare(CompareOptions(left, right, by, top_k, output, overwrite))
    if isinstance(found, TableComparison):
        _print_tables(found)
    else:
        _print_profile(found)
    if output is not None:
        print(f"  wrote: {output}")
    return DONE


def _print_tables(found: "TableComparison") -> None:
    from gradscore.report.compare import verdict

    agreement = found.agreement
    matched = agreement.matched
    alone = f"{matched.n_only_left} only in A, {matched.n_only_right} only in B"
    print(f"{len(matched.left)} rows are in both tables, {alone}")
    for line in agreement.differences:
        print(f"  differs: {line}")
    for name, names in (("A", agreement.only_left), ("B", agreement.only_right)):
        if names:
            print(f"  only in {name}: {', '.join(names)}")
    print(f"{'column':<22}{'rank correlation':>24}{'top k':>8}{'shared':>8}{'chance':>8}")
    for column in agreement.columns:
        rho = column.correlation
        interval = f"{rho.rho:.2f} [{rho.low:.2f}, {rho.high:.2f}]"
        print(f"{column.name:<22}{interval:>24}{column.k:>8}{column.shared:>8.0%}{column.by_chance[0]:>8.0%}")
    print(verdict(found))
    print(f"moved most by {found.by}:" if found.movers else f"no row moved by {found.by}")
    for mover in found.movers[:N_SHOWN]:
        print(
            f"  row {mover.row_index}: {mover.left_value:.4g} (above {mover.left_place:.0%} of the others) in A, "
            f"{mover.right_value:.4g} (above {mover.right_place:.0%}) in B"
        )


def _print_profile(found: "ProfileComparison") -> None:
    from gradscore.report.compare import sentences

    origin = found.reference.origin
    print(f"reference: {origin.get('n_rows')} rows of {origin.get('dataset')}, model {origin.get('model')}")
    print(f"{len(found.departures)} of {found.n_compared} measures have left its range")
    for sentence in sentences(found):
        print(f"  {sentence}")
    if found.profile.origin.get("model") != origin.get("model"):
        print(
            f"  The table was made with another model ({found.profile.origin.get('model')}): norms, losses and gsnr "
            "then differ for that reason alone."
        )
