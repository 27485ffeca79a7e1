"""Mechanisms whose loops are not local: floating ladders, planar grids of pinned rods, trusses, rings of rings."""

import itertools
import math

import whippletree as wt

ROD = {"mass": 1.0, "center": (0.5, 0, 0), "inertia": (0, 1 / 12, 1 / 12)}
NOTHING = {"mass": 0.0}


def floating_ladder(rungs, base="planar", closure="pin", massless=()):
    """Two rails of links of 1 m, and rungs between them; the first link floats. Rails and rungs hang on the first rail.

    ``massless``: numbers of rungs without mass.
    """
    builder = wt.Builder("floating ladder", (0, -9.81, 0)).body("A0", **ROD).joint("base", base, "world", "A0")
    for k in range(1, rungs):
        builder.body(f"A{k}", **ROD).joint(f"a{k}", "revolute", f"A{k - 1}", f"A{k}", position=(1, 0, 0))
    for k in range(rungs):
        builder.body(f"R{k}", **(NOTHING if k in massless else ROD))
        builder.joint(f"r{k}", "revolute", f"A{k}", f"R{k}", start=math.pi / 2)
        builder.frame(f"top{k}", f"R{k}", position=(1, 0, 0))
    builder.body("B0", **ROD).joint("b0", "revolute", "R0", "B0", position=(1, 0, 0), start=-math.pi / 2)
    for k in range(1, rungs):
        builder.body(f"B{k}", **ROD).joint(f"b{k}", "revolute", f"B{k - 1}", f"B{k}", position=(1, 0, 0))
        builder.frame(f"foot{k}", f"B{k}").constraint(f"pin{k}", closure, f"top{k}", f"foot{k}")
    return builder.build()


def grid(columns, rows):
    """Cells of upright and level rods of 1 m, pinned where they meet; the lowest uprights stand on the ground."""
    builder = wt.Builder("grid", (0, -9.81, 0))
    for j in range(rows):
        lean = math.pi / 2 - 0.3 + (0.2 if j % 2 else 0.0)
        for i in range(columns + 1):
            builder.body(f"V{i},{j}", **ROD).frame(f"n{i},{j}", f"V{i},{j}", position=(1, 0, 0))
            if j == 0:
                builder.joint(f"v{i},{j}", "revolute", "world", f"V{i},{j}", position=(i, 0, 0), start=lean)
            else:
                turn = 0.2 if j % 2 else -0.2
                builder.joint(f"v{i},{j}", "revolute", f"V{i},{j - 1}", f"V{i},{j}", position=(1, 0, 0), start=turn)
        for i in range(columns):
            builder.body(f"H{i},{j}", **ROD).frame(f"e{i},{j}", f"H{i},{j}", position=(1, 0, 0))
            builder.joint(f"h{i},{j}", "revolute", f"V{i},{j}", f"H{i},{j}", position=(1, 0, 0), start=-lean)
            builder.constraint(f"p{i},{j}", "pin", f"n{i + 1},{j}", f"e{i},{j}")
    return builder.build()


def truss(panels, turned=0.0, axial=0.001):
    """A floating girder of triangles: bars of 0.5 kg between nodes, hinged to each other where they meet, in a plane.

    Every hinge is a joint of its own; most of them close loops, with three rows too many each. ``turned``: the angle of
    every hinge's frame to the bar that it carries; ``axial``: inertia of a bar about its own axis.
    """
    places = {f"low {i}": (float(i), 0.0) for i in range(panels + 1)}
    places |= {f"high {i}": (i + 0.5, 0.8 + 0.1 * math.sin(i)) for i in range(panels)}
    bars = [(f"low {i}", f"low {i + 1}") for i in range(panels)]
    bars += [(f"low {i}", f"high {i}") for i in range(panels)] + [(f"high {i}", f"low {i + 1}") for i in range(panels)]
    bars += [(f"high {i}", f"high {i + 1}") for i in range(panels - 1)]
    return hinged_bars("truss", places, bars, turned, axial)


def ring_of_rings(rings):
    """Hexagons of bars, each hinged to the next at opposite corners, the last to the first: afloat, in a plane.

    Every bar is in a small loop, and all of them are in a large one.
    """
    places, bars = {}, []
    for k in range(rings):
        turn, other = (2 * math.pi * x / rings for x in (k, k + 1))
        start, end = ((rings * math.cos(x) / 2, rings * math.sin(x) / 2) for x in (turn, other))
        along = (end[0] - start[0], end[1] - start[1])
        places[f"joint {k}"] = start
        for name, share, side in (("out", 0.25, 0.4), ("over", 0.7, 0.45), ("in", 0.3, -0.4), ("under", 0.75, -0.5)):
            at = [start[i] + share * along[i] + side * (-along[1], along[0])[i] for i in (0, 1)]
            places[f"{name} {k}"] = (at[0], at[1])
        way = [f"joint {k}", f"out {k}", f"over {k}", f"joint {(k + 1) % rings}", f"under {k}", f"in {k}", f"joint {k}"]
        bars += list(itertools.pairwise(way))
    return hinged_bars("ring of rings", places, bars)


def hinged_bars(name, places, bars, turned=0.0, axial=0.001):
    """Bars of 0.5 kg between places in a plane, the first of them afloat, hinged to each other where they meet."""
    turn = ((math.cos(turned), -math.sin(turned), 0), (math.sin(turned), math.cos(turned), 0), (0, 0, 1))
    builder = wt.Builder(name, (0, -9.81, 0))
    meeting, angles = {}, []
    for k, (first, last) in enumerate(bars):
        (x, y), (xx, yy) = places[first], places[last]
        length = math.hypot(xx - x, yy - y)
        angles.append(math.atan2(yy - y, xx - x))
        builder.body(f"bar {k}", 0.5, (length / 2, 0, 0), (axial, length**2 / 24, length**2 / 24))
        meeting.setdefault(first, []).append((k, 0.0))
        meeting.setdefault(last, []).append((k, length))
    builder.joint("base", "planar", "world", "bar 0")
    for node, ((k, at), *others) in meeting.items():
        for i, there in others:
            place = {"position": (at, 0, 0), "child_position": (there, 0, 0), "start": angles[i] - angles[k] + turned}
            place |= {"child_rotation": turn} if turned else {}
            builder.joint(f"{node}, bar {i}", "revolute", f"bar {k}", f"bar {i}", **place)
    return builder.build()


def slider_crank_bank(legs, upright=None):
    """Slider-cranks on one shaft, each with its own angle; the rod number ``upright`` is at right angles to its bore:
    there the shaft has reached its limit, and turns no further."""
    builder = wt.Builder("bank", (0, -9.81, 0)).body("shaft", 5.0, (0.05, 0, 0), (0.1, 0.1, 0.2))
    builder.joint("main", "revolute", "world", "shaft", start=0.3)
    for k in range(legs):
        crank, length, bore = 0.3 + 10.7 * k / legs, 1.2, 0.0
        height = 0.5 * math.sin(crank)
        if k == upright:
            length, bore = 0.3, height - 0.3
        lean = -math.asin((height - bore) / length)
        builder.body(f"rod {k}", 1.0, (length / 2, 0, 0), (0, length**2 / 12, length**2 / 12))
        builder.body(f"piston {k}", 1.5, inertia=(0.01, 0.01, 0.01))
        at = 0.5 * math.cos(crank - 0.3), 0.5 * math.sin(crank - 0.3), 0
        builder.joint(f"pin {k}", "revolute", "shaft", f"rod {k}", position=at, start=lean - 0.3)
        builder.joint(f"wrist {k}", "revolute", f"rod {k}", f"piston {k}", position=(length, 0, 0), start=-lean)
        builder.frame(f"bore {k}", "world", position=(0, bore, 0))
        builder.constraint(f"slide {k}", "slider", f"bore {k}", f"piston {k}", axis=(1, 0, 0))
    return builder.build()


def legs_on_a_crank(legs):
    """A floating trunk with a crank, and a four-bar leg with a shank on both of them for each of ``legs``."""
    builder = wt.Builder("legs", (0, -9.81, 0)).body("trunk", 5.0, (0.1, 0, 0), (0.2, 0.3, 0.4))
    builder.joint("base", "planar", "world", "trunk")
    builder.body("crank", 0.5, (0.05, 0, 0), (0.01, 0.01, 0.02)).joint("drive", "revolute", "trunk", "crank", start=0.4)
    pin = 0.2 * math.cos(0.4), 0.2 * math.sin(0.4)
    for k in range(legs):
        pivot, arm, angle = (1 + 0.02 * k, -0.1 - 0.01 * k), 0.6, 1.5 + 0.01 * k
        end = pivot[0] + arm * math.cos(angle), pivot[1] + arm * math.sin(angle)
        length, lean = math.dist(pin, end), math.atan2(end[1] - pin[1], end[0] - pin[0])
        for name, own in ((f"rocker {k}", arm), (f"coupler {k}", length), (f"shank {k}", 0.5)):
            builder.body(name, 0.3, (own / 2, 0, 0), (0, own**2 / 40, own**2 / 40))
        builder.joint(f"hip {k}", "revolute", "trunk", f"rocker {k}", position=(*pivot, 0), start=angle)
        builder.joint(f"ankle {k}", "revolute", f"rocker {k}", f"shank {k}", position=(arm, 0, 0), start=-1.0)
        builder.joint(f"rod {k}", "revolute", "crank", f"coupler {k}", position=(0.2, 0, 0), start=lean - 0.4)
        builder.frame(f"end {k}", f"rocker {k}", position=(arm, 0, 0))
        builder.frame(f"tip {k}", f"coupler {k}", position=(length, 0, 0))
        builder.constraint(f"pin {k}", "pin", f"end {k}", f"tip {k}")
    return builder.build()
