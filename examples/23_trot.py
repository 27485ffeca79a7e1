"""A quadruped trots.

Diagonal pairs of feet swing in turn; a whole-body controller chooses torques, accelerations and contact forces together
in every step: the trunk follows a speed, feet that stand keep to the ground within their friction cones, feet that
swing follow a curve to where the hip will be. What to learn: a gait is a list of who carries when (``touching``) and
of targets; the rest is one compiled function, ``wt.control.whole_body``, and what it promises (no foot pulls, no cone
is left) can be checked in the simulation, which knows nothing of the controller.
"""

import os
from dataclasses import replace

import numpy as np
from picture import PALETTE, save, subplots

import whippletree as wt
from whippletree.model import Frame

SECONDS = float(os.environ.get("EXAMPLE_SECONDS", 10.0))
STEP, SWING, SPEED, LIFT = 2e-3, 0.2, 0.4, 0.05
LEGS = ("front_left", "front_right", "hind_left", "hind_right")
PAIRS = ((0, 3), (1, 2))

dog = wt.mechanisms.quadruped(stiffness=0.0, damping=0.0, friction=0.6)
foot = np.eye(4)
foot[2, 3] = -0.2
dog = replace(dog, frames=(*dog.frames, *[Frame(f"{leg} toe", f"{leg} shank", foot) for leg in LEGS]))
dyn = wt.compile(dog)
toes = [dyn.pose(f"{leg} toe") for leg in LEGS]
start = np.stack([toe(dog.home.q)[:3, 3] for toe in toes])
height = dog.home.q[2]

task = wt.control.task
tasks = [task("trunk", weight=20.0, stiffness=100.0), task("posture", weight=0.01, stiffness=10.0, damping=5.0)]
tasks += [task(f"{leg} toe.position", weight=20.0, stiffness=900.0) for leg in LEGS]
control = wt.control.whole_body(dog, tasks, dyn=dyn)


class Trot:
    """Which pair swings, from where, and to where; keeps a log of what the controller promised."""

    def __init__(self):
        self.turn, self.lifted, self.x, self.log = -1, start.copy(), 0.0, []

    def __call__(self, t, q, v):
        turn = int(t / SWING + 1e-9)
        now = np.stack([toe(q)[:3, 3] for toe in toes])
        if turn != self.turn:
            self.turn, self.lifted = turn, now
        phase = t / SWING - turn
        speed = SPEED * min(t, 1.0)
        self.x += STEP * speed
        velocity = q_rotation(q) @ v[3:6]
        trunk = np.eye(4)
        trunk[:3, 3] = self.x, 0.0, height
        targets, rates, extra = {"trunk": trunk}, {"trunk": (0, 0, 0, speed, 0, 0)}, {}
        touching = np.ones(4)
        for leg, name in enumerate(LEGS):
            key = f"{name} toe.position"
            if leg not in PAIRS[turn % 2] or t < SWING:
                targets[key] = now[leg]
                continue
            touching[leg] = 0.0
            landing = start[leg] + q[:3] * (1, 1, 0)  # below the hip, where it will be in the middle of its stance
            landing[:2] += (
                velocity[:2] * SWING / 2 + 0.08 * (velocity[:2] - (speed, 0)) + velocity[:2] * SWING * (1 - phase)
            )
            s, rate, bend = smooth(phase)
            way = landing - self.lifted[leg]
            up, up_rate, up_bend = np.sin(np.pi * phase), np.cos(np.pi * phase), -np.sin(np.pi * phase)
            targets[key] = self.lifted[leg] + s * way + (0, 0, LIFT * up)
            rates[key] = rate / SWING * way + (0, 0, LIFT * np.pi / SWING * up_rate)
            extra[key] = bend / SWING**2 * way + (0, 0, LIFT * (np.pi / SWING) ** 2 * up_bend)
        found = control(q, v, targets=targets, rates=rates, accelerations=extra, touching=touching)
        forces = found.contact_forces.reshape(-1, 3)
        self.log.append((np.hypot(forces[:, 1], forces[:, 2]) - 0.6 * forces[:, 0])[touching > 0].max())
        return found.tau


def smooth(s):
    """10 s³ − 15 s⁴ + 6 s⁵ and its derivatives."""
    return s**3 * (10 + s * (6 * s - 15)), 30 * s**2 * (1 - s) ** 2, 60 * s * (1 - s) * (1 - 2 * s)


def q_rotation(q):
    return dyn.pose("trunk")(q)[:3, :3]


trot = Trot()
run = wt.simulate(dog, duration=SECONDS, method="time_stepping", step=STEP, output_dt=0.02, controller=trot)
assert not run.attrs["failure"]
x, z = run.q[:, 0].values, run.q[:, 2].values
print(f"{SECONDS:g} s: went {x[-1]:.2f} m, trunk between {z.min():.3f} and {z.max():.3f} m")
print(f"furthest out of a friction cone {max(trot.log):.1e} N")
assert np.abs(run.q[-1, 1]) < 0.2
assert z.min() > 0.8 * height
assert x[-1] > 0.7 * SPEED * (SECONDS - 1)
assert max(trot.log) < 0

figure, (left, right) = subplots(1, 2, width=10.0, height=3.6)
for k, leg in enumerate(LEGS):
    left.plot(run.time[:100], run.contact_force[:100, k, 0], color=PALETTE[k], label=leg.replace("_", " "))
left.set(title="normal forces of the first two seconds", xlabel="time, s", ylabel="N")
left.legend()
right.plot(run.time, x, color=PALETTE[0], label="way, m")
right.plot(run.time, 10 * (z - height), color=PALETTE[1], label="height − stance, dm")
right.set(title="the trunk", xlabel="time, s")
right.legend()
save(figure, dog, run)
