"""A figure that shows itself in a notebook, whatever backend is in use."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure


class PictureFigure(Figure):
    """matplotlib's Figure, which shows itself as the last value of a cell."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return {"image/png": file.getvalue(), "text/plain": repr(self)}
