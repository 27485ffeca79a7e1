"""One table of tolerances: every deciding number has a reason, a name of its own, and its row on the page."""

from collections import Counter

import pytest
from studies.tolerances import CHAPTERS, PAGE, constants, page


@pytest.fixture(scope="module")
def every():
    """The sources are read once."""
    return list(constants())


def test_no_two_constants_share_a_name(every):
    counted = Counter(constant.name for constant in every)
    assert not [name for name, count in counted.items() if count > 1]


def test_every_deciding_number_has_its_reason(every):
    silent = [c for c in every if isinstance(c.value, float) and not c.reason and c.module.split(".")[0] in CHAPTERS]
    assert not [f"{c.module}.{c.name}" for c in silent]


def test_the_page_is_that_of_the_sources(every):
    assert PAGE.read_text(encoding="utf-8") == page(every), "python -m studies.tolerances writes it anew"
