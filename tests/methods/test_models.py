"""What must not matter (order of declaration, how a body is cut into welded pieces), and models at the edges."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whippletree as wt
from methods.closeness import close, residual_scale
from strategies import EXACT_KINDS, Random, make_model, make_motion, motions, seeds
from whippletree import functions

# --- order of declaration ---------------------------------------------------------------------------------------------


def redeclared(model, seed):
    """The same model built again with its bodies and joints in another order."""
    rng = Random(seed)
    bodies, joints = list(model.bodies), list(model.joints)
    rng.shuffle(bodies)
    rng.shuffle(joints)
    builder = wt.Builder(model.name, gravity=model.gravity)
    for body in bodies:
        builder.body(body.name, body.mass, body.center, body.inertia)
    for j in joints:
        builder.joint(
            *(j.name, j.kind, j.parent, j.child),
            position=j.pose[:3, 3],
            rotation=j.pose[:3, :3],
            **{word: getattr(j, word) for word in ("axis", "second_axis", "pitch", "rotor_inertia", "gear_ratio")},
        )
    for frame in model.frames:
        builder.frame(frame.name, frame.body, position=frame.pose[:3, 3], rotation=frame.pose[:3, :3])
    return builder.build()


@given(motions(), seeds)
def test_the_order_of_declaration_changes_only_where_numbers_stand(case, seed):
    model, (q, v, a, tau) = case
    other = redeclared(model, seed)
    order_q = np.concatenate([np.arange(model.nq)[model.q_slice(joint.name)] for joint in other.joints])
    order = np.concatenate([np.arange(model.nv)[model.slice(joint.name)] for joint in other.joints])
    ours, theirs = wt.reference(model), wt.reference(other)
    x, u = q[order_q], v[order]
    M, c = ours.mass_matrix(q), ours.bias(q, v)
    acceleration = ours.forward_dynamics(q, v, tau)
    close(theirs.mass_matrix(x), M[np.ix_(order, order)])
    close(
        theirs.inverse_dynamics(x, u, a[order]), ours.inverse_dynamics(q, v, a)[order], residual_scale(M, a, c)[order]
    )
    condition = np.linalg.cond(M) if len(M) else 1
    close(
        theirs.forward_dynamics(x, u, tau[order]), acceleration[order], np.abs(acceleration).max(initial=0) * condition
    )
    close(theirs.pose("tool")(x), ours.pose("tool")(q))
    close(theirs.jacobian("tool")(x), ours.jacobian("tool")(q)[:, order])


@given(st.sampled_from([(-1, 0, 1), (-1, 0, 0), (-1, -1, 0)]), seeds, seeds)
def test_the_order_of_declaration_is_exactly_nothing_in_fractions(parents, seed, other_seed):
    model = make_model(parents, ("free", "prismatic", "spherical"), seed, number=Fraction)
    other = redeclared(model, other_seed)
    q, v, _, tau = make_motion(model, seed, number=Fraction)
    x = np.concatenate([q[model.q_slice(joint.name)] for joint in other.joints])
    u = np.concatenate([v[model.slice(joint.name)] for joint in other.joints])
    t = np.concatenate([tau[model.slice(joint.name)] for joint in other.joints])
    ours = wt.reference(model).forward_dynamics(q, v, tau)
    theirs = wt.reference(other).forward_dynamics(x, u, t)
    for joint in model.joints:
        assert (ours[model.slice(joint.name)] == theirs[other.slice(joint.name)]).all()
    assert all(isinstance(entry, Fraction) for entry in ours)


# --- welds and rotors -------------------------------------------------------------------------------------------------


@given(motions(), seeds)
def test_a_body_may_be_cut_into_two_that_are_welded_together(case, seed):
    """Half of every body's mass and inertia goes to a twin that is welded on, itself at another place."""
    model, (q, v, a, _) = case
    builder = wt.Builder(model.name, gravity=model.gravity)
    shift = np.array([0.3, -0.2, 0.5])
    for body, j in zip(model.bodies, model.joints):
        builder.body(body.name, body.mass / 2, body.center, body.inertia / 2)
        builder.body(f"{body.name} twin", body.mass / 2, body.center - shift, body.inertia / 2)
        builder.joint(
            *(j.name, j.kind, j.parent, j.child),
            position=j.pose[:3, 3],
            rotation=j.pose[:3, :3],
            **{word: getattr(j, word) for word in ("axis", "second_axis", "pitch", "rotor_inertia", "gear_ratio")},
        )
        builder.joint(f"{j.name} weld", "weld", body.name, f"{body.name} twin", position=shift)
    cut = builder.build()
    whole, pieces = wt.reference(model), wt.reference(cut)
    M, c = whole.mass_matrix(q), whole.bias(q, v)
    close(pieces.mass_matrix(q), M)
    close(pieces.inverse_dynamics(q, v, a), whole.inverse_dynamics(q, v, a), residual_scale(M, a, c))


@given(motions())
def test_a_rotor_adds_its_inertia_times_the_square_of_the_gear(case):
    model, (q, v, a, _) = case
    bare = replace(model, joints=tuple(replace(joint, rotor_inertia=0.0) for joint in model.joints))
    geared, plain = wt.reference(model), wt.reference(bare)
    rotors = np.zeros(model.nv)
    for joint, part in zip(model.joints, model.v_slices):
        rotors[part] = joint.rotor_inertia * joint.gear_ratio**2
    close(geared.mass_matrix(q), plain.mass_matrix(q) + np.diag(rotors))
    close(geared.bias(q, v), plain.bias(q, v), ulps=0)
    close(geared.inverse_dynamics(q, v, a), plain.inverse_dynamics(q, v, a) + rotors * a)


# --- massless links ---------------------------------------------------------------------------------------------------


def arm(tip_mass=1.0, kind="revolute", **joint):
    """Two links; the first has no mass."""
    return (
        wt.Builder("arm")
        .body("upper")
        .body("fore", tip_mass, (0.3 if tip_mass else 0, 0, 0), (0.01, 0.02, 0.03) if tip_mass else (0, 0, 0))
        .joint("shoulder", "revolute", "world", "upper", axis=(0, 1, 0))
        .joint("elbow", kind, "upper", "fore", position=(0.4, 0, 0), axis=(0, 1, 0), second_axis=(0, 0, 1), **joint)
        .frame("tool", "fore", position=(0.3, 0, 0))
        .build()
    )


def test_a_massless_interior_link_is_like_any_other():
    """The limit of small mass, and the same as the equations say."""
    q, v, tau = np.array([0.3, 0.8]), np.array([1.0, -2.0]), np.array([0.5, 0.1])
    model = arm()
    a = wt.reference(model).forward_dynamics(q, v, tau)
    close(wt.reference(model).inverse_dynamics(q, v, a), tau, 1 + np.abs(a).max())
    light = replace(model, bodies=(replace(model.bodies[0], mass=1e-12, inertia=1e-12 * np.eye(3)), model.bodies[1]))
    assert wt.reference(light).forward_dynamics(q, v, tau) == pytest.approx(a, rel=1e-9)


NO_INERTIA = (
    "model 'arm': the motion of 'fore' about joint 'elbow' has no inertia and no constraint stops it, so its "
    "acceleration is not determined. Give 'fore' mass, hold the joint, or add the constraint that carries it."
)
NEEDS_INERTIA = {
    "forward_dynamics": (),
    "forward_dynamics_with_wrench": ("tool",),
    "hybrid_dynamics": (("shoulder",),),
    "mass_matrix_solve": (),
    "mass_matrix_inverse": (),
    "operational_inertia_inverse": ("tool",),
}


def zeros_for(name, model):
    sizes = functions.sizes(model)
    inputs = functions.find(name, model).inputs
    return [np.zeros(functions.resolve(shape, sizes)) for shape in inputs.values()]


@pytest.mark.parametrize("number", [float, complex, Fraction])
@pytest.mark.parametrize("name", NEEDS_INERTIA)
def test_a_massless_tip_is_an_error_that_names_it(name, number):
    model = arm(tip_mass=0)
    if number is Fraction:  # no sine of a Fraction: slide instead
        model = replace(model, joints=tuple(replace(joint, kind="prismatic") for joint in model.joints))
    function = getattr(wt.reference(model), name)
    function = function(*NEEDS_INERTIA[name]) if NEEDS_INERTIA[name] else function
    inputs = [np.array([number(0)] * len(x)) for x in zeros_for(name, model)]
    with pytest.raises(wt.SingularSystemError) as raised:
        function(*inputs)
    assert str(raised.value) == NO_INERTIA


@pytest.mark.parametrize("kind", ["universal", "planar", "spherical", "cylindrical"])
def test_a_massless_tip_of_several_freedoms(kind):
    model = arm(tip_mass=0, kind=kind)
    with pytest.raises(wt.SingularSystemError, match="'fore' about joint 'elbow' has no inertia"):
        wt.reference(model).forward_dynamics(model.neutral.q, np.zeros(model.nv), np.zeros(model.nv))


def test_a_massless_tip_can_be_prescribed_held_or_carried_by_a_rotor():
    model = arm(tip_mass=0)
    a, tau = wt.reference(model).hybrid_dynamics(("shoulder", "elbow"))(np.zeros(2), np.zeros(2), np.array([1.0, 2.0]))
    assert list(a) == [1, 2]
    assert list(tau) == [0, 0]
    geared = arm(tip_mass=0, rotor_inertia=0.5)
    with pytest.raises(wt.SingularSystemError, match="'upper' about joint 'shoulder'"):
        wt.reference(geared).forward_dynamics(np.zeros(2), np.zeros(2), np.zeros(2))


def test_inverse_dynamics_needs_no_inertia():
    ref = wt.reference(arm(tip_mass=0))
    assert list(ref.inverse_dynamics(np.zeros(2), np.ones(2), np.ones(2))) == [0, 0]
    assert (ref.mass_matrix(np.zeros(2)) == 0).all()


# --- nothing, and not a number ----------------------------------------------------------------------------------------

FRAMED = ("pose", "jacobian", "jacobian_bias", "twist", "operational_inertia_inverse", "forward_dynamics_with_wrench")
SHAPES = {
    "pose": (4, 4),
    "jacobian": (6, 0),
    "jacobian_bias": (6,),
    "twist": (6,),
    "integrate": (0,),
    "difference": (0,),
    "rate": (0,),
    "mass_matrix": (0, 0),
    "mass_matrix_inverse": (0, 0),
    "mass_matrix_solve": (0,),
    "operational_inertia_inverse": (6, 6),
    "inverse_dynamics": (0,),
    "bias": (0,),
    "gravity": (0,),
    "forward_dynamics": (0,),
    "forward_dynamics_with_wrench": (0,),
    "interbody_forces": (1, 6),
    "passive_forces": (0,),
    "kinetic_energy": (),
    "potential_energy": (),
    "momentum": (6,),
    "regressor": (0, 10),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_model_without_freedom_has_every_answer(name):
    model = wt.Builder("rock").body("rock", 1.0).joint("weld", "weld", "world", "rock", position=(1, 2, 3)).build()
    function = getattr(wt.reference(model), name)
    function = function("rock") if name in FRAMED else function
    result = function(*zeros_for(name, model))
    assert np.shape(result) == SHAPES[name]
    assert np.isfinite(result).all()


@pytest.mark.parametrize("name", ["center_of_mass", "centroidal_momentum_matrix"])
def test_a_model_without_moving_mass_has_no_centre(name):
    model = wt.Builder("rock").body("rock", 1.0).joint("weld", "weld", "world", "rock").build()
    with pytest.raises(wt.UnsupportedError) as raised:
        getattr(wt.reference(model), name)(np.zeros(0))
    assert str(raised.value) == "center_of_mass: nothing that moves in model 'rock' has mass"


def test_a_model_without_bodies():
    ref = wt.reference(wt.Builder("nothing").build())
    assert ref.forward_dynamics(np.zeros(0), np.zeros(0), np.zeros(0)).shape == (0,)
    assert (ref.pose("world")(np.zeros(0)) == np.eye(4)).all()
    assert ref.interbody_forces(np.zeros(0), np.zeros(0), np.zeros(0)).shape == (0, 6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["revolute", "universal", "spherical"])
def test_a_state_that_is_not_a_number_has_an_answer_that_is_not_a_number(bad, kind):
    """No error: one bad lane of a batch must not stop the others. Massless links do not turn it into a singularity."""
    model = arm(kind=kind)
    q, v, tau = model.neutral.q, np.zeros(model.nv), np.zeros(model.nv)
    q[0] = bad
    assert np.isnan(wt.reference(model).forward_dynamics(q, v, tau)).any()
    assert np.isnan(wt.reference(model).inverse_dynamics(q, v, tau)).any()


@given(motions(kinds=EXACT_KINDS, number=Fraction))
def test_fractions_stay_fractions(case):
    """Not one float appears anywhere, and M a + c = tau holds exactly."""
    model, (q, v, _, tau) = case
    ref = wt.reference(model)
    a = ref.forward_dynamics(q, v, tau)
    assert all(isinstance(x, (Fraction, int)) for x in a)
    assert (ref.mass_matrix(q) @ a + ref.bias(q, v) == tau).all()
