"""The picture on the front page: ``python docs/overview.py`` writes ``docs/_static/overview.png``."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import whippletree as wt
from whippletree.view.style import FIGURE


def crank_slider(axes):
    """Its connecting rod has no mass."""
    model = wt.mechanisms.crank_slider(rod_mass=0.0)
    run = wt.simulate(model, model.home.q, [2.0, 0.0, 0.0], duration=2.1, project=True)
    wt.plot(run, "strobe", model=model, count=4, ax=axes)
    axes.set_title("a rod without mass")


def platform(axes):
    """Six closed loops."""
    model = wt.mechanisms.stewart_platform()
    run = wt.simulate(model, duration=0.02)
    wt.plot(run, "strobe", model=model, count=1, ax=axes, layers=("bodies", "massless links", "ground"))
    axes.set_title("closed loops")


def quadruped(axes):
    """Contact, sticking and sliding."""
    model = wt.mechanisms.quadruped(height=0.12, stiffness=60.0, damping=1.2, friction=0.6)
    q, v = model.home.q.copy(), np.zeros(model.nv)
    q[3:7] = np.cos(0.1), np.sin(0.1), 0, 0
    v[3:6] = 0.6, 0.5, 0.0
    run = wt.simulate(model, q, v, duration=0.5, method="time_stepping", step=1e-3, output_dt=5e-3)
    wt.plot(run, "strobe", model=model, count=3, ax=axes, layers=("bodies", "massless links"))
    axes.set_title("four feet that land")


def pendulums(axes, columns=400, rows=300, step=0.02, steps=600):
    """When an arm of each of 120 000 double pendulums turns over."""
    model = wt.mechanisms.double_pendulum()
    angles = np.meshgrid(*(np.linspace(-np.pi, np.pi, count) for count in (columns, rows)))
    upper, lower = (x.reshape(-1) for x in angles)
    q = np.stack([upper - np.pi / 2, lower - upper], axis=-1)  # from hanging down, then relative
    v, over = np.zeros_like(q), np.full(len(q), np.nan)
    rollout, stride = wt.compile(model).rollout, 10
    for k in range(0, steps, stride):
        q_path, v_path = rollout(q, v, np.zeros((stride, 2)), step, method="rk4")
        q, v = q_path[:, -1], v_path[:, -1]
        beyond = np.abs(np.cumsum(q_path, axis=-1) + np.pi / 2) > np.pi
        turned = beyond.any(axis=(1, 2)) & np.isnan(over)
        over[turned] = (k + beyond.any(axis=2).argmax(axis=1)[turned]) * step
    square = (-1, 1, -1, 1)
    axes.imshow(over.reshape(rows, columns), origin="lower", cmap="magma_r", interpolation="nearest", extent=square)
    axes.set_title("120 000 at a time")


def main():
    """Four panels side by side."""
    with matplotlib.rc_context(FIGURE):
        figure = Figure(figsize=(12, 3.3), layout="constrained")
        for axes, draw in zip(figure.subplots(1, 4), (crank_slider, platform, quadruped, pendulums), strict=True):
            draw(axes)
            axes.set_aspect("equal", adjustable="datalim")
            axes.set_box_aspect(1)
            axes.set_axis_off()
        figure.savefig(Path(__file__).parent / "_static" / "overview.png", dpi=110)


if __name__ == "__main__":
    main()
