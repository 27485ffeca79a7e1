"""The command about sweeps: run one, a part of one, see whether all parts are there, compute some again, report."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from whippletree.cli.arguments import OptionalPath

if TYPE_CHECKING:
    from rich.console import Console

    from whippletree.campaigns.campaign import Campaign


@dataclass(frozen=True)
class Sweep:
    """Run a scenario many times with other parameters; the same command again goes on with what is missing."""

    file: Annotated[Path, arg(metavar="SWEEP")]
    """A sweep file (TOML)."""
    workers: int | None = None
    """Processes of this machine; default: one for each core."""
    engine: str | None = None
    """"dask", or the address of a dask scheduler, such as tcp://node1:8786."""
    part: Annotated[str | None, arg(metavar="K/N")] = None
    """Compute only the K-th of N parts, for job arrays; then --gather."""
    gather: bool = False
    """Compute nothing; see whether all parts are there, and tell what they hold."""
    verify: Annotated[str | None, arg(metavar="SHARE")] = None
    """Compute a share of what is there again, such as 1%, and compare it."""
    report: OptionalPath = None
    """Write a page about the results here (.html)."""
    quiet: bool = False
    """Show no progress."""

    def run(self, console: Console) -> int:
        """Do what is asked; 1 if runs are missing or differ."""
        from whippletree.campaigns.campaign import engine_of
        from whippletree.campaigns.sweep_file import load_sweep

        campaign = load_sweep(self.file)
        tasks = None if self.part is None else _part(self.part, campaign.tasks)
        if not (self.gather or self.verify):
            missing = len(campaign.missing(tasks))
            campaign.run(engine_of(self.engine, self.workers, missing), tasks, progress=False if self.quiet else None)
        code = self._verified(campaign, console) if self.verify else 0
        if self.part is None:
            code = max(code, self._summary(campaign, console))
        if self.report is not None:
            console.print(f"wrote {campaign.report(self.report)}", markup=False)
        return code

    def _summary(self, campaign: Campaign, console: Console) -> int:
        import whippletree as wt

        found = wt.open_sweep(campaign.store.folder)
        reasons = [text for text in found["failure"].values.ravel().tolist() if text]
        missing = found.attrs["missing"]
        runs, failed = found.attrs["runs"], len(reasons) - missing
        console.print(f"{runs - missing:,} of {runs:,} runs are there, {failed:,} of them failed", markup=False)
        console.print(f"digest {found.attrs['digest']}", markup=False)
        if missing:
            tasks = campaign.missing()
            console.print(f"{missing:,} runs are missing: {len(tasks):,} tasks, the first is {tasks[0]}", markup=False)
        return 1 if missing else 0

    def _verified(self, campaign: Campaign, console: Console) -> int:
        wrong = campaign.verify(_share(str(self.verify)))
        told = f"differ: tasks {', '.join(map(str, wrong))}" if wrong else "the tasks computed again are the same"
        console.print(told, markup=False)
        return 1 if wrong else 0


def _part(text: str, tasks: int) -> range:
    """The tasks of part K of N, as equal as can be."""
    matched = re.fullmatch(r"(\d+)/(\d+)", text)
    if matched is None or not 1 <= int(matched[1]) <= int(matched[2]):
        raise ValueError(f"--part {text}: expected K/N with K from 1 to N, such as 17/400")
    k, n = int(matched[1]), int(matched[2])
    return range((k - 1) * tasks // n, k * tasks // n)


def _share(text: str) -> float:
    matched = re.fullmatch(r"([\d.]+)(%?)", text)
    share = float(matched[1]) / (100 if matched[2] else 1) if matched else -1.0
    if not 0 < share <= 1:
        raise ValueError(f"--verify {text}: expected a share such as 1% or 0.01")
    return share
