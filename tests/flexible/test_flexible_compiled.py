"""Machine code of flexible models: the reference's numbers, one lane or many; runs that keep energy and momentum."""

import numpy as np
import pytest

import whippletree as wt
from emulated_cuda import install
from strategies import make_flexible_model, make_motion
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.functions.registry import find


def mixed_model():
    """Rigid, massless and flexible bodies, a flexible one on a flexible one."""
    model, _ = make_flexible_model(
        (-1, 0, 1, 1), ("revolute", "revolute", "weld", "spherical"), (2, 0, 0, 2), 3, massless=(False, True)
    )
    return model


def test_machine_code_equals_the_reference():
    model = mixed_model()
    dyn, ref = wt.compile(model), wt.reference(model)
    states = [make_motion(model, seed) for seed in range(9)]
    q, v, _, tau = (np.array(x) for x in zip(*states))
    for name, inputs in (
        ("forward_dynamics", (q, v, tau)),
        ("mass_matrix", (q,)),
        ("momentum", (q, v)),
    ):
        found, expected = getattr(dyn, name)(*inputs), getattr(ref, name)(*inputs)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
        one = getattr(dyn, name)(*[x[4] for x in inputs])
        assert np.array_equal(one, found[4]), name


def test_the_same_bits_on_an_emulated_device(monkeypatch):
    """A chain of two flexible links, stiffened, through the GPU's kernels and staging."""
    install(monkeypatch)
    options = {"modes": 2, "ends": "pinned-free", "stiffening": True}
    beam = wt.flexible.beam(length=1.0, bending_stiffness=30.0, mass_per_length=0.5, **options)
    builder = wt.Builder("two links", (0, -9.81, 0)).flexible_body("a", beam).flexible_body("b", beam)
    model = builder.joint("j", "revolute", "world", "a").joint("k", "revolute", "a/tip", "b").build()
    q, v, tau = 0.005 * np.random.default_rng(0).normal(size=(3, 70, model.nv))
    expected = wt.compile(model).forward_dynamics(q, v, tau)
    assert wt.compile(model, target="cuda").forward_dynamics(q, v, tau).tobytes() == expected.tobytes()


def chain(links, modes=2):
    beam = wt.flexible.beam(length=1.0, bending_stiffness=200.0, mass_per_length=0.5, modes=modes, rotary_inertia=1e-4)
    builder, before = wt.Builder("chain", (0, -9.81, 0)), "world"
    for k in range(links):
        builder.flexible_body(f"b{k}", beam).joint(f"j{k}", "revolute", before, f"b{k}")
        before = f"b{k}/tip"
    return builder.build()


def operations(model):
    program = unrolled_program(model, find("forward_dynamics", model), (), ())
    return sum(block.code.operations for block in program.body)


@pytest.mark.parametrize(("modes", "each"), [(1, 194), (2, 284), (4, 485)])
def test_code_grows_linearly_with_bodies(modes, each):
    """As docs/performance.md says: the numbers of operations differ by a constant from the second link on."""
    counts = [operations(chain(links, modes)) for links in (2, 3, 6)]
    assert counts[1] - counts[0] == each
    assert counts[2] - counts[1] == 3 * each


def test_too_many_flexible_bodies_are_refused_by_what_they_are():
    model = chain(160)
    zero = np.zeros(model.nv)
    with pytest.raises(wt.UnsupportedError, match=r"has flexible bodies and 640 moving parts .*up to 600 of them"):
        wt.compile(model).forward_dynamics(model.home.q, zero, zero)
    with pytest.raises(wt.UnsupportedError, match="up to 150 of them"):
        wt.compile(model).mass_matrix(model.home.q)


def linkage():
    """A four-bar whose coupler bends, on a crank with mass and a rocker without."""
    coupler = wt.flexible.beam(
        length=0.5, bending_stiffness=30.0, mass_per_length=0.8, modes=2, ends="pinned-pinned", stiffening=True
    )
    builder = wt.Builder("bending four-bar", (0, -9.81, 0)).body("crank", 0.3, center=(0.1, 0, 0), inertia=(1e-3,) * 3)
    builder.flexible_body("coupler", coupler).body("rocker")
    builder.joint("drive", "revolute", "world", "crank")
    builder.joint("knee", "revolute", "crank", "coupler", position=(0.2, 0, 0))
    builder.joint("wrist", "revolute", "coupler/tip", "rocker")
    builder.frame("foot", "rocker", position=(0.4, 0, 0)).frame("ground", "world", position=(0.5, 0, 0))
    return builder.constraint("pivot", "point", "foot", "ground").build()


def test_a_loop_with_a_flexible_body_compiled_by_every_route(monkeypatch):
    model = linkage()
    q = wt.assemble(model, hold={"drive": 1.0})
    ref = wt.reference(model)
    v = ref.project_velocity(q, np.array([3.0, 0, 0.1, -0.2, 0]))
    tau = np.array([0.2, 0, 0, 0, 0]) + ref.passive_forces(q, v)
    expected = ref.forward_dynamics(q, v, tau)
    states = [np.tile(x, (5, 1)) for x in (q, v, tau)]
    for route in (None, "augmented", "embedding"):
        many = wt.compile(model, route=route).forward_dynamics(*states)
        np.testing.assert_allclose(many[3], expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max(), err_msg=str(route))
    with pytest.raises(wt.UnsupportedError, match="has flexible bodies, and machine code of this route"):
        wt.compile(model, route="elimination")
    install(monkeypatch)
    assert wt.compile(model, target="cuda", route="embedding").forward_dynamics(*states).tobytes() == many.tobytes()


def tumbling():
    beam = wt.flexible.beam(
        length=1.0, bending_stiffness=(20.0, 30.0), mass_per_length=0.5, modes={"y": 1, "z": 1}, ends="free-free",
        polar_inertia=1e-3, rotary_inertia=1e-4,
    )  # fmt: skip
    builder = wt.Builder("tumble", (0, 0, 0)).flexible_body("beam", beam, start=[0.02, 0.01])
    return builder.joint("free", "free", "world", "beam").build()


@pytest.mark.slow
def test_a_tumbling_beam_keeps_energy_and_momentum():
    model = tumbling()
    v = np.array([0.3, 1.0, -2.0, 0.1, 0.2, 0.3, 0, 0])
    run = wt.simulate(model, model.home.q, v, duration=0.2, rtol=1e-9, atol=1e-11)
    energy = (run.kinetic_energy + run.potential_energy).values
    assert np.ptp(energy) < 1e-8 * energy[0]
    assert np.ptp(run.kinetic_energy.values) > 0.1 * energy[0]  # it is exchanged with the springs all the while
    momentum = wt.compile(model).momentum(run.q.values, run.v.values)
    assert np.ptp(momentum, axis=0).max() < 1e-9
    assert list(run.coordinate.values[-2:]) == ["beam/modes.y1", "beam/modes.z1"]


def test_energy_error_falls_with_the_order_of_the_integrator():
    model = tumbling()
    v = np.array([0.3, 1.0, -2.0, 0.1, 0.2, 0.3, 0, 0])
    drifts = []
    for step in (1e-3, 5e-4):
        run = wt.simulate(model, model.home.q, v, duration=0.1, method="rk4", step=step)
        energy = (run.kinetic_energy + run.potential_energy).values
        drifts.append(abs(energy[-1] - energy[0]))
    assert drifts[1] < drifts[0] / 12  # fourth order or better


@pytest.mark.parametrize("path", ["bodies.beam/modes.mass", "joints.beam/modes.stiffness"])
def test_numbers_of_a_flexible_body_are_not_open(path):
    with pytest.raises(wt.UnsupportedError, match="part of a flexible body"):
        wt.compile(tumbling(), parameters=[path])


def test_the_regressor_refuses_by_name():
    model = tumbling()
    zero = np.zeros(model.nv)
    with pytest.raises(wt.UnsupportedError, match="regressor: model 'tumble' has flexible bodies"):
        wt.reference(model).regressor(model.home.q, zero, zero)
