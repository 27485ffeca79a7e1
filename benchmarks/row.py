"""One line of the table of measurements."""

from __future__ import annotations

from dataclasses import asdict, dataclass

BATCH = 4096


@dataclass(frozen=True)
class Row:
    """One line of the table; times are microseconds per state (or per step of a roll-out)."""

    subject: str
    measure: str
    ours: float
    peer: float | None
    peer_name: str
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times faster we are."""
        return None if self.peer is None else self.peer / self.ours

    def record(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self) | {"ratio": self.ratio}
