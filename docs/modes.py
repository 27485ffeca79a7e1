"""The picture of vibrations: ``python docs/modes.py`` writes ``docs/_static/modes.png``."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import whippletree as wt
from whippletree.mechanisms.linkages import rod
from whippletree.view.style import FIGURE


def draw(axes, model, modes, number, amplitude, word):
    """A quarter of a period to either side of the equilibrium, and its frequency."""
    run = modes.motion(number, amplitude=amplitude, moments=41).isel(time=slice(0, 21))
    wt.plot(run, "strobe", model=model, count=5, ax=axes, layers=("bodies", "massless links"))
    axes.set_title(f"{word}: {modes.frequencies[number]:.2f} Hz")


def linkage(axes):
    """A parallelogram that springs hold up."""
    b = wt.Builder("parallelogram", (0, -9.81, 0))
    for name, length in (("left", 0.5), ("coupler", 0.8), ("right", 0.5)):
        b.body(f"{name} rod", **rod(length, 1.0))
    b.joint("left", "revolute", "world", "left rod", start=1.1, stiffness=20.0, rest=1.0)
    b.joint("coupler", "revolute", "left rod", "coupler rod", position=(0.5, 0, 0), start=-1.1)
    b.joint("right", "revolute", "world", "right rod", position=(0.8, 0, 0), start=1.1, stiffness=5.0, rest=1.5)
    b.frame("coupler end", "coupler rod", position=(0.8, 0, 0)).frame("right end", "right rod", position=(0.5, 0, 0))
    model = b.constraint("pin", "pin", "coupler end", "right end").build()
    draw(axes, model, wt.eigenmodes(model, wt.equilibrium(model).q), 0, 0.3, "a sprung linkage")


def cantilever(axes, links=16):
    """A beam of rigid links in its second mode."""
    b, parent, length = wt.Builder("cantilever", (0, 0, 0)), "world", 1.0 / links
    for k in range(links):
        b.body(f"link {k}", **rod(length, length))
        place = (length if k else 0, 0, 0)
        b.joint(f"hinge {k}", "revolute", parent, f"link {k}", position=place, stiffness=links * (1 if k else 2))
        parent = f"link {k}"
    model = b.build()
    draw(axes, model, wt.eigenmodes(model, model.home.q), 1, 0.15, "a beam of links")


def robot(axes):
    """A quadruped that stands on its feet, with springs in its legs, and bounces."""
    model = wt.mechanisms.quadruped(stiffness=200.0, damping=1.0)
    rest = wt.equilibrium(model)
    modes = wt.eigenmodes(model, rest.q)
    heave = int(np.argmax(np.abs(modes.shapes[5]) / np.linalg.norm(modes.shapes[:6], axis=0)))
    draw(axes, model, modes, heave, 0.5, "a robot on its feet")


if __name__ == "__main__":
    with matplotlib.rc_context(FIGURE):
        figure = Figure(figsize=(10, 3.2), layout="constrained")
        for axes, panel in zip(figure.subplots(1, 3), (linkage, cantilever, robot), strict=True):
            panel(axes)
        figure.savefig(Path(__file__).parent / "_static" / "modes.png", dpi=110)
