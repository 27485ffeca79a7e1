"""Elementary functions on any scalar: the only functions that generic code may call.

An algorithm written with ``+ - * /`` and the functions of this module runs unchanged on floats, complex numbers,
``fractions.Fraction``, ``mpmath`` numbers, SymPy and CasADi symbols, dual numbers
(:mod:`~whippletree.arithmetic.dual_numbers`) and the library's traced scalars. A type that is not known is refused:
``math.cos`` of an ``mpmath`` number would silently return a double.

Two rules make this work (docs/notation.md lists them all): literals are integers, since a float zero turns a
``Fraction`` into a float without a word; and generic code never branches on a value but calls :func:`select`.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.numpy_protocol import ELEMENTWISE
from whippletree.errors import ScalarError

Scalar = Any
"""Any number-like object with ``+ - * /``; arrays of them have dtype ``object`` unless they are plain floats."""


SYMBOLIC = 2
"""Rank from which on a scalar has no value yet: symbols and traces."""


class Table(str):
    """Numbers to look up: x ↦ values[⌊x⌋], with the first entry below 0 and for NaN, and the last beyond the end.

    As text it is the digest of its values, so that equal tables are one operation of a trace.
    """

    values: tuple[float, ...]
    array: np.ndarray[Any, Any]
    """These scalars as an array."""

    def __new__(cls, values: Iterable[float]) -> Table:
        import hashlib  # few models have tables, and every first call would wait for it

        numbers = tuple(float(x) for x in values)
        if not numbers:
            raise ScalarError("a table needs at least one entry")
        self = super().__new__(cls, "table" + hashlib.sha256(np.array(numbers).tobytes()).hexdigest()[:32])
        self.values, self.array = numbers, np.array(numbers)
        return self

    def at(self, x: Any) -> Any:
        """The entry at a number; at a symbol, a tree of selections."""
        if functions_of(x).rank >= SYMBOLIC:
            return _select_entry(self.values, x, 0)
        last = len(self.values) - 1
        return self.values[int(float(x.real)) if 0 <= x.real < last else last if x.real >= last else 0]


def _not_known(name: str) -> Callable[..., Any]:
    def refuse(*values: Any) -> Any:
        raise ScalarError(
            f"{name} is not known of scalars of type {type(values[0]).__qualname__}: teach it with "
            f"whippletree.arithmetic.scalars.register"
        )

    return refuse


def rounds_on_numbers(
    step: Callable[..., list[Any]],
    state: list[Any],
    given: list[Any],
    most: int,
    value: Callable[[Any], float] = float,
) -> list[Any]:
    """Rounds on numbers, until the first of the state is positive; ``value``: of a scalar, the number that decides."""
    for _ in range(most):
        if value(state[0]) > 0:
            break
        state = step(state, given)
    return state


class Functions(NamedTuple):
    """Functions that a scalar type must offer beside its operators."""

    sin: Callable[[Any], Any]
    cos: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]
    atan2: Callable[[Any, Any], Any]
    less: Callable[[Any, Any], Any]
    select: Callable[[Any, Any, Any], Any]
    rank: int = 1
    """Which type wins in mixed company: 0 plain numbers, 1 other numbers, 2 symbols and traces, 3 duals of these."""
    entry: Callable[[Any, Any], Any] = lambda table, x: table.at(x)
    """The entry of a :class:`Table` at x: (table, x)."""
    exp: Callable[[Any], Any] = _not_known("exp")
    log: Callable[[Any], Any] = _not_known("log")
    tanh: Callable[[Any], Any] = _not_known("tanh")
    power: Callable[[Any, Any], Any] = _not_known("power")
    iterate: Callable[..., list[Any]] = rounds_on_numbers
    """Rounds of :func:`whippletree.arithmetic.iteration.iterate`, on flat lists: (step, state, given, most)."""


def sin(x: Scalar) -> Scalar:
    """sin x, on the scalar type of x."""
    return functions_of(x).sin(x)


def cos(x: Scalar) -> Scalar:
    """cos x, on the scalar type of x."""
    return functions_of(x).cos(x)


def sqrt(x: Scalar) -> Scalar:
    """√x, on the scalar type of x; exact for squares of Fractions, refused for other Fractions."""
    return functions_of(x).sqrt(x)


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y), in (−π, π]."""
    return functions_of(y, x).atan2(y, x)


def exp(x: Scalar) -> Scalar:
    """exp x, on the scalar type of x."""
    return functions_of(x).exp(x)


def log(x: Scalar) -> Scalar:
    """The natural logarithm, on the scalar type of x: −∞ at zero, NaN below."""
    return functions_of(x).log(x)


def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent, on the scalar type of x."""
    return functions_of(x).tanh(x)


def power(x: Scalar, y: Scalar) -> Scalar:
    """x to the power of y, on the more general scalar type of the two; NaN for a root of a negative number."""
    return functions_of(x, y).power(x, y)


def power_slope(x: Scalar, value: Scalar) -> Scalar:
    """∂(xʸ)/∂y = xʸ log x; 0 where the power is 0, as at x = 0."""
    vanishes = ~((less(value, 0)) | less(0, value)) if functions_of(value).rank >= SYMBOLIC else value == 0
    return select(vanishes, 0, value * log(select(vanishes, 1, x)))


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """The larger of two numbers; NaN if one of them is."""
    return select(less(a, b), b, _unless_nan(b, a))


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """The smaller of two numbers; NaN if one of them is."""
    return select(less(b, a), b, _unless_nan(b, a))


def clip(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """x, or the limit that it exceeds."""
    return minimum(maximum(x, low), high)


def sign(x: Scalar) -> Scalar:
    """−1, 0 or 1."""
    return select(less(x, 0), -1, select(less(0, x), 1, 0))


def _unless_nan(b: Scalar, a: Scalar) -> Scalar:
    """a where b is a number, b where it is NaN; a NaN of plain scalars is seen here, that of others in the graph."""
    if functions_of(b).rank < SYMBOLIC:
        return b if b != b else a
    return select(less(b, math.inf), a, select(less(-math.inf, b), a, b))


def less(a: Scalar, b: Scalar) -> Any:
    """a < b as a condition for :func:`select`; complex numbers compare by their real parts (complex step)."""
    return functions_of(a, b).less(a, b)


def select(condition: Any, a: Scalar, b: Scalar) -> Scalar:
    """``a`` where the condition holds, else ``b``. Both sides are evaluated: guard denominators, not results."""
    return functions_of(condition, a, b).select(condition, a, b)


def entry(table: Table, x: Scalar) -> Scalar:
    """The entry ⌊x⌋ of a table; it does not change with x but from entry to entry."""
    return functions_of(x).entry(table, x)


def quotient(a: Scalar, b: Scalar) -> Scalar:
    """a / b; infinite where b is zero, as machine numbers have it, also where Python would raise."""
    try:
        return a / b
    except ZeroDivisionError:
        return math.inf


def functions_of(*values: Scalar) -> Functions:
    """The functions for the most general type among ``values`` (plain numbers yield to every other type)."""
    found = _PLAIN
    for x in values:
        functions = _KNOWN.get(type(x)) or _learn(type(x))
        if functions.rank > found.rank:
            found = functions
    return found


def register(kind: type, functions: Functions) -> None:
    """Teach this module a scalar type; :mod:`whippletree.arithmetic.trace` registers its traced scalar here."""
    _KNOWN[kind] = functions


def half_angle(t: Scalar) -> tuple[Scalar, Scalar]:
    """(sin, cos) of the angle with half-angle tangent ``t``: rational for rational t, so rotations can be exact."""
    return 2 * t / (1 + t * t), (1 - t * t) / (1 + t * t)


def _select_entry(values: tuple[float, ...], x: Any, first: int) -> Any:
    """The entry of values that are numbered from ``first`` on, by halving."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    below, above = _select_entry(values[:half], x, first), _select_entry(values[half:], x, first + half)
    return select(less(x, first + half), below, above)


def power_by_products(x: Scalar, exponent: int) -> Any:
    """x to a whole power, on any scalar."""
    if exponent < 0:
        return 1 / power_by_products(x, -exponent)
    result: Any = 1
    for _ in range(exponent):
        result = result * x
    return result


def is_zero(x: Any) -> bool:
    """Whether a scalar is known to be zero, whatever the state: a plain number, no symbol and no traced one."""
    return isinstance(x, (int, float)) and x == 0


def negated(condition: Any) -> Any:
    """not condition, whether it is known already or not."""
    return not condition if isinstance(condition, (bool, np.bool_)) else ~condition


def _choose(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


def _less_real(a: Any, b: Any) -> bool:
    return bool(a.real < b.real)


def _complex_atan2(y: Any, x: Any) -> Any:
    # the analytic continuation: d atan2 = (x dy − y dx) / (x² + y²), exact to first order for the complex step
    a, b = complex(x), complex(y)
    angle = math.atan2(b.real, a.real)
    return complex(angle, (a.real * b.imag - b.real * a.imag) / (a.real**2 + b.real**2))


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(*values: Any) -> Any:
        raise ScalarError(
            f"{name} of a Fraction is not a Fraction. Use rational rotations (scalars.half_angle gives sine and cosine "
            f"of the angle whose half-angle tangent is rational), mpmath numbers or floats."
        )

    return refuse


def _fraction_sqrt(x: Fraction) -> Fraction:
    root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator)) if x >= 0 else Fraction(-1)
    if root * root != x:
        raise ScalarError(f"the square root of the Fraction {x} is not a Fraction: use mpmath numbers or floats")
    return root


def _float_sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def _float_exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _float_log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def _float_power(x: Any, y: Any) -> float:
    """A power of floats as machines have it: NaN and infinities where Python would raise or turn to complex numbers."""
    with np.errstate(all="ignore"):
        return float(np.power(float(x), float(y)))


def _complex_power(x: Any, y: Any) -> complex:
    return complex(x) ** complex(y)


def _fraction_power(x: Any, y: Any) -> Fraction:
    if Fraction(y).denominator != 1:
        raise ScalarError(f"{x} to the power of {y} is not a Fraction: use mpmath numbers or floats")
    return Fraction(x) ** int(y)


_PLAIN = Functions(
    lambda x: math.sin(x) if math.isfinite(x) else math.nan,
    lambda x: math.cos(x) if math.isfinite(x) else math.nan,
    _float_sqrt,
    math.atan2,
    lambda a, b: a < b,
    _choose,
    rank=0,
    exp=_float_exp,
    log=_float_log,
    tanh=math.tanh,
    power=_float_power,
)
_COMPLEX = Functions(
    cmath.sin,
    cmath.cos,
    cmath.sqrt,
    _complex_atan2,
    _less_real,
    _choose,
    exp=cmath.exp,
    log=cmath.log,
    tanh=cmath.tanh,
    power=_complex_power,
)
_FRACTION = Functions(
    _refuse("the sine"),
    _refuse("the cosine"),
    _fraction_sqrt,
    _refuse("the angle"),
    lambda a, b: a < b,
    _choose,
    exp=_refuse("the exponential"),
    log=_refuse("the logarithm"),
    tanh=_refuse("the hyperbolic tangent"),
    power=_fraction_power,
)
_KNOWN: dict[type, Functions] = {
    **dict.fromkeys((int, float, bool, np.bool_), _PLAIN),
    complex: _COMPLEX,
    Fraction: _FRACTION,
}


def _learn(kind: type) -> Functions:
    """Find the functions of a type met for the first time, by its base classes and the library it comes from."""
    library = kind.__module__.partition(".")[0]
    if issubclass(kind, (np.floating, np.integer)):
        functions = _PLAIN
    elif issubclass(kind, np.complexfloating):
        functions = _COMPLEX
    elif base := next((b for b in kind.__mro__[1:] if b in _KNOWN), None):
        functions = _KNOWN[base]
    elif library in _LIBRARIES:
        functions = _LIBRARIES[library]()
    else:
        raise ScalarError(
            f"scalars of type {kind.__module__}.{kind.__qualname__} are not known here: use floats, complex, Fraction, "
            f"mpmath, SymPy or CasADi scalars, or teach the type with whippletree.arithmetic.scalars.register"
        )
    _KNOWN[kind] = functions
    return functions


def _mpmath() -> Functions:
    import mpmath

    def less(a: Any, b: Any) -> bool:
        return bool(mpmath.re(a) < mpmath.re(b))

    return Functions(
        mpmath.sin,
        mpmath.cos,
        mpmath.sqrt,
        mpmath.atan2,
        less,
        _choose,
        exp=mpmath.exp,
        log=mpmath.log,
        tanh=mpmath.tanh,
        power=mpmath.power,
    )


def _sympy() -> Functions:
    import sympy

    def select(condition: Any, a: Any, b: Any) -> Any:
        return sympy.Piecewise((a, condition), (b, True))

    return Functions(
        sympy.sin,
        sympy.cos,
        sympy.sqrt,
        sympy.atan2,
        sympy.Lt,
        select,
        rank=2,
        exp=sympy.exp,
        log=sympy.log,
        tanh=sympy.tanh,
        power=sympy.Pow,
    )


def _casadi() -> Functions:
    import casadi

    return Functions(
        casadi.sin,
        casadi.cos,
        casadi.sqrt,
        casadi.atan2,
        casadi.lt,
        casadi.if_else,
        rank=2,
        exp=casadi.exp,
        log=casadi.log,
        tanh=casadi.tanh,
        power=casadi.power,
    )


_LIBRARIES: dict[str, Callable[[], Functions]] = {"mpmath": _mpmath, "sympy": _sympy, "casadi": _casadi}


ELEMENTWISE.update(
    maximum=maximum,
    minimum=minimum,
    clip=clip,
    sign=sign,
    less=less,
    greater=lambda a, b: less(b, a),
    less_equal=lambda a, b: negated(less(b, a)),
    greater_equal=lambda a, b: negated(less(a, b)),
    logical_and=lambda a, b: a & b,
    logical_or=lambda a, b: a | b,
    logical_not=negated,
    radians=lambda x: x * (math.pi / 180),
    deg2rad=lambda x: x * (math.pi / 180),
    where=select,
)
