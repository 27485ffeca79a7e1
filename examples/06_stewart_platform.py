"""A Stewart platform follows a circle.

Six legs push, six loops close, and the platform keeps level on its way round. What to learn: torques for a desired
motion under constraints. ``inverse_dynamics_under_constraints`` takes the acceleration that is wanted, knows which
joints have motors (only the legs), and returns motor forces and the forces in the joints together: no Jacobian has to
be written, and nothing has to be inverted by hand.
"""

import numpy as np
from picture import save, subplots

import whippletree as wt
from whippletree.constraints.projectors import inverse_dynamics_under_constraints
from whippletree.view.painter import draw
from whippletree.view.scene import scene
from whippletree.view.style import series_color

platform = wt.mechanisms.stewart_platform()
dyn = wt.compile(platform)
legs = [f"leg_{k}" for k in range(6)]
place, rate = platform.q_slice("platform"), platform.slice("platform")
radius, turning = 0.25, 2 * np.pi / 1.5  # m, rad/s

times = np.linspace(0, 1.5, 46)
q, forces = platform.home.q, []
states = []
for t in times:
    c, s = np.cos(turning * t), np.sin(turning * t)
    goal = np.array([radius * c, radius * s, 1.2, 1, 0, 0, 0])
    q = q.copy()
    q[place] = goal
    q = wt.assemble(platform, q, hold={"platform": goal})
    # twist and acceleration of the platform, then of the legs that follow it
    twist = np.array([0, 0, 0, -s, c, 0]) * radius * turning
    wanted = np.array([0, 0, 0, -c, -s, 0]) * radius * turning**2
    A = dyn.constraint_jacobian(q)
    others = np.setdiff1d(np.arange(platform.nv), np.arange(rate.start, rate.stop))
    v, a = np.zeros((2, platform.nv))
    v[rate], a[rate] = twist, wanted
    v[others] = np.linalg.lstsq(A[:, others], -A[:, rate] @ twist)[0]
    a[others] = np.linalg.lstsq(A[:, others], -A[:, rate] @ wanted - dyn.constraint_bias(q, v))[0]
    answer = inverse_dynamics_under_constraints(platform, q, v, a, actuated=legs)
    assert answer.shortfall < 1e-8  # the motion can be had, exactly
    forces.append([answer.tau[platform.slice(leg)].item() for leg in legs])
    states.append(q)

figure, (left, right) = subplots(1, 2, width=9.5, height=4.2)
draw(left, scene(platform, None, q=states[5]), layers=("bodies", "massless links", "ground"))
left.set_axis_off()
left.set_title("six legs: universal joint, slide, ball")
for k, leg in enumerate(np.transpose(forces)):
    right.plot(times, leg, color=series_color(k, 6), label=f"leg {k}")
right.set(title="forces of the legs on a circle of 25 cm, once in 1.5 s", xlabel="time, s", ylabel="N", ylim=(-60, 120))
right.legend(ncols=3, loc="upper center")
print(f"the legs carry between {np.min(forces):.0f} and {np.max(forces):.0f} N; the platform weighs {9.81 * 10:.0f} N")
save(figure)
