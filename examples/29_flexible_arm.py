"""A flexible arm is moved, and calmed.

A motor turns a slender arm with a load by a right angle, in the same time along two commands: an abrupt one, and one
shaped so that it has nothing at the arm's own frequency (two half steps, half a period apart). What to learn: the load
is welded to the bent tip, ``wt.eigenmodes`` finds the frequency of arm and load together, and a controller is a plain
function of the motor's coordinate; modes need no sensor to be calmed.
"""

import numpy as np
from picture import BLUE, ORANGE, save, subplots

import whippletree as wt

beam = wt.flexible.beam(
    length=1.2, bending_stiffness=400.0, mass_per_length=0.4, modes=3, ends="clamped-interface", damping_ratio=0.002
)
builder = wt.Builder("flexible arm", (0, 0, 0)).flexible_body("arm", beam)
builder.body("load", 0.5, inertia=(1e-4, 1e-4, 1e-4)).joint("grip", "weld", "arm/tip", "load")
model = builder.joint("motor", "revolute", "world", "arm", rotor_inertia=2e-3, gear_ratio=20.0).build()

held = wt.Builder("held", (0, 0, 0)).flexible_body("arm", beam).body("load", 0.5, inertia=(1e-4, 1e-4, 1e-4))
held = held.joint("grip", "weld", "arm/tip", "load").joint("root", "weld", "world", "arm").build()
period = 1 / float(np.asarray(wt.eigenmodes(held, held.home.q).frequencies)[0])
print(f"arm and load swing with {1 / period:.3f} Hz while the motor holds")


def smooth(t, duration):
    """From 0 to 1 in a duration, with rest at both ends."""
    s = np.clip(t / duration, 0.0, 1.0)
    return s**3 * (10 - 15 * s + 6 * s**2)


START, MOVE = 0.1, 0.6
commands = {
    "one move": lambda t: np.pi / 2 * smooth(t - START, MOVE),
    "two half moves": lambda t: np.pi / 4 * (smooth(t - START, MOVE) + smooth(t - START - period / 2, MOVE)),
}


def motor(command):
    """A stiff servo on the motor's angle alone."""

    def controller(t, q, v):
        tau = np.zeros(model.nv)
        tau[0] = 4000.0 * (command(t) - q[0]) - 120.0 * v[0]
        return tau

    return controller


figure, (upper, lower) = subplots(2, 1, width=8.0, height=5.0, sharex=True)
shapes = beam.frame("tip").shapes[:, 1].astype(float)
for color, (name, command) in zip((ORANGE, BLUE), commands.items(), strict=True):
    run = wt.simulate(model, duration=3.0, controller=motor(command), rtol=1e-6, atol=1e-8, output_dt=0.01)
    bend = 1e3 * run.q.values[:, model.q_slice("arm/modes")] @ shapes
    late = np.abs(bend[run.time.values > START + MOVE + period]).max()
    upper.plot(run.time, np.degrees(run.q.sel(coordinate="motor")), color=color, label=name)
    lower.plot(run.time, bend, color=color, label=f"{name}: {late:.2g} mm left")
    print(f"{name}: the tip still swings by {late:.2g} mm when the move is over")
upper.set(title="angle of the motor", ylabel="degrees")
lower.set(title="deflection of the tip", xlabel="time, s", ylabel="mm")
lower.legend()
save(figure, model, run)
