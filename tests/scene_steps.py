"""Steps of one model in the kernel of scenes with many free bodies, and by the ways of any mechanism."""

from __future__ import annotations

from unittest import mock

import numpy as np

import whippletree as wt
from whippletree.contact.kinematics.scene_layout import SceneLayout, scene_layout
from whippletree.simulation.time_stepping import scene_method
from whippletree.simulation.time_stepping.scene_run import SteppedScene, Warm

STEP_OF_SCENES = 4e-3
"""s"""


def stepped(model, q, v, count, h=STEP_OF_SCENES, tolerance=1e-10):
    """States and accounts of so many steps in the kernel of scenes."""
    layout = scene_layout(model)
    assert isinstance(layout, SceneLayout)
    scene, warm, rows = SteppedScene(layout, tolerance, 1e-11, 100_000), Warm.cold(), []
    for _ in range(count):
        told = scene.advance(q, v, warm, np.zeros(model.nv), np.array([h]))
        q, v, warm = told.q, told.v, told.warm
        rows.append(told)
    return rows


def by_other_ways(model, q, v, count, h=STEP_OF_SCENES, tolerance=1e-10):
    """The same steps of ``wt.simulate``, as those of a mechanism that is no scene."""
    with mock.patch.object(scene_method, "is_scene", return_value=False):
        run = wt.simulate(
            model, q, v, duration=count * h, output_dt=h, method="time_stepping", step=h, tolerance=tolerance
        )
    assert "sleep" not in run.attrs
    return run
