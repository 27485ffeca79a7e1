"""For all tests: hypothesis profiles, which slow cases run, and a summary of what tests have to tell.

``strategies.py`` beside this file is found through pytest's ``pythonpath``.
"""

import signal

from hypothesis import HealthCheck, settings

# what a shell starts in the background ignores Ctrl-C, and so would the programs that tests of interrupts start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# "ci" is the profile that pyproject.toml asks for: the same examples every time, few enough for a busy machine
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
# by hand, when a change deserves it: pytest --hypothesis-profile=thorough tests/identities
settings.register_profile("thorough", settings.get_profile("ci"), derandomize=False, max_examples=500)


def pytest_addoption(parser):
    parser.addoption(
        "--slow",
        choices=["all", "first", "rest"],
        default="all",
        help="of tests marked slow: all cases, only the first of several (make test), or the rest (make test-slow)",
    )


def pytest_collection_modifyitems(config, items):
    """Part the slow cases from the others; of a parametrised test the first case counts as quick, unless its mark says
    that every case is slow."""
    asked = config.getoption("--slow")
    if asked == "all":
        return
    seen, chosen, left = set(), [], []
    for item in items:
        test = item.nodeid.partition("[")[0]
        slow = item.get_closest_marker("slow")
        quick = slow is None or (hasattr(item, "callspec") and test not in seen and not slow.kwargs.get("every"))
        seen.add(test)
        (chosen if quick == (asked == "first") else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = chosen


def pytest_terminal_summary(terminalreporter):
    """Print what tests told with ``record_property``, also when they passed and whatever process they ran in.

    ``note``: a line; ``errors``: {quantity: (error, where)}, of which the worst are printed.
    """
    told = [item for report in terminalreporter.stats.get("passed", []) for item in report.user_properties]
    notes = sorted({value for key, value in told if key == "note"})
    worst = {}
    for quantity, (error, where) in (entry for key, value in told if key == "errors" for entry in value.items()):
        worst[quantity] = max(worst.get(quantity, (0.0, "")), (error, where))
    if notes or worst:
        terminalreporter.section("told by the tests")
        for note in notes:
            terminalreporter.write_line(note)
        for quantity, (error, where) in sorted(worst.items()):
            terminalreporter.write_line(f"{quantity}: worst {error:.1e} ({where})")
