"""What the examples share: figures in the library's style, where they go, and MJCF as text. Not an example itself."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
from matplotlib.figure import Figure

import whippletree as wt
from whippletree.view.style import FIGURE, PALETTE

matplotlib.rcParams.update(FIGURE)

BLUE, RED, GREEN, PURPLE, ORANGE, SKY, YELLOW = PALETTE


def subplots(*shape, width=8.0, height=4.0, **options):
    """A figure and its axes, as ``matplotlib.pyplot.subplots``; inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(*shape, **options)


def save(figure, model=None, run=None):
    """Write the figure to the path that the script was given, or to out/examples, and say where.

    A model and a run of it are written beside it as a replay, a page that plays.
    """
    name = Path(sys.argv[0]).stem
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out/examples") / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")
    if run is not None:
        print(f"wrote {wt.export_html(model, run, path.with_suffix('.html'))}")


def read_mjcf(text):
    """The model of an MJCF text. Without the package mujoco, which reads it, the script ends with a status for that."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        path.write_text(text)
        try:
            return wt.load(path)
        except wt.MissingExtraError as missing:
            print(missing, file=sys.stderr)
            sys.exit(77)
