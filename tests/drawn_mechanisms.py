"""Planar machines drawn by hand, which no generator of random mechanisms makes, each in two configurations.

pantograph       a parallelogram with long arms on a free base; and in line, where its rows depend on each other
scissor_lift     eight stages of crossing bars, on a hinge and a roller; and half a degree above flat
walker           two of Jansen's legs on one crank; and where a crank and its rod are in line
chain_drive      a ring of twelve links around three sprockets, pinned to their rims; and turned by a tenth of a turn
woven_grid       4 × 4 cells of pinned rods, one row of which is massless; and leaning the other way
"""

import math
from typing import NamedTuple

import numpy as np

import whippletree as wt


class DrawnMachine(NamedTuple):
    """A model, two configurations, joints whose accelerations can be given together, and rows of frames as a task."""

    model: wt.Model
    regular: np.ndarray
    special: np.ndarray
    motors: tuple
    task: tuple


class Sketch:
    """Bars between points of a drawing in the x-y plane: each hangs on another one by a hinge at its first point."""

    def __init__(self, name):
        self.builder = wt.Builder(name, (0, -9.81, 0))
        self.places = {"world": (0j, 0.0)}
        """First point and direction of each bar."""

    def local(self, bar, point):
        """A point of the drawing in the axes of a bar."""
        start, angle = self.places[bar]
        at = (point - start) * complex(math.cos(angle), -math.sin(angle))
        return (at.real, at.imag, 0)

    def bar(self, name, parent, first, second, mass=1.0):
        """A bar from point to point."""
        along, before = second - first, self.places[parent][1]
        self.places[name] = first, math.atan2(along.imag, along.real)
        middle = (abs(along) / 2, 0, 0) if mass else (0, 0, 0)
        lateral = mass * abs(along) ** 2 / 12
        self.builder.body(name, mass, middle, (0, lateral, lateral))
        turn = math.remainder(self.places[name][1] - before, 2 * math.pi)
        at = self.local(parent, first)
        self.builder.joint(f"{name} joint", "revolute", parent, name, position=at, start=turn)
        return self

    def pin(self, first, second, point):
        """Two bars that meet at a point."""
        name = f"{first} to {second}"
        for bar in (first, second):
            self.builder.frame(f"{name}: {bar}", bar, position=self.local(bar, point))
        self.builder.constraint(name, "pin", f"{name}: {first}", f"{name}: {second}")
        return self


def pantograph():
    """Bars 1 and 3 of 2 m, and bars 2 and 4 of 1 m between their middles."""
    sketch = Sketch("pantograph")
    sketch.builder.body("base", 3.0, inertia=(0.1, 0.2, 0.3)).joint("floats", "free", "world", "base")
    sketch.places["base"] = 0j, 0.0
    hip, mid, elbow = 0.2 + 0.1j, 1.1 + 0.5j, 2.0 + 0.9j
    arm = 0.6 - 0.8j
    sketch.bar("bar 1", "base", hip, elbow).bar("bar 2", "bar 1", mid, mid + arm)
    sketch.bar("bar 3", "bar 1", elbow, elbow + 2 * arm).bar("bar 4", "bar 3", elbow + arm, mid + arm)
    sketch.pin("bar 2", "bar 4", mid + arm).builder.frame("pen", "bar 3", position=(2, 0, 0))
    model = sketch.builder.build()
    in_line = np.array(model.home.q)
    for name, angle in (("bar 2", 0.0), ("bar 3", 0.0), ("bar 4", math.pi)):
        in_line[model.q_slice(f"{name} joint")] = angle
    return DrawnMachine(model, model.home.q, in_line, ("bar 1 joint", "bar 3 joint"), ("pen.x", "pen.y", "base.rz"))


def scissor_lift(stages=8):
    """Bars of 2 m that cross in their middles; the lowest falling one has a roller on the ground.

    A falling bar is drawn from where it crosses the rising one upwards; its lower half belongs to it all the same.
    """
    sketch, up = Sketch("scissor lift"), 2 * complex(math.cos(0.6), math.sin(0.6))
    left = 0j
    for k in range(stages):
        right, above = left + up.real, left + 1j * up.imag
        sketch.bar(f"rising {k}", f"falling {k - 1}" if k else "world", left, left + up)
        sketch.bar(f"falling {k}", f"rising {k}", left + up / 2, above)
        if k:
            sketch.pin(f"rising {k - 1}", f"falling {k}", right)
        left = above
    sketch.builder.frame("heel", "falling 0", position=sketch.local("falling 0", complex(up.real)))
    sketch.builder.constraint("roller", "point_on_plane", "world", "heel", normal=(0, 1, 0))
    last = f"rising {stages - 1}"
    sketch.builder.frame("load", last, position=(2, 0, 0))
    model = sketch.builder.build()
    flat = wt.assemble(model, hold={"rising 0 joint": math.radians(0.5)})
    return DrawnMachine(model, model.home.q, flat, ("rising 0 joint",), ("load.y",))


def walker():
    """Theo Jansen's leg twice on one crank, in units of a decimetre."""
    sketch, crank = Sketch("walker"), 1.5 * complex(math.cos(0.7), math.sin(0.7))
    sketch.bar("crank", "world", 0j, crank)
    for side, turn in (("left", 1), ("right", -1)):
        pivot = -3.8 * turn - 0.78j
        top, low = _meeting(crank, 5.0, pivot, 4.15, -turn), _meeting(crank, 6.19, pivot, 3.93, turn)
        out = _meeting(pivot, 4.01, top, 5.58, turn)
        toe = _meeting(low, 3.67, out, 3.94, turn)
        foot = _meeting(low, 4.9, toe, 6.57, turn)
        sketch.bar(f"{side} shoulder", "world", pivot, top).bar(f"{side} upper rod", "crank", crank, top)
        sketch.bar(f"{side} lower arm", "world", pivot, low).bar(f"{side} lower rod", "crank", crank, low)
        sketch.bar(f"{side} shin", f"{side} lower arm", low, foot).bar(f"{side} tie", f"{side} shoulder", out, toe)
        sketch.pin(f"{side} shoulder", f"{side} upper rod", top).pin(f"{side} lower arm", f"{side} lower rod", low)
        sketch.pin(f"{side} shin", f"{side} tie", toe)
        sketch.builder.frame(f"{side} foot", f"{side} shin", position=sketch.local(f"{side} shin", foot))
    model = sketch.builder.build()
    in_line = wt.assemble(model, hold={"left upper rod joint": math.pi})
    return DrawnMachine(model, model.home.q, in_line, ("crank joint",), ("left foot.x",))


def _meeting(a, r, b, s, side):
    """The point at the distances r of a and s of b, to the left (1) or right (−1) of the way from a to b."""
    way = abs(b - a)
    along = (way**2 + r**2 - s**2) / (2 * way)
    return a + (b - a) / way * complex(along, side * math.sqrt(r**2 - along**2))


def chain_drive():
    """Twelve links of a ring; links 0, 4 and 8 begin on the rims of sprockets, one of which is driven."""
    sketch = Sketch("chain drive")
    ring = [(3 + 0.25 * (k % 2)) * complex(math.cos(k * math.pi / 6), math.sin(k * math.pi / 6)) for k in range(13)]
    ring[12] = ring[0]
    for n, k in enumerate((0, 4, 8)):
        sketch.bar(f"sprocket {n}", "world", ring[k] * 0.8, ring[k], mass=2.0)
    for k in range(12):
        sketch.bar(f"link {k}", f"link {k - 1}" if k else "sprocket 0", ring[k], ring[k + 1], mass=0.2)
    sketch.pin("sprocket 1", "link 4", ring[4]).pin("sprocket 2", "link 8", ring[8]).pin(
        "link 11", "sprocket 0", ring[0]
    )
    model = sketch.builder.build()
    turned = wt.assemble(model, hold={"sprocket 0 joint": model.home.q[model.q_slice("sprocket 0 joint")][0] + 0.6})
    motors = ("sprocket 0 joint", "link 2 joint")
    return DrawnMachine(model, model.home.q, turned, motors, ("link 6.x", "link 6.y"))


def woven_grid(cells=4):
    """Upright and level rods of 1 m, pinned where they meet; the level rods of the second row have no mass."""
    sketch, lean = Sketch("woven grid"), 1.2
    corner = {(i, 0): complex(i) for i in range(cells + 1)}
    for j in range(cells):
        step = complex(math.cos(lean), math.sin(lean)) if j % 2 else complex(-math.cos(lean), math.sin(lean))
        for i in range(cells + 1):
            corner[i, j + 1] = corner[i, j] + step
            sketch.bar(f"up {i},{j}", f"up {i},{j - 1}" if j else "world", corner[i, j], corner[i, j + 1])
        for i in range(cells):
            ends = corner[i, j + 1], corner[i + 1, j + 1]
            sketch.bar(f"level {i},{j}", f"up {i},{j}", *ends, mass=0.0 if j == 1 else 1.0)
            sketch.pin(f"up {i + 1},{j}", f"level {i},{j}", ends[1])
    model = sketch.builder.build()
    other = wt.assemble(model, hold={"up 0,0 joint": 1.0, "up 0,1 joint": 0.7})
    return DrawnMachine(model, model.home.q, other, ("up 0,0 joint", "up 0,2 joint"), (f"up 0,{cells - 1}.x",))


MACHINES = {
    "pantograph": pantograph,
    "scissor lift": scissor_lift,
    "walker": walker,
    "chain drive": chain_drive,
    "woven grid": woven_grid,
}
