"""One table of tolerances: every deciding number has a reason, a name of its own, and its row on the page."""

from collections import Counter

from studies.tolerances import CHAPTERS, PAGE, constants, page


def test_no_two_constants_share_a_name():
    counted = Counter(constant.name for constant in constants())
    assert not [name for name, count in counted.items() if count > 1]


def test_every_deciding_number_has_its_reason():
    silent = [
        c for c in constants() if isinstance(c.value, float) and not c.reason and c.module.split(".")[0] in CHAPTERS
    ]
    assert not [f"{c.module}.{c.name}" for c in silent]


def test_the_page_is_that_of_the_sources():
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m studies.tolerances writes it anew"
