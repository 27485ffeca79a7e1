"""``python -m fuzz``: every fuzzer, or those named, each for its share of the time, in as many processes as asked for.

    python -m fuzz                                                       a minute of all of them
    python -m fuzz --kinds calls --seconds 300 --seed 7 --jobs 16        five minutes of calls on sixteen cores
    python -m fuzz --kinds hostile --trials 2000 --jobs 16               two thousand mechanisms, however long they take
    python -m fuzz --kinds hostile --again 70000012                      one trial once more, by the seed of its fault
    python -m fuzz --save a.json …; python -m fuzz --sum a.json b.json    tables of several shards as one

Shards with different ``--seed`` never try the same: shard k holds the seeds from k·10⁷ on, which its processes share.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fuzz.trial import Findings, run, table

SHARES = {"files": 3, "calls": 3, "cache": 1, "kills": 2, "hostile": 3, "answers": 3, "scenes": 2, "routes": 2}
"""Shares of the time."""

BLOCK = 10**7
"""Seeds of one shard: more than a day of the fastest fuzzer."""

DAY = 86400.0
"""Seconds for a number of trials, where only that number is given."""

PATIENCE = 120.0
"""Seconds after its time at which a fuzzer counts as hanging: one that no signal reaches."""


@dataclass(frozen=True)
class Work:
    """Trials of one process: seeds from ``first`` on until the time is over or enough are counted."""

    name: str
    seconds: float
    first: int
    trials: int | None = None


def main(arguments: list[str]) -> int:
    """Run the fuzzers and print the table; 1 if one of them found a fault."""
    asked = _parser().parse_args(arguments)
    if asked.child:
        return _child(Work(**json.loads(asked.child[0])), Path(asked.child[1]))
    if asked.sum:
        found, times = _read_shards(asked.sum)
    else:
        found, times = _run_all(asked)
    if asked.save:
        content = {name: {**found[name].as_table(), "seconds": times[name]} for name in found}
        Path(asked.save).write_text(json.dumps(content))
    print("\n".join(table(found, times)))
    return int(any(findings.faulty for findings in found.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Seeded attacks, and a table of outcomes.")
    parser.add_argument("--kinds", nargs="+", choices=list(SHARES), default=list(SHARES), help="fuzzers to run")
    parser.add_argument("--seconds", type=float, help="for all of them; FUZZ_SECONDS, or 60")
    parser.add_argument("--seed", type=int, help="number of the shard; FUZZ_SEED, or 0")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--trials", type=int, help="end each once it has counted so many (calls, files, …)")
    parser.add_argument(
        "--again", type=int, metavar="SEED", help="one trial once more, by the seed told with its fault"
    )
    parser.add_argument("--save", metavar="FILE", help="outcomes as JSON, for --sum")
    parser.add_argument("--sum", nargs="+", metavar="FILE", help="print saved outcomes of several shards as one table")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser


def _read_shards(names: list[str]) -> tuple[dict[str, Findings], dict[str, float]]:
    found: dict[str, Findings] = {}
    times: Counter[str] = Counter()
    for name in names:
        for kind, content in json.loads(Path(name).read_text()).items():
            found.setdefault(kind, Findings()).add(Findings.of_table(content))
            times[kind] += content["seconds"]
    return found, dict(times)


def _run_all(asked: argparse.Namespace) -> tuple[dict[str, Findings], dict[str, float]]:
    whole = sum(SHARES[name] for name in asked.kinds)
    seed = asked.seed if asked.seed is not None else int(os.environ.get("FUZZ_SEED", "0"))
    time_given = float(os.environ.get("FUZZ_SECONDS", "60")) if asked.trials is None else DAY
    total = asked.seconds if asked.seconds is not None else time_given
    found, times = {}, {}
    for name in asked.kinds:
        start = time.monotonic()
        seconds = total * SHARES[name] / whole
        if asked.again is not None:
            works = [Work(name, seconds, asked.again, trials=1)]
        else:
            trials = None if asked.trials is None else -(-asked.trials // asked.jobs)
            first, share = seed * BLOCK, BLOCK // asked.jobs
            works = [Work(name, seconds, first + job * share, trials) for job in range(asked.jobs)]
        found[name] = Findings()
        with ThreadPoolExecutor(len(works)) as pool:
            for findings in pool.map(_run_in_processes, works):
                found[name].add(findings)
        times[name] = time.monotonic() - start
    return found, times


def _run_in_processes(work: Work) -> Findings:
    """One process, and after a crash another one that goes on behind the seed that ended it."""
    total, end = Findings(), time.monotonic() + work.seconds
    while True:
        found, last = _run_in_a_process(work)
        total.add(found)
        if last is None:
            return total
        trials = None if work.trials is None else work.trials - sum(found.counts.values())
        work = replace(work, first=last + 1, seconds=end - time.monotonic(), trials=trials)
        if work.seconds <= 0 or (trials is not None and trials <= 0):
            return total


def _run_in_a_process(work: Work) -> tuple[Findings, int | None]:
    """Outcomes, and the seed that ended the process unless it came to its end."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fuzz", "--child", json.dumps(asdict(work)), folder]
        try:
            code = subprocess.run(command, timeout=work.seconds + PATIENCE, check=False).returncode
            outcome = "crash"
        except subprocess.TimeoutExpired:
            code, outcome = 1, "hang"
        result, seed = Path(folder, "result"), Path(folder, "seed")
        found = Findings.of_table(json.loads(result.read_text())) if result.exists() else Findings()
        if code == 0:
            return found, None
        last = int(seed.read_text()) if seed.exists() else work.first
        told = f"seed {last}: {outcome}, exit status {code}"
        found.add(Findings(Counter([outcome]), faults=[told]))
        return found, last


def _child(work: Work, folder: Path) -> int:
    """One fuzzer in this process; what it has found is on the disk before every trial that may end it."""
    module = importlib.import_module(f"fuzz.{work.name}")
    seed, result, draft = (folder / name for name in ("seed", "result", "draft"))
    saved = time.monotonic()

    def keep(number: int | None, found: Findings) -> None:
        nonlocal saved
        if number is None or time.monotonic() > saved + 1:
            draft.write_text(json.dumps(found.as_table()))
            draft.replace(result)
            saved = time.monotonic()
        if number is not None:
            seed.write_text(str(number))

    found = run(
        module.try_one,
        first=work.first,
        seconds=work.seconds,
        trials=work.trials,
        limit=module.LIMIT,
        before_each=keep,
    )
    keep(None, found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
