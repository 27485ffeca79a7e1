"""A crawler learns to crawl.

A box with one arm of two joints lies on the floor. A small network sees the arm's angles, the box's tilt and a clock,
and commands the two servos; nobody tells it how to crawl. What to learn: ``dyn.step`` steps many robots in one call, so
that a loop of one's own, with another network for each robot, is a training ground. The cross-entropy method draws
sixty-four networks, keeps the eight whose robots came farthest, and draws again around them.
"""

import numpy as np
from picture import BLUE, ORANGE, save, subplots

import whippletree as wt
from whippletree.controllers import batched

along_x = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]  # the axis of a capsule is z
builder = wt.Builder("crawler", gravity=(0, -9.81, 0))
builder.body("box", mass=1.0, inertia=(0.003, 0.007, 0.006)).geometry("hull", "box", "box", size=(0.26, 0.07, 0.16))
builder.joint("lies", "planar", "world", "box", start=(0.0, 0.0615, 0.0))
for joint, parent, arm, place, start in (
    ("shoulder", "box", "upper arm", (0.12, 0.03, 0), 0.8),
    ("elbow", "upper arm", "forearm", (0.18, 0, 0), -1.6),
):
    builder.body(arm, mass=0.12, center=(0.09, 0, 0), inertia=(2e-5, 4e-4, 4e-4))
    builder.geometry(arm, arm, "capsule", radius=0.014, length=0.18, position=(0.09, 0, 0), rotation=along_x)
    builder.joint(joint, parent=parent, child=arm, kind="revolute", position=place, start=start, damping=0.02)
    builder.actuator(joint, joint, gain=(6, 0, 0), bias=(0, -6, -0.2), force_range=(-3, 3))  # a position servo
FEET = {
    "tail": ("box", (-0.12, -0.045, 0)),
    "chin": ("box", (0.12, -0.045, 0)),
    "bend": ("forearm", (0, 0, 0)),
    "hand": ("forearm", (0.18, 0, 0)),
}
for name, (body, place) in FEET.items():
    builder.geometry(name, body, "sphere", radius=0.016, position=place)
crawler = wt.on_ground(builder.build(), geometries=list(FEET), friction=0.7)
dyn = wt.compile(crawler)

STEP, SECONDS, ROBOTS, ELITE, HIDDEN = 5e-3, 2.4, 64, 8, 5
SIZES = (HIDDEN, 6), (2, HIDDEN)


def networks(numbers):
    """Weights of both layers, (m, …) each, from rows of numbers."""
    cut = np.prod(SIZES[0])
    return numbers[:, :cut].reshape(-1, *SIZES[0]), numbers[:, cut:].reshape(-1, *SIZES[1])


def commands(weights, t, q):
    """Angles for the servos of m robots (m, 2), each with its own network."""
    clock = 2 * np.pi * 1.2 * t + 0 * q[:, 0]
    seen = np.stack([np.sin(clock), np.cos(clock), q[:, 3] - 0.4, q[:, 4] + 1.4, 3 * q[:, 2], 1 + 0 * clock], axis=1)
    hidden = np.tanh(np.einsum("mij,mj->mi", weights[0], seen))
    return [0.4, -1.4] + 1.2 * np.tanh(np.einsum("mij,mj->mi", weights[1], hidden))


def distances(numbers):
    """How far each of the robots comes, m; tumbling counts as not at all."""
    weights, m = networks(numbers), len(numbers)
    q, v, impulses = np.tile(crawler.home.q, (m, 1)), np.zeros((m, crawler.nv)), None
    for k in range(round(SECONDS / STEP)):
        q, v, _, impulses, _ = dyn.step(q, v, commands(weights, STEP * k, q), STEP, impulses=impulses)
    return np.where(np.isfinite(q[:, 0]) & (np.abs(q[:, 2]) < 1), q[:, 0], -1.0)


rng = np.random.default_rng(3)
mean, spread = np.zeros(sum(map(np.prod, SIZES))), np.ones(sum(map(np.prod, SIZES)))
story, champion, farthest = [], mean, -np.inf
for _ in range(25):
    drawn = mean + spread * rng.normal(size=(ROBOTS, len(mean)))
    found = distances(drawn)
    best = drawn[np.argsort(found)[-ELITE:]]
    mean, spread = best.mean(axis=0), best.std(axis=0) + 0.1
    story.append(np.quantile(found, [0.0, 0.5, 1.0]))
    if found.max() > farthest:
        champion, farthest = drawn[found.argmax()], float(found.max())
print(f"after {len(story)} generations the best comes {farthest:.2f} m, in the first it was {story[0][2]:.2f} m")
assert farthest > 2 * story[0][2]

# the best one again, as a run
weights = networks(champion[None])
ctrl = batched(lambda t, q, v: commands(weights, t, q))
run = wt.simulate(crawler, duration=SECONDS, method="time_stepping", step=STEP, output_dt=0.02, ctrl=ctrl)
assert not run.attrs["failure"]

figure, (left, right) = subplots(1, 2, width=10.5, height=3.6, width_ratios=[1.6, 1])
wt.plot(run, "strobe", model=crawler, count=5, ax=left, layers=("bodies", "ground"))
left.set_axis_off()
left.set_title(f"{float(run.q[-1, 0]):.2f} m in {SECONDS} s")
low, middle, high = np.array(story).T
right.fill_between(range(1, len(story) + 1), np.maximum(low, -0.1), high, color=BLUE, alpha=0.15, label="all robots")
right.plot(range(1, len(story) + 1), middle, color=BLUE, label="the middle one")
right.plot(range(1, len(story) + 1), high, color=ORANGE, label="the best")
right.set(title="how far they come", xlabel="generation", ylabel="m")
right.legend(loc="upper left")
save(figure, crawler, run)
