"""``wt.show``: a live page in the browser, with viser: play, pause, scrub, speed, layers, curves beside the scene.

A page on 127.0.0.1 can be reached by any site that a browser has open: by a request from its own page (``Origin``), or
under a name of its own that it lets point to 127.0.0.1 (``Host``). Both headers are checked before anything is
answered, for files as for the connection that carries the scene.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import MissingExtraError
from whippletree.model import Model
from whippletree.view import page_curves, style
from whippletree.view.driven import DrivenMotion, DrivenViewer
from whippletree.view.items import LAYERS
from whippletree.view.notebook import ServedPage
from whippletree.view.replay import refuse_swapped
from whippletree.view.scene import FRAMES, Scene, scene

if TYPE_CHECKING:
    import xarray


PLAYED_RATE = 30.0
"""Pictures per second while playing."""

CURVE_RATE = 6.0
"""How often per second the marks on the curves follow."""

SPEEDS = ("0.001", "0.003", "0.01", "0.03", "0.1", "0.25", "0.5", "1", "2", "5", "10")
"""Seconds of the run per second of the clock."""

NO_LENGTH = 1e-6
"""Scale of what has no length, such as the arrow of a force that is zero."""


def show(
    model: Model,
    run: xarray.Dataset | None = None,
    *,
    q: Any = None,
    frames: int = FRAMES,
    exaggeration: float = 1.0,
    live: bool = False,
    host: str = "127.0.0.1",
    port: int = 8080,
    hosts: Collection[str] = (),
) -> Any:
    """Serve a live page of a model, or of a run.

    The page is served while the program runs: ``wt.show(model, run).wait()`` in a script keeps it open. It is bound to
    this machine, and answers only requests that name it by its address or as localhost and that come from the page
    itself: other sites in the same browser cannot reach it. Who can reach it needs no password.

    Args:
        model: any model.
        run: what ``wt.simulate`` returned for it; None for a still scene.
        q: the configuration of a still scene, (nq,); home if None.
        frames: at most so many moments of the run.
        exaggeration: what the deformation of flexible bodies is multiplied by.
        live: let the model move while one looks, from ``q`` at rest, in steps of ``dyn.step``, with a slider for the
            command of each actuator; without a run.
        host: who may look: this machine only, unless ``"0.0.0.0"``, every network of this machine.
        port: the next free one is taken if it is in use.
        hosts: further names under which the page may be opened, such as that of a proxy in front of it.

    Returns:
        The viewer: ``url``, ``play()``, ``pause()``, ``seek(t)``, ``wait()`` and ``stop()``; of a live one, instead of
        ``seek``, ``restart()`` and ``command(name, value)``.

    Raises:
        UnsupportedError: a model that ``dyn.step`` cannot step, if it is to be live.
    """
    refuse_swapped("show", model, run)
    try:
        import viser
    except ImportError as missing:
        raise MissingExtraError("the live page", "viser", "view") from missing
    _require_place(host, port)
    if live and run is not None:
        raise ValueError("show: a run has its motion already: leave out the run, or live=True")
    motion = DrivenMotion(model, q) if live else None
    shown = scene(model, run, q=q, frames=frames, exaggeration=exaggeration)
    curves = page_curves.curves(run, model, shown.times) if run is not None else []
    with guard_servers(host, hosts):
        server = viser.ViserServer(host=host, port=port, label=model.name, verbose=False)
    return Viewer(server, shown, curves) if motion is None else DrivenViewer(server, shown, motion)


def _require_place(host: str, port: int) -> None:
    """Refuse a place that cannot be had, for which viser would wait without end."""
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OverflowError:
            raise ValueError(f"show: port {port}: expected 0 to 65535") from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:  # then viser takes the next
                raise OSError(error.errno, f"show: no page at {host}:{port}: {error.strerror}") from None


class Viewer(ServedPage):
    """A page that plays one scene."""

    def __init__(self, server: Any, shown: Scene, curves: list[page_curves.Curves]) -> None:
        self.server, self.scene = server, shown
        self.time = float(shown.times[0])
        self.playing = False
        self._drawn = -1
        self._stage = LiveStage(server, shown)
        self._diagrams = []
        if len(shown.times) > 1:
            self._add_controls()
        self._add_layers()
        with server.gui.add_folder("Curves", visible=bool(curves)):
            self._diagrams = [_Diagram(server, shown.times, c) for c in curves]
        self.seek(self.time)
        self._start_clock("whippletree viewer")

    def play(self) -> None:
        """Go on from here; from the start at the end."""
        if self.time >= self.scene.times[-1]:
            self.time = float(self.scene.times[0])
        self._set_playing(len(self.scene.times) > 1)

    def pause(self) -> None:
        """Stay here."""
        self._set_playing(False)

    def seek(self, time: float) -> None:
        """Show a moment, s; the nearest one of the run."""
        self._show(time)
        if len(self.scene.times) > 1:
            self._slider.value = self.time

    def _show(self, time: float) -> None:
        times = self.scene.times
        self.time = float(np.clip(time, times[0], times[-1]))
        moment = int(np.argmin(np.abs(times - self.time)))
        if moment != self._drawn:
            self._drawn = moment
            self._stage.draw(moment)
            if not self.playing:
                self._mark(moment)

    # --- what the reader can touch ---

    def _add_controls(self) -> None:
        times = self.scene.times
        span = float(times[-1] - times[0])
        gui = self.server.gui
        with gui.add_folder("Playback"):
            self._button = gui.add_button("Play")
            self._slider = gui.add_slider("time, s", float(times[0]), float(times[-1]), span / 1000, float(times[0]))
            usual = [s for s in SPEEDS if float(s) <= min(1.0, span / 3)] or [SPEEDS[0]]
            self._speed = gui.add_dropdown("speed", SPEEDS, initial_value=usual[-1])
        self._button.on_click(lambda _: self.pause() if self.playing else self.play())
        self._slider.on_update(self._scrub)

    def _scrub(self, event: Any) -> None:
        if event.client_id is not None:  # moved by a reader, not by the clock
            self.pause()
            self._show(self._slider.value)

    def _add_layers(self) -> None:
        with self.server.gui.add_folder("Show"):
            for layer in self.scene.layers:
                box = self.server.gui.add_checkbox(layer, LAYERS[layer])
                box.on_update(lambda event, layer=layer: self._stage.switch(layer, event.target.value))

    # --- the clock ---

    def _set_playing(self, playing: bool) -> None:
        self.playing = playing
        if len(self.scene.times) > 1:
            self._button.label = "Pause" if playing else "Play"
        if not playing:
            self._mark(self._drawn)

    def _mark(self, moment: int) -> None:
        for diagram in self._diagrams:
            diagram.mark(moment)

    def _run(self) -> None:
        before = marked = time.monotonic()
        while not self._stopped.wait(1 / PLAYED_RATE):
            now = time.monotonic()
            if self.playing:
                self._advance(now - before)
                if now - marked > 1 / CURVE_RATE:
                    self._mark(self._drawn)
                    marked = now
            before = now

    def _advance(self, elapsed: float) -> None:
        first, last = float(self.scene.times[0]), float(self.scene.times[-1])
        wanted = self.time + elapsed * float(self._speed.value)
        self.seek(wanted if wanted <= last else first)


class LiveStage:
    """The scene's tracks and items as nodes of viser's scene."""

    def __init__(self, server: Any, shown: Scene) -> None:
        import viser.transforms

        self.server, self.scene = server, shown
        self._turns, self._stretches = [], []
        for track in shown.tracks:
            rotations, lengths = _remove_scale(track.poses[:, :3, :3])
            self._turns.append(viser.transforms.SO3.from_matrix(rotations).wxyz)
            self._stretches.append(None if np.allclose(lengths, 1.0) else np.maximum(lengths, NO_LENGTH))
        self._nodes = [server.scene.add_frame(f"/track {k}", show_axes=False) for k in range(len(shown.tracks))]
        self._meshes = [self._mesh(k) for k in range(len(shown.items))]
        self._look()

    def _mesh(self, number: int) -> Any:
        item = self.scene.items[number]
        solid = item.mesh.move(item.pose)
        return self.server.scene.add_mesh_simple(
            f"/track {item.track}/item {number}",
            solid.vertices.astype(np.float32),
            solid.faces.astype(np.uint32),
            color=style.bytes_of(item.color),
            side="double",
            visible=LAYERS[item.layer],
        )

    def _look(self) -> None:
        """Set up, eye and floor as the camera of the scene has them."""
        camera, (low, high) = self.scene.camera, self.scene.bounds
        size = float(np.linalg.norm(high - low))
        self.server.scene.set_up_direction(tuple(camera.vertical))
        self.server.initial_camera.position = tuple(camera.target + 1.35 * size * camera.back)
        self.server.initial_camera.look_at = tuple(camera.target)
        self.server.initial_camera.fov = 0.8
        self.server.initial_camera.near = size / 200
        self.server.scene.configure_default_lights()
        if not camera.planar:
            upright = int(np.argmax(np.abs(camera.vertical)))
            floor = camera.target - camera.vertical * ((high - low) @ np.abs(camera.vertical) / 2)
            plane = ("yz", "xz", "xy")[upright]
            cell = 10.0 ** np.floor(np.log10(size / 3))
            self.server.scene.add_grid(
                "/floor", 4 * size, 4 * size, plane=plane, cell_size=cell, section_size=10 * cell, position=tuple(floor)
            )

    def draw(self, moment: int) -> None:
        """Bring every track to a moment, all at once."""
        with self.server.atomic():
            for k, track in enumerate(self.scene.tracks):
                if len(track.poses) > 1 or moment == 0:
                    index = min(moment, len(track.poses) - 1)
                    self._nodes[k].wxyz = self._turns[k][index]
                    self._nodes[k].position = track.poses[index, :3, 3]
            for item, mesh in zip(self.scene.items, self._meshes, strict=True):
                stretch = self._stretches[item.track]
                if stretch is not None:
                    mesh.scale = tuple(stretch[min(moment, len(stretch) - 1)])

    def place(self, poses: Array) -> None:
        """Bring the first tracks to poses (n, 4, 4), all at once."""
        import viser.transforms

        turns = viser.transforms.SO3.from_matrix(poses[:, :3, :3]).wxyz
        with self.server.atomic():
            for node, turn, pose in zip(self._nodes, turns, poses, strict=False):
                node.wxyz, node.position = turn, pose[:3, 3]

    def switch(self, layer: str, visible: bool) -> None:
        """Show or hide a layer."""
        for item, mesh in zip(self.scene.items, self._meshes, strict=True):
            if item.layer == layer:
                mesh.visible = visible


class _Diagram:
    """Curves over time with marks at the present moment."""

    def __init__(self, server: Any, times: Array, curves: page_curves.Curves) -> None:
        self.times, self.values = times, curves.values.astype(float)
        colors = ["rgb({},{},{})".format(*style.bytes_of(color)) for color in curves.colors]
        lines = [{"label": n, "stroke": c, "width": 1.5} for n, c in zip(curves.names, colors, strict=True)]
        marks = [{"label": "", "stroke": c, "points": {"show": True, "size": 8, "fill": c}} for c in colors]
        title = f"{curves.title}, {curves.unit}" if curves.unit else curves.title
        self.handle = server.gui.add_uplot(
            self._data(0),
            ({"label": "time, s"}, *lines, *marks),
            title=title,
            # marks are NaN but for one moment: the range has to be told
            scales={"x": {"time": False}, "y": {"auto": False, "range": _range(self.values)}},
            legend={"show": False},
            aspect=1.7,
        )
        keys = [f'<span style="color:{c}">{escape(n)}</span>' for n, c in zip(curves.names, colors, strict=True)]
        server.gui.add_html(f'<div style="font-size:0.7em;padding:0 1em">{" · ".join(keys)}</div>')

    def _data(self, moment: int) -> tuple[Array, ...]:
        marks = np.full_like(self.values, np.nan)
        marks[moment] = self.values[moment]
        return (self.times, *self.values.T, *marks.T)

    def mark(self, moment: int) -> None:
        """Move the marks."""
        self.handle.data = self._data(moment)


def _remove_scale(matrices: Array) -> tuple[Array, Array]:
    """Rotations (T, 3, 3), and the lengths of their columns (T, 3); the identity where a column has none."""
    lengths = np.linalg.norm(matrices, axis=1)
    there = (lengths > 0).all(axis=1)
    rotations = np.tile(np.eye(3), (len(matrices), 1, 1))
    rotations[there] = matrices[there] / lengths[there][:, None, :]
    return rotations, lengths


def _range(values: Array) -> tuple[float, float]:
    """Range of a diagram, with a little air."""
    low, high = float(values.min()), float(values.max())
    air = 0.05 * (high - low) or max(abs(high), 1.0)
    return low - air, high + air


# --- who may open the page: requests that name this machine, from the page itself -------------------------------------


LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that cannot point elsewhere."""

EVERYWHERE = ("0.0.0.0", "::")
"""Hosts that mean every network of this machine."""

_one_at_a_time = threading.Lock()


def refusal(host: str | None, origin: str | None, served: str, names: Collection[str] = ()) -> str:
    """Why a request is refused; empty if it is not.

    Args:
        host: its ``Host``.
        origin: its ``Origin``; None where there is none, as in a request that no page has caused.
        served: the address at which the page is served.
        names: further names under which it may be opened.
    """
    name = _name(f"//{host}") if host else ""
    if not name or not _is_known(name, served, names):
        return f"Host {host!r} is not where this page is served: open it at {served}, or give the name to show(hosts=)"
    if origin is not None and urlsplit(origin).netloc.lower() != (host or "").lower():
        return f"Origin {origin!r} is another page than the one at {host!r}"
    return ""


def _is_known(name: str, served: str, names: Collection[str]) -> bool:
    if name in (*LOOPBACK, served.lower(), *[own.lower() for own in names]):
        return True
    return served in EVERYWHERE and _is_address(name)  # a number cannot be made to point elsewhere


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


@contextmanager
def guard_servers(served: str, names: Collection[str] = ()) -> Iterator[None]:
    """Let servers that are started within check every request; viser has no setting for it."""
    from websockets.asyncio import server

    with _one_at_a_time:
        usual: Any = server.serve
        server.serve = _checking(usual, served, names)  # type: ignore[misc, assignment]
        try:
            yield
        finally:
            server.serve = usual  # type: ignore[misc]


def _checking(serve: Callable[..., Any], served: str, names: Collection[str]) -> Callable[..., Any]:
    """The function that starts a server, with a check before the server's own answer to a request."""

    def start(*arguments: Any, process_request: Callable[..., Any] | None = None, **options: Any) -> Any:
        def check(connection: Any, request: Any) -> Any:
            hosts, origins = (request.headers.get_all(word) for word in ("Host", "Origin"))
            single = len(hosts) == 1 and len(origins) <= 1
            why = refusal(hosts[0] if single else None, origins[0] if single and origins else None, served, names)
            if why:
                return connection.respond(HTTPStatus.FORBIDDEN, f"{why}\n")
            return None if process_request is None else process_request(connection, request)

        return serve(*arguments, process_request=check, **options)

    return start
