"""How many of the planted faults were dropped, beside what dropping at random would catch."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import comb

from gradscore.demo.dataset import FAULTS, DemoRow


@dataclass(frozen=True)
class Finding:
    """One kind of row: how many there are, and how many of them were dropped."""

    kind: str
    planted: int
    dropped: int

    @property
    def share(self) -> float | None:
        """The dropped share, None where there is no such row."""
        return self.dropped / self.planted if self.planted else None


def findings(rows: Sequence[DemoRow], dropped: Collection[int]) -> list[Finding]:
    """Return one finding per kind of fault, then `all faults` and `sound rows`; `dropped` holds row indices."""
    gone = set(dropped)

    def count(kind: str, places: list[int]) -> Finding:
        return Finding(kind, len(places), len(gone.intersection(places)))

    per_kind = [count(kind, [at for at, row in enumerate(rows) if row.fault == kind]) for kind in FAULTS]
    faulty = count("all faults", [at for at, row in enumerate(rows) if row.fault is not None])
    sound = count("sound rows", [at for at, row in enumerate(rows) if row.fault is None])
    return [*per_kind, faulty, sound]


def chance_of_as_many(n_rows: int, n_faulty: int, n_dropped: int, n_found: int) -> float:
    """Return how likely dropping `n_dropped` of `n_rows` at random finds at least `n_found` of the faulty ones.

    P(X >= n_found) for X hypergeometric: sum over x of C(n_faulty, x) C(n_rows - n_faulty, n_dropped - x)
    / C(n_rows, n_dropped). A value near 0 means that chance does not explain the find.
    """
    ways = sum(
        comb(n_faulty, found) * comb(n_rows - n_faulty, n_dropped - found)
        for found in range(n_found, min(n_faulty, n_dropped) + 1)
    )
    return ways / comb(n_rows, n_dropped)
