"""``python -m fuzz``: every fuzzer for its share of FUZZ_SECONDS (60), seeds from FUZZ_SEED (0) on; or those named."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzz.trial import Findings, run, table

SHARES = {"files": 3, "calls": 3, "cache": 1, "kills": 2, "hostile": 3, "scenes": 2, "routes": 2}
"""Shares of the time."""

PATIENCE = 120.0
"""Seconds after its time at which a fuzzer counts as hanging: one that no signal reaches."""


def main(names: list[str]) -> int:
    """Run the fuzzers, each in a process, and print the table; 1 if one of them found a fault."""
    chosen = names or list(SHARES)
    seconds, first = float(os.environ.get("FUZZ_SECONDS", "60")), int(os.environ.get("FUZZ_SEED", "0"))
    whole = sum(SHARES[name] for name in chosen)
    found, times = {}, {}
    for name in chosen:
        start = time.monotonic()
        found[name] = _in_a_process(name, seconds * SHARES[name] / whole, first)
        times[name] = time.monotonic() - start
    print("\n".join(table(found, times)))
    return int(any(findings.faulty for findings in found.values()))


def _in_a_process(name: str, seconds: float, first: int) -> Findings:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fuzz", "--child", name, str(seconds), str(first), folder]
        try:
            code = subprocess.run(command, timeout=seconds + PATIENCE, check=False).returncode
            outcome = "crash"
        except subprocess.TimeoutExpired:
            code, outcome = 1, "hang"
        result, seed = Path(folder, "result"), Path(folder, "seed")
        if code == 0 and result.exists():
            return Findings.of_table(json.loads(result.read_text()))
        last = seed.read_text() if seed.exists() else "none"
        return Findings(Counter([outcome]), faults=[f"seed {last}: {outcome}, exit status {code}"])


def child(name: str, seconds: str, first: str, folder: str) -> int:
    """One fuzzer in this process."""
    module = importlib.import_module(f"fuzz.{name}")
    seed = Path(folder, "seed")
    found = run(
        module.try_one,
        seconds=float(seconds),
        first=int(first),
        limit=module.LIMIT,
        told=lambda number: seed.write_text(str(number)),
    )
    Path(folder, "result").write_text(json.dumps(found.as_table()))
    return 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(child(*arguments[1:]) if arguments[:1] == ["--child"] else main(arguments))
