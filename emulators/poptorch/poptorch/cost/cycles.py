"""The unit of account: what one operation costs the tiles of one IPU."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cycles:
    """Cycles of the busiest tile, split as the bulk-synchronous machine spends them.

    `flops` are floating-point operations of the whole chip; `temporary` the bytes a tile needs while it
    lasts; `sets` counts compute sets.
    """

    compute: float = 0.0
    exchange: float = 0.0
    sync: float = 0.0
    flops: float = 0.0
    temporary: float = 0.0
    sets: int = 0

    @property
    def total(self) -> float:
        """Cycles from beginning to end: compute, sync and exchange take turns."""
        return self.compute + self.exchange + self.sync

    def __add__(self, other: "Cycles") -> "Cycles":
        return Cycles(
            self.compute + other.compute,
            self.exchange + other.exchange,
            self.sync + other.sync,
            self.flops + other.flops,
            max(self.temporary, other.temporary),
            self.sets + other.sets,
        )


NOTHING = Cycles()


def total(parts: "list[Cycles]") -> Cycles:
    """One after the other."""
    return sum(parts, NOTHING)
