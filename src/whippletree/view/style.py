"""Colours and sizes, the same in figures, on the live page and in the replay.

The colours of bodies are those of Okabe and Ito, which stay apart for colour-blind readers and in print.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Color = tuple[float, float, float]
"""Red, green and blue, 0 to 1."""

PALETTE: tuple[Color, ...] = (
    (0.000, 0.447, 0.698),  # blue
    (0.835, 0.369, 0.000),  # vermilion
    (0.000, 0.620, 0.451),  # green
    (0.800, 0.475, 0.655),  # purple
    (0.902, 0.624, 0.000),  # orange
    (0.337, 0.706, 0.914),  # sky
    (0.941, 0.894, 0.259),  # yellow
)
MASSLESS: Color = (0.58, 0.60, 0.63)
JOINT: Color = (0.20, 0.22, 0.25)
CLOSURE: Color = (0.10, 0.10, 0.10)
FORCE: Color = (0.80, 0.08, 0.20)
MOMENT: Color = (0.55, 0.10, 0.60)
CONTACT: Color = (0.90, 0.62, 0.00)
GROUND: Color = (0.80, 0.82, 0.84)
MESH: Color = (0.74, 0.76, 0.79)
AXES: tuple[Color, Color, Color] = ((0.84, 0.15, 0.16), (0.17, 0.63, 0.17), (0.12, 0.40, 0.85))
"""x, y and z of a frame."""

FIGURE: dict[str, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 150,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.autolimit_mode": "round_numbers",
    "axes.xmargin": 0.0,
    "axes.ymargin": 0.0,
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.4,
    "legend.fontsize": 8,
    "legend.frameon": False,
}
"""Settings of matplotlib while it draws; the reader's own settings come back afterwards."""


def body_color(k: int) -> Color:
    """The colour of the k-th body."""
    return PALETTE[k % len(PALETTE)]


def fade_colour(color: Color, share: float) -> Color:
    """A colour moved towards white; share 0 leaves it, 1 is white."""
    r, g, b = (float(c + (1 - c) * share) for c in color)
    return (r, g, b)


def bytes_of(color: Color) -> tuple[int, int, int]:
    """Red, green and blue, 0 to 255."""
    r, g, b = (int(x) for x in np.clip(np.round(np.array(color) * 255), 0, 255))
    return (r, g, b)


DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (5.0, 2.0),
    (1.2, 1.5),
    (6.0, 1.6, 1.2, 1.6),
    (9.0, 1.6, 1.2, 1.6, 1.2, 1.6),
)
"""Lengths of strokes and gaps, in line widths: solid, dashed, dotted, a dash and a dot, a dash and two dots."""

MANY: tuple[Color, ...] = (*PALETTE[:6], (0.28, 0.30, 0.33))
"""Colours of many thin lines: the palette's yellow is too pale for them, dark grey takes its place."""

DISTINCT = len(MANY) * len(DASHES)
"""Curves that colour and dashes keep apart."""


def series_dash(k: int, count: int) -> tuple[float, ...]:
    """Strokes and gaps of curve k of count: solid while colours last."""
    return DASHES[k // len(MANY)] if count <= DISTINCT else ()


def series_color(k: int, count: int) -> Color:
    """The colour of curve k of count: the same few again and again with other dashes; of very many a gradient from dark
    to light."""
    if count <= DISTINCT:
        return MANY[k % len(MANY)]
    first, last = np.array((0.15, 0.10, 0.40)), np.array((0.95, 0.75, 0.15))
    r, g, b = (float(x) for x in first + (last - first) * (k / (count - 1)))
    return (r, g, b)
