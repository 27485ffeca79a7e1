"""Two runs that all tests of pictures share: a massless rod in a loop, and an open chain."""

import numpy as np
import pytest

import whippletree as wt


@pytest.fixture(scope="session")
def crank():
    """(model, run): the connecting rod has no mass."""
    model = wt.mechanisms.crank_slider(rod_mass=0.0)
    return model, wt.simulate(model, duration=1.0, output_dt=0.02, reactions=True)


@pytest.fixture(scope="session")
def free_chain():
    """(model, run) without constraints."""
    model = wt.mechanisms.chain(3)
    return model, wt.simulate(model, q0=np.array([-1.0, 0.3, 0.2]), duration=0.5, output_dt=0.02)
