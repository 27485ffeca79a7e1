"""``wt.show(model, live=True)``: a model in motion while one looks, its actuators commanded by sliders.

Steps are those of ``dyn.step``, as many as the clock asks for; a model that steps more slowly than the clock falls
behind it, and the page tells how far.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import compile as compile_model
from whippletree.errors import WhippletreeError
from whippletree.model import Actuator, Model
from whippletree.view.items import LAYERS
from whippletree.view.notebook import ServedPage
from whippletree.view.pose_series import Moves, single
from whippletree.view.scene import Scene

DRIVEN_RATE = 30.0
"""Pictures per second."""

DRIVEN_STEP = 1e-3
"""s: length of a step where the model has none of its own."""

BEHIND = 0.1
"""s of motion computed for one picture, at most."""

REACH = 10.0
"""Ends of a slider, up and down, where neither the actuator nor its joint has a range: N m, N, or whatever it takes."""


class DrivenMotion:
    """A state that moves in steps, under commands that may change between them."""

    def __init__(self, model: Model, q: Any = None) -> None:
        self.model, self.dyn = model, compile_model(model, watch="never")
        self.dt = DRIVEN_STEP if model.time_step is None else float(model.time_step)
        self.start = np.asarray(single(model, q).q[0], dtype=float)
        home = [key for key in model.key_frames if key.name == "home"]
        self.ctrl = np.array(home[0].commands if home else np.zeros(len(model.actuators)), dtype=float)
        self._start_act = np.array(home[0].act if home else np.zeros(len(model.activations)), dtype=float)
        self.restart()
        self.advance(1)  # what cannot be stepped is refused here, before a page is there
        self.restart()

    def restart(self) -> None:
        """Go back to the start, at rest."""
        self.q, self.v, self.time = self.start.copy(), np.zeros(self.model.nv), 0.0
        self._impulses: Any = None
        self.act = self._start_act.copy()

    def advance(self, steps: int) -> None:
        """Some steps under the present commands."""
        commands = self.ctrl if len(self.ctrl) else None
        for _ in range(steps):
            made = self.dyn.step(self.q, self.v, commands, self.dt, act=self.act, impulses=self._impulses)
            self.q, self.v, self._impulses = np.asarray(made.q), np.asarray(made.v), made.impulses
            self.act = np.asarray(made.act)
            self.time += self.dt

    def poses(self) -> Array:
        """Poses of the bodies, (bodies, 4, 4)."""
        return Moves(self.model, np.zeros(1), self.q[None]).bodies[:, 0]


def slider_range(model: Model, actuator: Actuator) -> tuple[float, float]:
    """Ends of an actuator's slider: its own range; of a position servo its joint's; else some way to both sides."""
    low, high = actuator.command_range
    if actuator.kind == "position" and len(actuator.joints) == 1 and not (np.isfinite(low) and np.isfinite(high)):
        joint = model.joints[model.joint_index(actuator.joints[0])]
        ends = sorted(float(end) * float(actuator.gear[0]) for end in (joint.lower, joint.upper))
        low, high = max(low, ends[0]), min(high, ends[1])
    return (low if np.isfinite(low) else min(-REACH, high - REACH)), (
        high if np.isfinite(high) else max(REACH, low + REACH)
    )


class DrivenViewer(ServedPage):
    """A page that steps a model and shows it: ``play()``, ``pause()``, ``restart()``, ``command(name, value)``."""

    def __init__(self, server: Any, shown: Scene, motion: DrivenMotion) -> None:
        from whippletree.view.live import LiveStage

        self.server, self.motion, self.playing = server, motion, False
        bodies = len(motion.model.bodies)
        own = tuple(item for item in shown.items if item.track <= bodies)  # what else there is belongs to one moment
        self._stage = LiveStage(server, Scene(**{**vars(shown), "items": own, "tracks": shown.tracks[: bodies + 1]}))
        self._lock = threading.Lock()
        self._add_controls([layer for layer in shown.layers if any(item.layer == layer for item in own)])
        self._draw()
        self._start_clock("whippletree live motion")

    def play(self) -> None:
        """Let time pass."""
        self.playing, self._button.label = True, "Pause"

    def pause(self) -> None:
        """Let time stand still."""
        self.playing, self._button.label = False, "Run"

    def restart(self) -> None:
        """Go back to the start; the commands stay."""
        with self._lock:
            self.motion.restart()
        self._draw()

    def command(self, name: str, value: float) -> None:
        """Set an actuator's command, as its slider does."""
        self._sliders[name].value = float(value)
        self.motion.ctrl[list(self._sliders).index(name)] = float(value)

    def _add_controls(self, layers: list[str]) -> None:
        gui, motion = self.server.gui, self.motion
        with gui.add_folder("Motion"):
            self._button, again = gui.add_button("Run"), gui.add_button("Restart")
            self._told = gui.add_markdown("at rest")
        self._button.on_click(lambda _: self.pause() if self.playing else self.play())
        again.on_click(lambda _: self.restart())
        self._sliders: dict[str, Any] = {}
        with gui.add_folder("Commands", visible=bool(motion.model.actuators)):
            for k, actuator in enumerate(motion.model.actuators):
                low, high = slider_range(motion.model, actuator)
                value = float(np.clip(motion.ctrl[k], low, high))
                slider = gui.add_slider(actuator.name, low, high, (high - low) / 200, value)
                slider.on_update(lambda event, k=k: motion.ctrl.__setitem__(k, float(event.target.value)))
                self._sliders[actuator.name] = slider
        with gui.add_folder("Show"):
            for layer in layers:
                box = gui.add_checkbox(layer, LAYERS[layer])
                box.on_update(lambda event, layer=layer: self._stage.switch(layer, event.target.value))

    def _run(self) -> None:
        owed, before = 0.0, time.monotonic()
        while not self._stopped.wait(1 / DRIVEN_RATE):
            now = time.monotonic()
            if self.playing:
                owed = min(owed + now - before, BEHIND)
                owed -= self._advance(int(owed / self.motion.dt))
            before = now

    def _advance(self, steps: int) -> float:
        """Some steps, and a picture; the seconds that they were. A motion that ends stops the clock, and says why."""
        if not steps:
            return 0.0
        begun = time.perf_counter()
        try:
            with self._lock:
                self.motion.advance(steps)
            lost = not np.isfinite(self.motion.q).all()
            why = "the state is no longer finite: soften the commands, or shorten the model's time_step" if lost else ""
        except WhippletreeError as error:
            why = str(error)
        if why:
            self.pause()
            self.restart()
            self._told.content = f"stopped: {why}"
            return steps * self.motion.dt
        self._draw()
        share = steps * self.motion.dt / max(time.perf_counter() - begun, 1e-9)
        pace = "" if share > 1 else f", {share:.2g} times as fast as the clock"
        self._told.content = f"{self.motion.time:.2f} s{pace}"
        return steps * self.motion.dt

    def _draw(self) -> None:
        self._stage.place(self.motion.poses())
