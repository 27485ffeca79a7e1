"""``linearize`` against differences of the equations of motion, with mechanisms that are special in nothing."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.simulation.output.labels import velocities


class ByDifferences:
    """ẋ of deviations in the system's own coordinates, from M, c, rows and contacts alone."""

    def __init__(self, system, modes):
        self.s, self.model, self.modes = system, system.model, modes
        self.dyn = wt.compile(self.model)
        names = velocities(self.model)
        self.count = system.positions.shape[1]
        self.positions = [names.index(name) for name in system.states[: self.count]]
        self.velocities = [names.index(name.removeprefix("rate of ")) for name in system.states[self.count :]]
        self.numbers = {name: list(wt.contact_set(self.model).names).index(name) for name in modes}

    def rows(self, q, v):
        """A, F and γ, and which of the rows have a position, with their residuals."""
        dyn, nv = self.dyn, self.model.nv
        A, F, gamma, residual, level = [np.zeros((0, nv))], [np.zeros((0, nv))], [], [], []
        if self.model.constraints:
            A, F = [dyn.constraint_jacobian(q)], [dyn.constraint_jacobian(q)]
            gamma, residual = [dyn.constraint_bias(q, v)], [dyn.constraint_residual(q)]
            level = list(wt.constraint_set(self.model).position_rows)
        for name, mode in self.modes.items():
            k = 3 * self.numbers[name]
            J, bias = dyn.contact_jacobian(q)[k : k + 3], dyn.contact_bias(q, v)[k : k + 3]
            held = 3 if mode == "sticking" else 1
            push = J[:held].copy()
            if mode == "sliding":
                slip = J[1:] @ v
                push[0] -= wt.contact_set(self.model).friction[k // 3] * (slip / np.linalg.norm(slip)) @ J[1:]
            level.append(sum(len(part) for part in A))
            A, F, gamma = [*A, J[:held]], [*F, push], [*gamma, bias[:held]]
            residual.append(dyn.contact_gaps(q)[[k // 3]])
        return np.concatenate(A), np.concatenate(F), np.concatenate(gamma), np.concatenate(residual), level

    def acceleration(self, q, v):
        A, F, gamma, _, _ = self.rows(q, v)
        b = self.dyn.passive_forces(q, v) - self.dyn.bias(q, v)
        block = np.block([[self.dyn.mass_matrix(q), -F.T], [A, np.zeros((len(A), len(A)))]])
        return np.linalg.lstsq(block, np.concatenate([b, -gamma]), rcond=1e-11)[0][: self.model.nv]

    def state(self, x):
        """q and v on the manifold that deviate by x in the chosen coordinates."""
        n = self.model.nv
        q = self.dyn.integrate(self.s.q, self.s.positions @ x[: self.count])
        dependent = [i for i in range(n) if i not in self.positions]
        for _ in range(6):
            A, _, _, g, level = self.rows(q, self.s.v)
            d = np.zeros(n)
            d[dependent] = np.linalg.lstsq(A[np.ix_(level, dependent)], -g, rcond=1e-11)[0]
            q = self.dyn.integrate(q, d)
        A = self.rows(q, self.s.v)[0]
        v = np.zeros(n)
        v[self.velocities] = self.s.v[self.velocities] + x[self.count :]
        dependent = [i for i in range(n) if i not in self.velocities]
        v[dependent] = np.linalg.lstsq(A[:, dependent], -A @ v, rcond=1e-11)[0]
        return q, v

    def rate(self, x, h=1e-5):
        q, v = self.state(x)
        ahead, behind = (
            self.dyn.difference(self.dyn.integrate(self.s.q, t * self.s.v), self.dyn.integrate(q, t * v))[
                self.positions
            ]
            for t in (h, -h)
        )
        pull = self.acceleration(q, v) - self.acceleration(self.s.q, self.s.v)
        return np.concatenate([(ahead - behind) / (2 * h), pull[self.velocities]])

    def matrix(self, h=1e-5):
        columns = [(self.rate(h * e) - self.rate(-h * e)) / (2 * h) for e in np.eye(len(self.s.states))]
        return np.stack(columns, axis=1)


def cart():
    """A chassis on two wheels that roll; its centre of mass is before the axle."""
    b = wt.Builder("cart", (0, 0, -9.81)).body("a").body("b").body("chassis", 5.0, (0.2, 0, 0), (0.3, 0.3, 0.5))
    b.joint("x", "prismatic", "world", "a", axis=(1, 0, 0)).joint("y", "prismatic", "a", "b", axis=(0, 1, 0))
    b.joint("yaw", "revolute", "b", "chassis", axis=(0, 0, 1), start=0.4)
    for side, y in (("left", 0.3), ("right", -0.3)):
        b.body(f"{side} wheel", 1.0, inertia=(0.004, 0.008, 0.004))
        b.joint(side, "revolute", "chassis", f"{side} wheel", axis=(0, 1, 0), position=(0, y, 0.1), damping=0.02)
        axis = {"radius": 0.1, "normal": (0, 0, 1), "axis": (0, 1, 0)}
        b.constraint(f"{side} rolls", "rolling", "world", f"{side} wheel", **axis)
    return b.build()


def spatial_four_bar():
    b = wt.Builder("spatial four-bar", (0, 0, -9.81)).body("crank", 1.0, (0.1, 0, 0), (0.002, 0.003, 0.004))
    b.joint("crank", "revolute", "world", "crank", axis=(0, 0, 1), start=0.4, damping=0.1)
    b.body("rocker", 1.5, (0, 0, 0.25), (0.02, 0.021, 0.004))
    sprung = {"stiffness": 30.0, "rest": 0.3, "start": 0.1}
    b.joint("rocker", "revolute", "world", "rocker", axis=(0.2, 1, 0), position=(0.6, 0.1, 0), **sprung)
    b.body("rod", 0.7, (0.3, 0.05, 0), (0.001, 0.02, 0.02))
    b.joint("ball", "spherical", "crank", "rod", position=(0.2, 0, 0))
    b.frame("rod end", "rod", position=(0.6, 0, 0)).frame("rocker end", "rocker", position=(0, 0, 0.5))
    return b.constraint("second ball", "point", "rod end", "rocker end").build()


def biped(left=(-0.4, 0.8)):
    """A floating trunk on two legs of two sprung hinges, with balls for feet."""
    b = wt.Builder("biped", (0, 0, -9.81)).body("trunk", 4.0, inertia=(0.1, 0.1, 0.1))
    b.joint("base", "free", "world", "trunk", start=(0, 0, 0.55, 1, 0, 0, 0)).geometry("floor", "world", "half_space")
    for side, y, (hip, knee) in (("left", 0.15, left), ("right", -0.15, (-0.4, 0.8))):
        b.body(f"{side} thigh", 0.5, (0, 0, -0.15), (0.004, 0.004, 0.001))
        sprung = {"axis": (0, 1, 0), "stiffness": 80.0, "damping": 1.0}
        b.joint(f"{side} hip", "revolute", "trunk", f"{side} thigh", position=(0, y, 0), start=hip, rest=hip, **sprung)
        b.body(f"{side} shin", 0.3, (0, 0, -0.15), (0.003, 0.003, 0.001))
        place = {"position": (0, 0, -0.3), "start": knee, "rest": knee}
        b.joint(f"{side} knee", "revolute", f"{side} thigh", f"{side} shin", **place, **sprung)
        b.geometry(f"{side} ball", f"{side} shin", "sphere", radius=0.02, position=(0, 0, -0.3))
        b.contact(f"{side} foot", f"{side} ball", "floor", friction=0.9)
    return b.build()


def standing(model):
    """With both feet on the floor: the base's height and roll settle that."""
    dyn, q = wt.compile(model), model.home.q
    for _ in range(8):
        J = dyn.contact_jacobian(q)[[0, 3]]
        d = np.zeros(model.nv)
        d[[0, 5]] = np.linalg.solve(J[:, [0, 5]], -dyn.contact_gaps(q))
        q = dyn.integrate(q, d)
    return q


def allowed(A, seed):
    """A velocity that rows A allow."""
    v = np.random.default_rng(seed).normal(size=A.shape[1])
    return v - np.linalg.pinv(A, rcond=1e-10) @ (A @ v)


@pytest.mark.slow
@pytest.mark.parametrize("make", [cart, spatial_four_bar])
def test_in_motion_under_constraints(make):
    model = make()
    q = model.home.q if make is cart else wt.assemble(model, hold={"crank": 0.4})
    v = allowed(wt.compile(model).constraint_jacobian(q), 1)
    system = wt.linearize(model, q, v, axes="body")
    found = ByDifferences(system, {}).matrix()
    assert np.abs(system.A - found).max() < 2e-6 * np.abs(system.A).max()


MODES = {
    "sticking": ({"left foot": "sticking", "right foot": "sticking"}, slice(0, 6), 12),
    "sliding": ({"left foot": "sliding", "right foot": "sliding"}, [0, 3], 16),
    "both": ({"left foot": "sliding", "right foot": "sticking"}, [0, 3, 4, 5], 14),
    "frictionless": ({"left foot": "frictionless", "right foot": "frictionless"}, [0, 3], 16),
}


@pytest.mark.parametrize("case", MODES)
def test_in_motion_on_two_contacts(case):
    modes, held, states = MODES[case]
    model = biped(left=(-0.2, 0.5))
    q = standing(model)
    v = allowed(wt.compile(model).contact_jacobian(q)[held], 2)
    system = wt.linearize(model, q, v, axes="body", contacts=modes)
    assert len(system.states) == states
    found = ByDifferences(system, modes).matrix()
    assert np.abs(system.A - found).max() < 2e-6 * np.abs(system.A).max()


def test_contacts_that_lose_a_row_at_this_q_are_refused():
    """Legs side by side: the feet are as close as they can be, so that sticking has a dead point."""
    model = biped()
    with pytest.raises(wt.SingularSystemError, match="depend on each other at this q"):
        wt.linearize(model, standing(model), contacts=MODES["sticking"][0])


def test_derivatives_of_gravity_are_those_of_inverse_dynamics_and_of_differences():
    model = biped()
    dyn, q, still = wt.compile(model), model.home.q, np.zeros(model.nv)
    slopes = dyn.gravity_derivatives(q)
    assert slopes == pytest.approx(dyn.inverse_dynamics_derivatives(q, still, still).dq, abs=1e-12)
    h = 1e-6
    ahead, behind = (dyn.gravity(dyn.integrate(q, s * h * np.eye(model.nv))) for s in (1, -1))
    assert slopes == pytest.approx((ahead - behind).T / (2 * h), abs=1e-7)


def test_compliant_constraints_are_refused():
    b = wt.Builder("soft", (0, 0, -9.81)).body("ball", 1.0, inertia=(1, 1, 1)).joint("fall", "free", "world", "ball")
    with pytest.raises(wt.UnsupportedError, match="'eye' of model 'soft' is compliant"):
        wt.linearize(b.constraint("eye", "point", "world", "ball", compliance=0.1).build(), [0, 0, 0, 1, 0, 0, 0])
