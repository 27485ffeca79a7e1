"""Every message about an evaluation that cannot be, once, whole: scalars, inputs, functions, parameters."""

from fractions import Fraction

import numpy as np
import pytest

import whippletree as wt
from whippletree.arithmetic import scalars
from whippletree.functions import CATALOGUE
from whippletree.spatial.joints import KINDS, make

ARM = (
    wt.Builder("arm")
    .body("upper", 1.0, (0.1, 0, 0), (1, 1, 1))
    .body("fore", 1.0, (0.1, 0, 0), (1, 1, 1))
    .joint("shoulder", "revolute", "world", "upper")
    .joint("elbow", "revolute", "upper", "fore", position=(1, 0, 0))
    .build()
)
FLOATING = wt.Builder("drone").body("frame", 1.0, (0, 0, 0), (1, 1, 1)).joint("base", "free", "world", "frame").build()
TIED = wt.Builder("tied").body("a", 1.0).joint("j", "free", "world", "a").constraint("loop", "mjcf_tendon", "a").build()

Z2, Z6, Z7 = np.zeros(2), np.zeros(6), np.zeros(7)
QUATERNION = "Model 'drone' has nv = 6 but nq = 7: joint 'base' stores a quaternion."
FRACTION = (
    "of a Fraction is not a Fraction. Use rational rotations (scalars.half_angle gives sine and cosine of the angle "
    "whose half-angle tangent is rational), mpmath numbers or floats."
)
FUNCTIONS = ", ".join(repr(name) for name in list(CATALOGUE)[:20]) + f", … ({len(CATALOGUE)} in all)"


class Strange:
    """A scalar that nobody taught."""


MESSAGES = [
    # scalars
    (wt.ScalarError, lambda: scalars.sin(Fraction(1, 2)), f"the sine {FRACTION}"),
    (wt.ScalarError, lambda: scalars.cos(Fraction(1, 2)), f"the cosine {FRACTION}"),
    (wt.ScalarError, lambda: scalars.atan2(Fraction(1), Fraction(2)), f"the angle {FRACTION}"),
    (
        wt.ScalarError,
        lambda: scalars.sqrt(Fraction(2)),
        "the square root of the Fraction 2 is not a Fraction: use mpmath numbers or floats",
    ),
    (
        wt.ScalarError,
        lambda: scalars.sin(Strange()),
        f"scalars of type {Strange.__module__}.Strange are not known here: use floats, complex, Fraction, mpmath, "
        "SymPy or CasADi scalars, or teach the type with whippletree.arithmetic.scalars.register",
    ),
    # inputs
    (
        wt.ShapeError,
        lambda: wt.reference(ARM).forward_dynamics(Z2, Z2, Z6),
        "forward_dynamics: tau has shape (6,), expected (..., 2).",
    ),
    (
        wt.ShapeError,
        lambda: wt.reference(FLOATING).forward_dynamics(Z7, Z6, np.zeros((3, 7))),
        f"forward_dynamics: tau has shape (3, 7), expected (..., 6). {QUATERNION} Velocities and forces live in "
        "velocity space: pass nv numbers.",
    ),
    (
        wt.ShapeError,
        lambda: wt.reference(FLOATING).mass_matrix(Z6),
        f"mass_matrix: q has shape (6,), expected (..., 7). {QUATERNION} Coordinates include the quaternion: pass nq "
        "numbers.",
    ),
    (wt.ShapeError, lambda: wt.reference(ARM).mass_matrix(0.5), "mass_matrix: q has shape (), expected (..., 2)."),
    (
        TypeError,
        lambda: wt.reference(ARM).mass_matrix(Z2, Z2),
        "mass_matrix takes 1 inputs (q), got 2",
    ),
    (TypeError, lambda: wt.reference(ARM).bias(Z2), "bias takes the inputs q, v; got q"),
    (TypeError, lambda: wt.reference(ARM).bias(), "bias takes the inputs q, v; got none"),
    (TypeError, lambda: wt.reference(ARM).bias(Z2, Z2, q=Z2), "bias takes the inputs q, v; got q, v"),
    (TypeError, lambda: wt.reference(ARM).bias(q=Z2, w=Z2), "bias takes the inputs q, v; got q, w"),
    # names
    (
        wt.NameLookupError,
        lambda: wt.reference(ARM).foward_dynamics,
        f"there is no function 'foward_dynamics'; known: {FUNCTIONS}. Did you mean 'forward_dynamics'?",
    ),
    (
        wt.NameLookupError,
        lambda: wt.reference(ARM).jacobian("hand")(Z2),
        "model 'arm': there is no frame or body 'hand'; known: 'upper', 'fore'",
    ),
    (
        wt.NameLookupError,
        lambda: wt.reference(ARM).hybrid_dynamics(("elbo",))(Z2, Z2, Z2),
        "model 'arm': there is no joint 'elbo'; known: 'shoulder', 'elbow'. Did you mean 'elbow'?",
    ),
    (
        wt.NameLookupError,
        lambda: make("hinge", [0, 0, 1], [0, 1, 0], 0),
        f"there is no joint kind 'hinge'; known: {', '.join(map(repr, KINDS))}. 'hinge' of other libraries is here: "
        "'revolute'",
    ),
    # parameters
    (
        wt.NameLookupError,
        lambda: wt.reference(ARM, parameters=["body.upper.mass"]),
        "there is no parameter 'body.upper.mass'; known: 'bodies.<name>.<field>', 'joints.<name>.<field>', 'gravity'",
    ),
    (
        wt.NameLookupError,
        lambda: wt.reference(ARM, parameters=["bodies.uper.mass"]),
        "parameters of model 'arm': there is no body 'uper'; known: 'upper', 'fore'. Did you mean 'upper'?",
    ),
    (
        wt.NameLookupError,
        lambda: wt.reference(ARM, parameters=["joints.wrist.damping"]),
        "parameters of model 'arm': there is no joint 'wrist'; known: 'shoulder', 'elbow'",
    ),
    (
        wt.NameLookupError,
        lambda: wt.reference(ARM, parameters=["bodies.upper.weight"]),
        "parameter 'bodies.upper.weight': there is no field 'weight'; known: 'mass', 'center', 'inertia'",
    ),
    (
        wt.NameLookupError,
        lambda: wt.reference(ARM, parameters=["joints.elbow.dampin"]),
        "parameter 'joints.elbow.dampin': there is no field 'dampin'; known: 'stiffness', 'damping', 'rest', "
        "'rotor_inertia', 'gear_ratio', 'pitch', 'position'. Did you mean 'damping'?",
    ),
    # what a function cannot do
    (
        wt.UnsupportedError,
        lambda: wt.reference(ARM).operational_inertia("fore")(Z2),
        "operational_inertia: only 2 of 6 freedoms move this frame of model 'arm', so its inertia is infinite in some "
        "direction. Use operational_inertia_inverse, which always exists, or name fewer rows.",
    ),
    (
        wt.SingularSystemError,
        lambda: wt.reference(wt.mechanisms.chain(2)).operational_inertia(("tip.x", "tip.y"))(Z2),
        "model 'chain of 2 rods': no motion leads along some combination of the task's rows at this configuration (an "
        "arm that is stretched, for example), so the inertia is infinite there. Use operational_inertia_inverse, which "
        "always exists, or name fewer rows.",
    ),
    (
        wt.UnsupportedError,
        lambda: wt.reference(ARM).constraint_residual(Z2),
        "constraint_residual: model 'arm' has no constraints, and this function is about them: add one with "
        "Builder.constraint, or close a loop with a joint",
    ),
    (
        wt.UnsupportedError,
        lambda: wt.reference(TIED).interbody_forces(Z7, Z6, Z6),
        "interbody_forces: model 'tied' has 1 constraints ('loop'), which this function cannot honour: use model.tree "
        "for the tree without them",
    ),
]


@pytest.mark.parametrize(("kind", "ask", "message"), MESSAGES, ids=[message[:60] for *_, message in MESSAGES])
def test_message(kind, ask, message):
    with pytest.raises(kind) as raised:
        ask()
    assert str(raised.value) == message


@pytest.mark.slow
def test_every_error_is_a_whippletree_error_and_a_python_one():
    """Users may catch the library's errors as such, or as the kind of error that Python would raise."""
    for name in wt.__all__:
        kind = getattr(wt, name)
        if not isinstance(kind, type) or not issubclass(kind, Exception) or issubclass(kind, Warning):
            continue
        if kind is not wt.WhippletreeError:
            assert issubclass(kind, wt.WhippletreeError)
            assert len(kind.__mro__) > 4, name  # something built in beside Exception


def test_a_missing_extra_says_what_to_install():
    error = wt.MissingExtraError("reading MJCF", "mujoco", "mjcf")
    assert str(error) == "reading MJCF needs the package 'mujoco': pip install 'whippletree[mjcf]'"
