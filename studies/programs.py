"""One line for each kernel program of a few mechanisms, with a hash of what it says: ``python -m studies.programs``.

Code that only moved, or was written more plainly, must make the programs that it made before. Two commits are
compared by their lines:

    python -m studies.programs > before.txt     in a checkout of the one
    python -m studies.programs > after.txt      in a checkout of the other
    diff before.txt after.txt

Programs are those of the whole catalogue, derivatives along a direction, roll-outs and contact steps, for the robots
UR5, Panda, solo12 and G1 (from the wheel ``example-robot-data``), a four-bar and a crank-slider with a massless rod;
and for mechanisms whose programs are loops: a long chain on the ground, a chain of four-bar cells, a ladder, balls and
boxes. Nothing is compiled. Names on the command line choose among the mechanisms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from studies.models import robots
from whippletree import mechanisms
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.llvm.kernel import digest
from whippletree.compiler.program.program import Program
from whippletree.compiler.rollout.rollout import METHODS, Plan
from whippletree.compiler.rollout.scenes.scene_step import scene_program
from whippletree.contact.kinematics.scene_layout import Unsuited, scene_layout
from whippletree.errors import UnsupportedError, WhippletreeError
from whippletree.functions.registry import CATALOGUE
from whippletree.model import Model
from whippletree.model.contact_pairs import on_ground


class Listing(Compiled):
    """The functions of a model, of which only the programs are made."""

    def __init__(self, model: Model) -> None:
        super().__init__(model, np.float64, 1, (), "cpu")
        self.last: Program | None = None

    def _compile_once(self, key: Any, build: Callable[[], Program], **options: Any) -> Any:
        self.last = build()


def lines(name: str, model: Model) -> Iterator[str]:
    """One line for each program of a model; of those that a model has not, a line with the kind of refusal."""
    listing = Listing(model)
    for what, make in requests(listing).items():
        listing.last = None
        try:
            make()
        except WhippletreeError as refusal:
            yield f"{name} {what} {type(refusal).__name__}"
        else:
            if listing.last is not None:
                yield f"{name} {what} {digest(with_memory_in_order(listing.last)).hex()}"


def with_memory_in_order(program: Program) -> Program:
    """The program with its memory and tables in the order of their names: which part of a step asks for its own first
    says nothing of what the program does."""
    inner = [b for b in program.buffers if b.role not in ("input", "output")]
    return replace(program, buffers=(*program.of_role("input", "output"), *sorted(inner, key=lambda b: b.name)))


def requests(listing: Listing) -> dict[str, Callable[[], object]]:
    """What is asked of a model, by name."""
    body, joint = listing.model.bodies[-1].name, listing.model.joints[-1].name
    asked: dict[str, Callable[[], object]] = {}
    for name, function in CATALOGUE.items():
        names = tuple(joint if kind == "joints" else body for kind in function.names)
        asked[name] = partial(_entry, listing, name, names)
    for name in ("forward_dynamics", "inverse_dynamics"):
        asked[f"jvp of {name}"] = partial(listing.jvp, name)
        asked[f"vjp of {name}"] = partial(listing.vjp, name)
    for method in METHODS:
        asked[f"rollout by {method}"] = partial(listing.rollout_function, Plan(method))
    asked["contact_rollout"] = partial(listing._contact_function, 10, False, True)
    asked["contact_steps"] = lambda: listing.contact_steps
    asked["scene_steps"] = partial(_scene_steps, listing)
    return asked


def _scene_steps(listing: Listing) -> None:
    layout = scene_layout(listing.model)
    if isinstance(layout, Unsuited):
        raise UnsupportedError(layout.reason)
    about = (layout.classes, layout.kinds, layout.traits, layout.mechanism, layout.has_moments)
    listing.program(("scene_steps",), lambda: scene_program(*about))


def _entry(listing: Listing, name: str, names: tuple[str, ...]) -> object:
    found = getattr(listing, name)
    return found(*names) if names else found


def chosen(names: list[str]) -> dict[str, Model]:
    """The mechanisms by name."""
    trees = robots()
    models = {name: trees[name] for name in ("UR5", "Panda", "solo12", "G1") if name in trees}
    models |= {"four-bar": mechanisms.four_bar(), "crank-slider": mechanisms.crank_slider()}
    models |= {"rope": on_ground(mechanisms.chain(60), frames=["rod_30", "rod_60"], radius=0.02)}
    models |= {"cells": mechanisms.four_bar_chain(6), "ladder": mechanisms.n_four_bar(20)}
    models |= {"balls": mechanisms.spheres_in_box(4), "boxes": mechanisms.box_stack(2)}
    return {name: model for name, model in models.items() if not names or name in names}


def main() -> None:
    for name, model in chosen(sys.argv[1:]).items():
        for line in lines(name, model):
            print(line, flush=True)


if __name__ == "__main__":
    main()
