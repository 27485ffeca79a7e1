"""Impact laws on plain matrices: closed forms, what each law bounds, and complementarity."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.impact import laws
from whippletree.contact.impact.impact import Impact, massless_basis
from whippletree.contact.impact.laws import (
    LAWS,
    Energetic,
    Newton,
    Plastic,
    Sequential,
    _associated_impulses,
    default_law,
    law_named,
)
from whippletree.contact.problem import active_set
from whippletree.contact.problem.active_set import EDGES, SLIDE, STICK
from whippletree.contact.problem.delassus import islands
from whippletree.errors import NameLookupError


def random_impacts(count, seed, planar=True, contacts=(1, 2, 3)):
    """Mechanisms with one to three contacts; planar ones have a tangent along which nothing moves."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        n, k = int(random.integers(2 if planar else 3, 7)), int(random.choice(contacts))
        B = random.standard_normal((n, n))
        M, J = B @ B.T + 0.1 * np.eye(n), random.standard_normal((3 * k, n))
        if planar:
            J[2::3] = 0
        yield Impact(
            M,
            np.zeros((0, n)),
            J,
            random.standard_normal(n),
            random.uniform(0, 2, k),
            random.choice([0.0, 0.4, 0.9, 1.0], k),
        )


def check(impact, law):
    outcome = impact.resolve(law)
    energy = impact.v @ impact.M @ impact.v / 2
    speed = np.abs(impact.J @ impact.v).max()
    assert outcome.energy_lost >= -1e-11 * energy
    assert np.all(outcome.impulses[:, 0] >= -1e-9 * np.abs(outcome.impulses).max())
    assert np.all((impact.J @ outcome.v)[::3] >= -1e-8 * speed)
    assert np.allclose(
        impact.M @ (outcome.v - impact.v), impact.J.T @ outcome.impulses.reshape(-1), atol=1e-8 * energy + 1e-9
    )
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("law", [Plastic(), Newton(), Energetic(), Sequential()], ids=lambda law: law.name)
def test_energy_never_grows(law):
    for impact in random_impacts(100, 2):
        check(impact, law)
    for impact in random_impacts(5, 3, planar=False):
        check(impact, law)


def test_plastic_stays_in_the_cone_and_opposes_the_slip():
    for impact in random_impacts(60, 4):
        outcome = check(impact, Plastic())
        u = (impact.J @ outcome.v).reshape(-1, 3)
        for p, after, mu in zip(outcome.impulses, u, impact.friction, strict=True):
            assert np.hypot(*p[1:]) <= mu * p[0] + 1e-9
            assert p[1:] @ after[1:] <= 1e-9
            assert abs(p[0] * after[0]) <= 1e-9


def test_plastic_loses_the_energy_of_what_it_stops():
    """½ (A v⁻)ᵀ (A M⁻¹ Aᵀ)⁻¹ (A v⁻), and v⁺ = v⁻ − A†ᵀ A v⁻, p = Λ† A v⁻ of 000."""
    random = np.random.default_rng(5)
    B = random.standard_normal((6, 6))
    M, A = B @ B.T + np.eye(6), random.standard_normal((3, 6))
    v = -np.linalg.solve(M, A.T) @ np.array([3.0, 0.2, -0.1]) + 0 * random.standard_normal(6)
    outcome = Impact(M, np.zeros((0, 6)), A, v, np.array([5.0]), np.zeros(1)).resolve(Plastic())
    S = A @ np.linalg.solve(M, A.T)
    assert outcome.energy_lost == pytest.approx((A @ v) @ np.linalg.solve(S, A @ v) / 2, rel=1e-12)
    K = np.linalg.inv(np.block([[M, A.T], [A, np.zeros((3, 3))]]))
    assert np.allclose(outcome.v, v - K[:6, 6:] @ (A @ v), atol=1e-12)
    assert np.allclose(outcome.impulses.reshape(-1), K[6:, 6:] @ (A @ v), atol=1e-12)


def cradle(law):
    J = np.zeros((6, 3))
    J[0], J[3] = [-1, 1, 0], [0, -1, 1]
    return Impact(np.eye(3), np.zeros((0, 3)), J, np.array([1.0, 0, 0]), np.zeros(2), np.ones(2)).resolve(law).v


def test_three_ball_cradle_by_each_law():
    assert np.allclose(cradle(Newton()), [-1 / 3, 2 / 3, 2 / 3], atol=1e-12)
    assert np.allclose(cradle(Sequential()), [0, 0, 1], atol=1e-12)
    assert np.allclose(cradle(Plastic()), [1 / 3, 1 / 3, 1 / 3], atol=1e-12)


def kane(law):
    """A rod that hits the ground with its end while it slides: Newton's restitution with friction gains energy."""
    angle = 1.0
    J = np.array([[0, 1, np.cos(angle) / 2], [1, 0, -np.sin(angle) / 2], [0, 0, 0]])
    M, v = np.diag([1, 1, 1 / 12]), np.array([0.5, -1.0, -1.0])
    return Impact(M, np.zeros((0, 3)), J, v, np.array([0.5]), np.array([1.0])), law


@pytest.mark.parametrize("law", [Plastic(), Energetic(), Newton()], ids=lambda law: law.name)
def test_a_rod_with_friction_gains_no_energy(law):
    impact, law = kane(law)
    assert naive_gain(impact) > 0.01
    check(impact, law)


def naive_gain(impact):
    """Energy after uₙ⁺ = −uₙ⁻ with Coulomb's friction against the first slip or sticking, less that before."""
    G, u = impact.J @ np.linalg.solve(impact.M, impact.J.T), impact.J @ impact.v
    mu, d = impact.friction[0], np.sign(u[1])
    normal = -2 * u[0] / (G[0, 0] - mu * G[0, 1] * d)
    p = np.array([normal, -mu * normal * d, 0])
    if d * (u + G @ p)[1] < 0:  # it would slide back: it sticks instead
        p[:2] = np.linalg.solve(G[:2, :2], [-2 * u[0], -u[1]])
    return p @ (u + G @ p / 2)


def test_energetic_law_without_friction_is_newtons():
    for impact in random_impacts(30, 6):
        single = Impact(impact.M, impact.A, impact.J[:3], impact.v, np.zeros(1), np.array([0.7]))
        assert np.allclose(single.resolve(Energetic()).v, single.resolve(Newton()).v, atol=1e-10)


def test_energetic_law_by_small_steps():
    """The path of a stroke against an independent integration in small increments of the impulse (two-dimensional)."""
    G = np.array([[2.0, 1.3, 0], [1.3, 3.0, 0], [0, 0, 0]])
    u, mu, e = np.array([-1.0, 0.4, 0]), 0.6, 0.5
    p = Energetic().impulses(G, u, np.array([mu]), np.array([e]))[0]
    state, work, done, h = u.copy(), 0.0, np.zeros(3), 2e-5
    compression = None
    while compression is None or work < (1 - e**2) * compression:
        slip = state[1]
        hold = -G[1, 0] / G[1, 1]
        ft = -mu * np.sign(slip) if abs(slip) > 2 * h else np.clip(hold, -mu, mu)
        step = np.array([h, h * ft, 0])
        work += state[0] * h + (G @ step)[0] * h / 2
        state, done = state + G @ step, done + step
        if compression is None and state[0] >= 0:
            compression = work
    assert np.allclose(p, done, atol=1e-4)


def test_a_bilateral_row_takes_part():
    """A pendulum of two links: constraint impulses keep the rows, and the contact stops."""
    random = np.random.default_rng(7)
    B = random.standard_normal((5, 5))
    M, A, J = B @ B.T + np.eye(5), random.standard_normal((2, 5)), random.standard_normal((3, 5))
    v = random.standard_normal(5)
    v = v - np.linalg.pinv(A) @ (A @ v)
    v = v if (J @ v)[0] < 0 else -v
    outcome = Impact(M, A, J, v, np.array([10.0]), np.zeros(1)).resolve(Plastic())
    assert np.allclose(A @ outcome.v, 0, atol=1e-12)
    residual = M @ (outcome.v - v) - J.T @ outcome.impulses.reshape(-1) - A.T @ outcome.constraint_impulses
    assert np.allclose(residual, 0, atol=1e-12)


def test_a_massless_foot_stops_at_no_cost():
    """Point mass with a massless leg: the foot's velocity jumps, the mass does not notice."""
    M = np.diag([1.0, 1.0, 0.0, 0.0])  # x, y of the mass; x, y of the foot relative to it
    J = np.array([[0, 1.0, 0, 1.0], [1.0, 0, 1.0, 0], [0, 0, 0, 0]])
    v = np.array([0.5, -2.0, 0, 0])
    outcome = Impact(M, np.zeros((0, 4)), J, v, np.array([1.0]), np.zeros(1)).resolve(Plastic())
    assert np.allclose(outcome.v, [0.5, -2.0, -0.5, 2.0])
    assert outcome.energy_lost == 0
    assert np.allclose(outcome.impulses, 0)


def test_default_laws():
    none, some = np.zeros(1), np.full(1, 0.5)
    assert default_law(some, none) == Plastic()
    assert default_law(none, some) == Newton()
    assert default_law(some, some) == Energetic()
    assert law_named(Plastic()) == Plastic()
    assert sorted(LAWS) == ["energetic", "newton", "plastic", "sequential"]
    with pytest.raises(NameLookupError, match="there is no impact law 'elastic'"):
        law_named("elastic")


def test_friction_that_drives_a_contact_together_has_no_sliding_answer():
    """Painlevé: sliding, ∂uₙ/∂pₙ < 0 and approaching: no force balances it."""
    G = np.array([[1.0, -2.0, 0], [-2.0, 5.0, 0], [0, 0, 1.0]])
    posed = active_set.problem(G, np.array([-1.0, 0, 0]), np.array([1.0]), np.array([[-1.0, 0]]))
    assert posed.sliding_inertia(0) < 0
    assert active_set.solve(posed) is None
    jammed = Energetic().impulses(G, np.array([0, -1.0, 0]), np.array([1.0]), np.zeros(1))
    assert jammed[0, 0] > 0


@pytest.mark.slow
def test_a_contact_that_would_jam_alone_is_held_apart_by_another():
    """Of random planar pairs, one sliding with ∂uₙ/∂pₙ < 0 of its own: its load is found where the other one sticks."""
    held, planar = 0, np.ix_([0, 1, 3, 4], [0, 1, 3, 4])
    for seed in range(2000):
        rng = np.random.default_rng(seed)
        G, root = np.zeros((6, 6)), rng.normal(size=(4, 4))
        G[planar] = root @ root.T
        b = np.array([*rng.normal(size=2), 0, *rng.normal(size=2), 0])
        posed = active_set.problem(G, b, np.full(2, 1.5), np.array([[0, 0], [1.0, 0]]))
        answer = active_set.solve(posed) if posed.sliding_inertia(1) < 0 else None
        if answer is None or answer.status != (STICK, SLIDE):
            continue
        held += 1
        # more load on the second contact, the first answering, pushes it apart
        rest = G[3] - G[3, :2] @ np.linalg.solve(G[:2, :2], G[:2])
        assert rest[3] - 1.5 * rest[4] > 0
        assert np.abs(G[[0, 1, 3]] @ answer.p.reshape(-1) + b[[0, 1, 3]]).max() < 1e-9
    assert held > 5


def test_contacts_that_do_not_act_on_each_other_are_solved_apart():
    """Three mechanisms in one problem, their contacts mixed: the answer is that of each."""
    apart = list(random_impacts(3, 9, contacts=(2,)))
    parts = [(i.J @ np.linalg.solve(i.M, i.J.T), i.J @ i.v, i.friction) for i in apart]
    G, u = np.zeros((18, 18)), np.concatenate([u for _, u, _ in parts])
    for n, (own, _, _) in enumerate(parts):
        G[6 * n : 6 * n + 6, 6 * n : 6 * n + 6] = own
    order = np.array([0, 2, 4, 1, 3, 5])
    rows = (3 * order[:, None] + np.arange(3)).reshape(-1)
    friction = np.concatenate([friction for _, _, friction in parts])
    assert [island.tolist() for island in islands(G[np.ix_(rows, rows)])] == [[0, 3], [1, 4], [2, 5]]
    mixed = active_set.solve(active_set.problem(G[np.ix_(rows, rows)], u[rows], friction[order]))
    each = [active_set.solve(active_set.problem(*part)).p for part in parts]
    assert np.allclose(mixed.p, np.concatenate(each)[order], atol=1e-12)


def routh(G, u, mu, e):
    """The same path as that of a stroke that never stops slipping, by an integration in the normal impulse."""
    from scipy.integrate import solve_ivp

    def rate(s, y):
        dp = np.array([1.0, *(-mu * y[1:3] / np.hypot(y[1], y[2]))])
        return np.array([*(G @ dp), *dp, y[0]])

    def run(start, end):
        end.terminal, end.direction = True, 1
        return solve_ivp(rate, (0, 1e3), start, method="DOP853", rtol=1e-12, atol=1e-14, events=end).y[:, -1]

    middle = run(np.array([*u, 0, 0, 0, 0]), lambda s, y: y[0])
    return run(middle, lambda s, y: y[6] - (1 - e**2) * middle[6])[3:6]


def test_a_slip_that_turns_by_another_integration():
    random = np.random.default_rng(8)
    compared = 0
    while compared < 10:
        B = random.standard_normal((3, 3))
        G, u = B @ B.T + np.eye(3), np.array([-1.0, *random.uniform(2, 5, 2)])
        p = Energetic().impulses(G, u, np.array([0.2]), np.array([0.6]))[0]
        slip = (u + G @ p)[1:]
        if u[1:] @ slip > 0.5:  # it has not stopped on the way
            compared += 1
            assert np.allclose(p, routh(G, u, 0.2, 0.6), atol=1e-9)


@pytest.mark.slow
def test_impulses_of_associated_friction_are_the_best_in_the_cones():
    """The last resort of the plastic law: along every edge of every cone the rate is not below zero."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        k = int(rng.integers(1, 4))
        F = rng.standard_normal((3 * k + 1, 3 * k))
        G, u, friction = F.T @ F, rng.standard_normal(3 * k), rng.uniform(0.2, 2, k)
        p = _associated_impulses(G, u, friction)
        after = (u + G @ p).reshape(k, 3)
        assert p @ after.ravel() == pytest.approx(0, abs=1e-10)
        for own, mu, rate in zip(p.reshape(k, 3), friction, after, strict=True):
            assert np.hypot(*own[1:]) <= mu * own[0] + 1e-12
            edges = 2 * np.pi * np.arange(EDGES) / EDGES
            assert (rate[0] + mu * (np.cos(edges) * rate[1] + np.sin(edges) * rate[2])).min() > -1e-10


@pytest.mark.slow
def test_contacts_that_wedge_each_other_without_end_are_stopped_by_associated_friction(monkeypatch):
    """Where neither the exact solver nor strokes end, still nothing approaches, and no energy is made."""
    monkeypatch.setattr(active_set, "solve", lambda problem: None)
    monkeypatch.setattr(laws, "LAST_STROKES", 0)
    for impact in random_impacts(20, 9):
        check(impact, Plastic())


@pytest.mark.parametrize(("sine", "independent"), [(1e-8, True), (1e-12, False)])
def test_rows_of_an_impact_that_are_all_but_equal(sine, independent):
    """Together they hold both massless motions only if they differ by more than rounding."""
    rows = np.array([[1.0, 0.0], [1.0, sine]])
    assert massless_basis(np.zeros((2, 2)), rows).shape[1] == (0 if independent else 1)


def test_massless_motions_of_masses_that_move_together():
    """Neither velocity is massless alone; their difference is, unless a row holds it."""
    together = np.ones((2, 2))
    (found,) = massless_basis(together, np.zeros((0, 2))).T
    assert np.abs(found) == pytest.approx([0.5**0.5, 0.5**0.5])
    assert found.sum() == pytest.approx(0, abs=1e-15)
    assert massless_basis(together, np.array([[1.0, 0.0]])).shape == (2, 0)
    assert massless_basis(together + np.diag([0, 1e-9]), np.zeros((0, 2))).shape == (2, 0)


def test_a_light_part_beside_a_massless_one_has_mass():
    light = np.diag([1.0, 1e-14, 0.0])
    (found,) = massless_basis(light, np.zeros((0, 3))).T
    assert np.abs(found) == pytest.approx([0, 0, 1], abs=1e-12)
    assert massless_basis(light, np.array([[0, 1e-3, 1.0]])).shape == (3, 0)
    builder = wt.Builder("grain")
    for name, mass in (("cart", 1.0), ("grain", 1e-14), ("nothing", 0.0)):
        builder.body(name, mass).joint(f"rail of {name}", "prismatic", "world", name)
    (named,) = wt.diagnose(builder.build()).massless
    assert named.joints(builder.build()) == ["rail of nothing"]


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_more_contacts_than_freedoms_are_pushed_apart_at_any_scale(scale):
    """0 ≤ p ⟂ G p + b ≥ 0 where G is singular, of light bodies as of heavy ones."""
    rng = np.random.default_rng(0)
    F = rng.normal(size=(3, 6))
    G, b = scale * F.T @ F, scale * F.T @ rng.normal(size=3)
    p = laws._pushed_apart(G, b)
    u = G @ p + b
    assert np.any(p > 0)
    assert p.min() >= 0
    assert u.min() > -1e-12 * np.abs(b).max()
    assert abs(p @ u) < 1e-12 * np.abs(p).max() * np.abs(b).max()


@pytest.mark.parametrize("speed", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("share", "driven"), [(1e-7, False), (1e-9, True)])
def test_a_contact_that_parts_is_not_driven_together(speed, share, driven):
    """Painlevé's G: what parts by more than rounding of the fastest velocity leaves; what rests jams."""
    G = np.array([[1.0, -2.0, 0], [-2.0, 5.0, 0], [0, 0, 1.0]])
    p = Energetic().impulses(G, speed * np.array([share, -1.0, 0]), np.array([1.0]), np.zeros(1))
    assert bool(p[0, 0] > 0) is driven


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize(("share", "possible"), [(1e-8, False), (1e-10, True)])
def test_a_weightless_contact_does_not_pull_or_leave_its_cone(size, share, possible):
    """Beyond rounding of the largest impulse it can do neither."""
    impact = Impact(np.diag([1.0, 0.0, 0.0]), np.zeros((0, 3)), np.eye(3), np.zeros(3), np.array([0.5]), np.zeros(1))
    pulled = np.array([[-share, 0, 0], [1.0, 0, 0]]) * size
    beyond = np.array([[1.0, 0.5 + share, 0.0]]) * size
    assert impact._possible(pulled, np.zeros(3), [0], []) is possible
    assert impact._possible(beyond, np.zeros(3), [0], []) is possible
    assert impact._possible(np.abs(pulled), np.zeros(3), [0], [])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("speed", [1e-3, 50.0])
def test_a_slip_turns_if_its_change_has_a_part_across_it(scale, speed):
    """Whatever the speed and the masses: 1e-14 of the change is rounding, 1e-11 of it is not; along it is straight."""
    along = np.array([0.6, -0.8])
    across = np.array([0.8, 0.6])
    for share, goes_straight in ((0.0, True), (1e-14, True), (1e-11, False), (0.3, False)):
        du = scale * np.array([1.0, *(-0.7 * along + share * across)])
        assert laws.straight(speed * along, du) == goes_straight
