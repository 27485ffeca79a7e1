"""Views of a model and of pages in notebooks, as HTML, without magic words.

A notebook asks the last value of a cell for ``_repr_html_``. Pages are shown in frames of their own, whole, so that a
saved notebook still plays them.
"""

from __future__ import annotations

import threading
from html import escape
from typing import TYPE_CHECKING, Any

from whippletree.errors import WhippletreeError
from whippletree.view.replay import page_text

if TYPE_CHECKING:
    from whippletree.model import Model

HEIGHT = 520
"""Pixels of a page in a notebook."""

STILL = 360
"""Pixels of a still page."""

LISTED = 12
"""Joints in the table of a model."""


def frame_page(page: str, height: int = HEIGHT) -> str:
    """A whole page in a frame."""
    return f'<iframe srcdoc="{escape(page)}" style="width:100%;height:{height}px;border:1px solid #dfe3e8"></iframe>'


def frame_address(url: str, height: int = HEIGHT) -> str:
    """A page that a server offers, in a frame."""
    return f'<iframe src="{escape(url)}" style="width:100%;height:{height}px;border:1px solid #dfe3e8"></iframe>'


class ServedPage:
    """A page that a viser server offers while a clock of its own runs."""

    server: Any
    _stopped: threading.Event
    _clock: threading.Thread

    def wait(self) -> None:
        """Until :meth:`stop`, or an interrupt from the keyboard."""
        try:
            while not self._stopped.wait(0.2):
                pass
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Close the page."""
        self._stopped.set()
        self._clock.join(timeout=2.0)
        self.server.stop()

    def _start_clock(self, name: str) -> None:
        self._stopped = threading.Event()
        self._clock = threading.Thread(target=self._run, daemon=True, name=name)
        self._clock.start()

    def _run(self) -> None:
        """Send frames until the page stops."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{self.server.get_host()}:{self.server.get_port()}"

    def _repr_html_(self) -> str:
        """The page in a frame, where a notebook shows the viewer."""
        return frame_address(self.url)


def model_html(model: Model) -> str:
    """A model's sizes, its joints, and a picture that can be turned."""
    counts = [f"{len(model.bodies)} bodies", f"nq = {model.nq}", f"nv = {model.nv}"]
    counts += [f"{len(model.constraints)} constraints"] if model.constraints else []
    counts += [f"{len(model.contacts)} contacts"] if model.contacts else []
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(word)}</td>" for word in (j.name, j.kind, j.parent, j.child)) + "</tr>"
        for j in model.joints[:LISTED]
    )
    left = len(model.joints) - LISTED
    more = f'<tr><td colspan="4">… {left} more</td></tr>' if left > 0 else ""
    table = f"<table><tr><th>joint</th><th>kind</th><th>parent</th><th>child</th></tr>{rows}{more}</table>"
    heading = f"<b>{escape(model.name)}</b>: {', '.join(counts)}"
    return f"<div>{heading}<details><summary>joints</summary>{table}</details>{_picture(model)}</div>"


def _picture(model: Model) -> str:
    """A still page; nothing for a model that cannot be drawn, with the reason."""
    try:
        return frame_page(page_text(model, None), STILL)
    except (WhippletreeError, ValueError, OSError) as error:  # a model that does not assemble is worth a table too
        return f"<p>no picture: {escape(str(error))}</p>"
