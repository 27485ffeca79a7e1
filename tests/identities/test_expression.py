"""The traced scalar: what folds, what is shared, what is fused, its derivatives, and its value."""

import math
from fractions import Fraction
from random import Random

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import convert, make_model, make_motion, rationals, seeds
from whippletree.arithmetic import scalars
from whippletree.arithmetic.dual_numbers import Dual
from whippletree.arithmetic.trace import Trace, Traced, evaluate, finish, gradient, lift_constants, tangent
from whippletree.errors import ScalarError
from whippletree.tree.forward import forward_dynamics
from whippletree.tree.mechanism import Mechanism

floats = st.floats(-4, 4)


def variables(n=3):
    trace = Trace()
    return trace, *trace.inputs(n)


def code(*outputs):
    trace = next(y.trace for y in outputs if isinstance(y, Traced))
    return finish(trace, outputs)


def names(*outputs):
    """The operations that the outputs cost, in order."""
    return [node[0] for node in code(*outputs).nodes if node[0] not in ("input", "const")]


# --- folding ----------------------------------------------------------------------------------------------------------

FOLDED = {
    "x * 0 = 0": lambda x, y: (x * 0, 0),
    "0 * x = 0": lambda x, y: (0 * x, 0),
    "x * 0.0 = 0": lambda x, y: (x * 0.0, 0),
    "0 / x = 0": lambda x, y: (0 / x, 0),
    "x - x = 0": lambda x, y: (x - x, 0),
    "x + 0 = x": lambda x, y: (x + 0, x),
    "0 + x = x": lambda x, y: (0.0 + x, x),
    "x - 0 = x": lambda x, y: (x - 0, x),
    "0 - x = -x": lambda x, y: (0 - x, -x),
    "x * 1 = x": lambda x, y: (x * 1.0, x),
    "x * -1 = -x": lambda x, y: (x * -1, -x),
    "x / 1 = x": lambda x, y: (x / 1, x),
    "x / -1 = -x": lambda x, y: (x / -1.0, -x),
    "+x = x": lambda x, y: (+x, x),
    "--x = x": lambda x, y: (-(0 - x), x),
    "-(x - y) = y - x": lambda x, y: (-(x - y), y - x),
    "x + (-y) = x - y": lambda x, y: (x + (-y), x - y),
    "(-x) + y = y - x": lambda x, y: ((-x) + y, y - x),
    "x - (-y) = x + y": lambda x, y: (x - (-y), x + y),
    "(-x) - y = -(x + y)": lambda x, y: ((-x) - y, -(x + y)),
    "(-x) * y = -(x * y)": lambda x, y: ((-x) * y, -(x * y)),
    "x * (-y) = -(x * y)": lambda x, y: (x * (-y), -(x * y)),
    "x * -3 = -(x * 3)": lambda x, y: (x * -3, -(x * 3)),
    "(-x) / y = -(x / y)": lambda x, y: ((-x) / y, -(x / y)),
    "x / (-y) = -(x / y)": lambda x, y: (x / (-y), -(x / y)),
    "x / -3 = -(x / 3)": lambda x, y: (x / -3, -(x / 3)),
    "sin(-x) = -sin(x)": lambda x, y: (scalars.sin(-x), -scalars.sin(x)),
    "cos(-x) = cos(x)": lambda x, y: (scalars.cos(-x), scalars.cos(x)),
    "x + y = y + x": lambda x, y: (x + y, y + x),
    "x * y = y * x": lambda x, y: (x * y, y * x),
    "x * 1/2 = x * 0.5": lambda x, y: (x * Fraction(1, 2), x * 0.5),
    "select(c, x, x) = x": lambda x, y: (scalars.select(x < y, x, x), x),
    "select(True, x, y) = x": lambda x, y: (scalars.select(True, x, y), x),
    "x > y = y < x": lambda x, y: (x > y, y < x),
}


@pytest.mark.parametrize("rule", FOLDED.values(), ids=FOLDED)
def test_folding(rule):
    _, x, y = variables(2)
    left, right = rule(x, y)
    assert left is right if isinstance(right, Traced) else (not isinstance(left, Traced) and left == right)


def test_what_would_change_rounding_is_left_alone():
    _, x, y, z = variables()
    assert (x + y) + z is not x + (y + z)
    assert (x * y) * z is not x * (y * z)
    assert isinstance(x / x, Traced)
    assert (x + y) - y is not x
    assert x / 3 is not x * (1 / 3)


def test_equal_operations_are_one_node():
    trace, x, y = variables(2)
    first = scalars.sin(x * y) + 2
    count = len(trace.nodes)
    assert scalars.sin(y * x) + 2.0 is first
    assert len(trace.nodes) == count


def test_arrays_of_traced_scalars_fold_like_scalars():
    _, x, y = variables(2)
    A = np.array([[1, 0], [0, -1]])
    product = A @ np.array([x, y])
    assert product[0] is x
    assert product[1] is -y
    scaled = x * np.array([y, 0], dtype=object)
    assert scaled[0] is x * y
    assert scaled[1] == 0
    for combine in (np.add, np.subtract, np.multiply, np.divide):
        assert combine(np.array([x, y]), np.array([1.0, 1.0])).shape == (2,)
        assert combine(x, np.array([y, y])).shape == (2,)


def test_a_traced_scalar_has_no_value():
    _, x, y = variables(2)
    with pytest.raises(ScalarError, match="must not branch on a value"):
        bool(x < y)
    with pytest.raises(ScalarError, match="has no number yet"):
        float(x)
    with pytest.raises(ScalarError):
        math.sin(x)


# --- fused multiply-adds ----------------------------------------------------------------------------------------------

FUSED = {
    "a b + c": (lambda a, b, c: [a * b + c], ["fma"]),
    "c + a b": (lambda a, b, c: [c + a * b], ["fma"]),
    "a b - c": (lambda a, b, c: [a * b - c], ["fms"]),
    "c - a b": (lambda a, b, c: [c - a * b], ["fnma"]),
    "a b + b c": (lambda a, b, c: [a * b + b * c], ["mul", "fma"]),
    "a b - b c": (lambda a, b, c: [a * b - b * c], ["mul", "fnma"]),
    "a b + c, a b - c: the product vanishes": (lambda a, b, c: [a * b + c, a * b - c], ["fma", "fms"]),
    "a b + c, a b: the product stays": (lambda a, b, c: [a * b + c, a * b], ["mul", "add"]),
    "a b + a b: nothing to gain": (lambda a, b, c: [a * b + a * b], ["mul", "add"]),
    "sin(a b) + a b: another use": (lambda a, b, c: [scalars.sin(a * b) + a * b], ["mul", "sin", "add"]),
    "dot product": (lambda a, b, c: [a * a + b * b + c * c], ["mul", "fma", "fma"]),
}


@pytest.mark.parametrize(("build", "expected"), FUSED.values(), ids=FUSED)
def test_fused_multiply_adds(build, expected):
    _, *abc = variables()
    assert names(*build(*abc)) == expected


@given(floats, floats, floats)
def test_a_fused_operation_is_rounded_once(a, b, c):
    _, x, y, z = variables()
    found = evaluate(code(x * y + z, x * y - z, z - x * y), [a, b, c])
    p, r = Fraction(a) * Fraction(b), Fraction(c)
    assert found == [float(p + r), float(p - r), float(r - p)]


def test_dead_code_is_dropped_and_numbers_pass_through():
    trace, x, y = variables(2)
    scalars.sin(x)
    straight = finish(trace, [x * y, 2, trace.constant(3), Fraction(1, 4)])
    assert straight.operations == 1
    assert evaluate(straight, [2.0, 5.0]) == [10, 2, 3, 0.25]


# --- values and derivatives of random programs ------------------------------------------------------------------------


def program(seed, size=12):
    """A random smooth function of three numbers, bounded and defined everywhere, on any scalar; two results."""
    plan = Random(seed)
    steps = [(plan.randrange(8), plan.randrange(99), plan.randrange(99), plan.randint(1, 5)) for _ in range(size)]

    def run(inputs):
        pool = list(inputs)
        for operation, i, j, constant in steps:
            x, y = pool[-1 - i % min(4, len(pool))], pool[j % len(pool)]
            match operation:
                case 0:
                    new = scalars.sin(x + y)
                case 1:
                    new = scalars.cos(x) * y / constant
                case 2:
                    new = scalars.sqrt(constant + x * x) - y
                case 3:
                    new = x / (constant + y * y)
                case 4:
                    new = scalars.atan2(x, constant + 1 + scalars.cos(y))
                case 5:
                    new = scalars.select(scalars.less(x, y), x * x / 4, -y)
                case 6:
                    new = (x - y) / constant
                case _:
                    new = abs(x - constant) if not isinstance(x, Dual) else magnitude(x - constant)
            pool.append(new)
        return pool[-2:]

    return run


def magnitude(x):
    return scalars.select(scalars.less(x, 0), -x, x)


def sample(seed):
    return [x + 0.01 for x in convert(rationals(Random(seed), 3), float).tolist()]


@given(seeds, seeds)
def test_a_graph_computes_what_was_traced(seed, point):
    run, inputs = program(seed), sample(point)
    trace, *x = variables()
    found = evaluate(finish(trace, run(x)), inputs)
    assert found == pytest.approx([float(y) for y in run(inputs)], rel=1e-12, abs=1e-12)


@given(seeds, seeds)
def test_forward_reverse_dual_and_mpmath_derivatives_agree(seed, point):
    run, inputs = program(seed), sample(point)
    direction, weights = sample(point + 1), sample(point + 2)[:2]
    trace, *x = variables()
    outputs = run(x)
    slopes = tangent(outputs, x, direction)
    adjoint = gradient(outputs, weights, x)
    values = evaluate(finish(trace, [*slopes, *adjoint]), inputs)
    with mpmath.workdps(40):
        at, along = [mpmath.mpf(v) for v in inputs], [mpmath.mpf(d) for d in direction]
        exact = [
            float(mpmath.diff(lambda t, k=k: mpmath.mpf(run([p + t * d for p, d in zip(at, along)])[k]), 0))
            for k in range(2)
        ]
    scale = 1 + max(map(abs, exact))
    assert values[:2] == pytest.approx(exact, abs=1e-9 * scale)
    assert np.dot(values[2:], direction) == pytest.approx(np.dot(weights, exact), abs=1e-8 * scale)
    duals = run([Dual(v, d) for v, d in zip(inputs, direction)])
    assert [y.slope if isinstance(y, Dual) else 0 for y in duals] == pytest.approx(exact, abs=1e-9 * scale)


def test_derivatives_are_graphs_too():
    """Second derivatives by differentiating twice: d²/dx² (x sin x) = 2 cos x − x sin x."""
    trace, x = variables(1)
    (slope,) = tangent([x * scalars.sin(x)], [x], [1])
    (second,) = gradient([slope], [1], [x])
    assert evaluate(finish(trace, [second]), [0.7]) == pytest.approx(
        [2 * math.cos(0.7) - 0.7 * math.sin(0.7)], rel=1e-14
    )


def test_derivatives_of_constants_and_of_what_is_not_asked():
    trace, x, y = variables(2)
    assert tangent([3, y], [x], [1]) == [0, 0]
    assert gradient([3, y], [1, 1], [x]) == [0]
    assert tangent([x, x * 2], [x], [1]) == [1, trace.constant(2)]


def test_an_inner_node_may_be_the_variable():
    """∂/∂s at s = sin x, as if s were free: what partial derivatives of a recursion need."""
    _, x, y = variables(2)
    s = scalars.sin(x)
    assert tangent([s * y + x], [s], [1])[0] is y
    assert gradient([s * y], [1], [s, y]) == [y, s]


# --- a whole algorithm ------------------------------------------------------------------------------------------------


@given(seeds)
def test_traced_forward_dynamics_is_the_reference(seed):
    model = make_model((-1, 0, 0), ("revolute", "universal", "prismatic"), seed)
    motion = make_motion(model, seed)
    mechanism = Mechanism.of(model)

    def accelerations(q, v, tau):
        links = mechanism.moving(q, v)
        return mechanism.join(forward_dynamics(mechanism.sweep, links, mechanism.velocities(tau), mechanism.base))

    trace = Trace()
    symbols = trace.inputs(model.nq), trace.inputs(model.nv), trace.inputs(model.nv)
    numbers = motion.q, motion.v, motion.tau
    found = evaluate(finish(trace, list(accelerations(*symbols))), np.concatenate(numbers).tolist())
    expected = accelerations(*(x.astype(object) for x in numbers)).astype(float)
    assert found == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-9 * abs(expected).max())


@pytest.mark.parametrize("known", [True, False, np.bool_(True), np.bool_(False)])
def test_a_condition_that_is_known_beforehand_joins_one_that_is_not(known):
    trace = Trace()
    x = trace.input()
    open_ = scalars.less(x, 1)
    for condition, meaning in (
        (open_ & known, lambda below: below and known),
        (known & open_, lambda below: below and known),
        (open_ | known, lambda below: below or known),
        (known | open_, lambda below: below or known),
    ):
        code = finish(trace, [scalars.select(condition, 2 * x, 3 * x)])
        assert all(node[0] not in ("and", "or") for node in code.nodes)
        for value in (0.5, 2.0):
            assert evaluate(code, [value]) == [2 * value if meaning(value < 1) else 3 * value]


def test_constants_become_inputs_and_zeros_stay():
    trace = Trace()
    x = trace.input()
    code = finish(trace, [3 * x + 5, 7.0, 0.0])
    lifted, constants = lift_constants(code, 1)
    assert sorted(constants) == [3, 5, 7]
    assert lifted.outputs[2] == 0
    assert not isinstance(lifted.outputs[2], int)
    assert evaluate(lifted, [2.0, *constants]) == [11.0, 7.0, 0.0] == evaluate(code, [2.0])
