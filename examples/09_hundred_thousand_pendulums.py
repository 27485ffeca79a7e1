"""A hundred thousand double pendulums at once.

Each pixel is a double pendulum let go at rest; its colour tells how long it takes until an arm turns over. What to
learn: every compiled function broadcasts over batches like NumPy, and so do whole roll-outs. One call moves 120 000
states, eight at a time in the lanes of each core, and each gets the same bits as it would alone.
"""

import time

import numpy as np
from picture import save, subplots

import whippletree as wt

model = wt.mechanisms.double_pendulum()
dyn = wt.compile(model)
first, second = np.meshgrid(np.linspace(-np.pi, np.pi, 400), np.linspace(-np.pi, np.pi, 300))
q = np.stack([first - np.pi / 2, second - first], axis=-1).reshape(-1, 2)  # angles from hanging down, then relative
v = np.zeros_like(q)

step, stride, strides = 0.02, 10, 60
flipped = np.full(len(q), np.inf)
still = np.zeros((stride, 2))
dyn.rollout(q[:8], v[:8], still, step, method="rk4")  # compiled here, so that the clock below sees the work alone
begun = time.perf_counter()
for k in range(strides):
    q_path, v_path = dyn.rollout(q, v, still, step, method="rk4")
    q, v = q_path[:, -1], v_path[:, -1]
    over = np.abs(q_path[..., 0] + np.pi / 2) > np.pi
    over |= np.abs(q_path[..., 0] + q_path[..., 1] + np.pi / 2) > np.pi
    when = (k * stride + 1 + over.argmax(axis=1)) * step
    flipped = np.where(over.any(axis=1) & np.isinf(flipped), when, flipped)
seconds = time.perf_counter() - begun
steps = len(q) * stride * strides
print(
    f"{steps / 1e6:.0f} million steps in {seconds:.1f} s: {seconds / steps * 1e9:.0f} ns per step of four evaluations"
)

figure, axes = subplots(width=7.2, height=5.2)
image = axes.imshow(
    np.where(np.isinf(flipped), np.nan, flipped).reshape(first.shape), extent=(-180, 180, -180, 180), origin="lower",
    cmap="magma_r", aspect="auto", interpolation="nearest",
)  # fmt: skip
figure.colorbar(image, label="time until an arm turns over, s (white: not within 12 s)")
axes.grid(False)
axes.set(title="120 000 double pendulums", xlabel="upper arm at the start, °", ylabel="lower arm at the start, °")
save(figure)
