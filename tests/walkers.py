"""A machine on legs whose limbs are alike, for tests of code that is written once for all of them."""

import numpy as np

import whippletree as wt
from whippletree import functions
from whippletree.compiler.frontend.unrolled import unrolled_program


def walker(pairs: int = 2, links: int = 4, *, odd: bool = False, free: bool = True) -> wt.Model:
    """A body with pairs of mirrored limbs of links in space; ``odd`` gives the right ones other numbers and zeros."""
    builder = wt.Builder("walker", gravity=(0, 0, -9.81))
    builder.body("trunk", 8.0, (0.01, 0, 0.02), (0.3, 0.2, 0.25))
    builder.joint("base", "free" if free else "revolute", "world", "trunk", **({} if free else {"axis": (0, 0, 1)}))
    axes = [(0, 1, 0), (1, 0, 0), (0, 0, 1)]
    for pair in range(pairs):
        for side, sign in (("left", 1), ("right", -1)):
            parent, place = "trunk", (0.3 - 0.6 * pair, 0.1 * sign, -0.05)
            for k in range(links):
                name = f"{side} {pair}.{k}"
                twist = 0.001 if odd and side == "right" else 0.0
                builder.body(name, 1.0 / (k + 1), (0.01 + twist, 0.02 * sign, -0.1), (0.01, 0.012, 0.004))
                builder.joint(name, "revolute", parent, name, axis=axes[(k + pair) % 3], position=place)
                parent, place = name, (0.02 + twist, 0.0, -0.2)
    return builder.build()


def programs(model: wt.Model, name: str) -> list:
    function = functions.find(name, model)
    return [unrolled_program(model, function, fold=fold) for fold in (None, "copies", "loops")]


def state(model: wt.Model, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = rng.normal(size=model.nq)
    if model.joints[0].kind == "free":
        q[3:7] /= np.linalg.norm(q[3:7])
    return {"q": q, "v": rng.normal(size=model.nv), "tau": rng.normal(size=model.nv)}
