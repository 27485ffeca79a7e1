"""Which test runs which lines of the deciding files, and how long it takes.

A small plugin of pytest, for Python from 3.12 on (:mod:`sys.monitoring` costs next to nothing, since a line tells of
itself once in a test and is then silent). It answers with one JSON file:

    COVERING_FILES=contact/time_step.py:... COVERING_ANSWER=lines.json pytest -p studies.covering_tests tests/contact

Only tests that pass are written: one that needs a peer that is missing can kill no mutant.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

FILES = "COVERING_FILES"
"""Variable of the environment: files below the package, separated by colons."""
ANSWER = "COVERING_ANSWER"
"""Variable of the environment: the file to write."""
PACKAGE = "/whippletree/"

_lines: dict[str, set[int]] = defaultdict(set)
_found: dict[str, dict[str, Any]] = {}


def _watch(files: frozenset[str]) -> None:
    watcher = sys.monitoring
    watcher.use_tool_id(watcher.COVERAGE_ID, "covering tests")

    def line(code: CodeType, number: int) -> object:
        name = code.co_filename.rpartition(PACKAGE)[2]
        if name in files:
            _lines[name].add(number)
        return watcher.DISABLE

    watcher.register_callback(watcher.COVERAGE_ID, watcher.events.LINE, line)
    watcher.set_events(watcher.COVERAGE_ID, watcher.events.LINE)


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch."""
    if sys.version_info < (3, 12):
        raise pytest.UsageError("covering tests are found with sys.monitoring: take Python 3.12 or newer")
    _watch(frozenset(os.environ[FILES].split(":")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Lines that this test runs."""
    _lines.clear()
    sys.monitoring.restart_events()
    yield
    if _lines:
        _found[item.nodeid] = {"lines": {name: sorted(numbers) for name, numbers in _lines.items()}}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """How long it took, if it passed."""
    if report.when == "call" and report.nodeid in _found:
        if report.passed:
            _found[report.nodeid]["seconds"] = report.duration
        else:
            del _found[report.nodeid]


def pytest_sessionfinish() -> None:
    """Write what was found."""
    Path(os.environ[ANSWER]).write_text(json.dumps(_found))
