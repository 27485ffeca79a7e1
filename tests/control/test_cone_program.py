"""The program with limits and cones against Ipopt, and what it does where nothing is feasible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Buffer
from whippletree.compiler.program.traced_blocks import piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.control.cone_program import ConeProgram, ConeSizes

casadi = pytest.importorskip("casadi")

SIZES = ConeSizes(unknowns=24, rows=8, limits=3, cones=4)
"""Of four cones two are used; of what is behind them, six entries."""
HARD = 3
"""The first rows are hard."""
GIVEN = {
    "R": (8, 12), "omega": (8,), "aim": (8,), "hard": (8,), "diagonal": (12,), "linear": (12,), "U": (3, 12),
    "offset": (3,), "low": (3,), "high": (3,), "least": (12,), "most": (12,), "has least": (12,), "has most": (12,),
}  # fmt: skip
PLACES = [0, 4, 8, 1, 5, 9, 12, 13, 14, 15, 16, 17]
"""Where the unknowns of the test are: component by component of two cones, then the others."""


def spread(part: Any) -> Any:
    """Numbers of the test's unknowns among those of the program."""
    found = np.zeros((*np.shape(part)[:-1], SIZES.unknowns), dtype=object)
    found[..., PLACES] = part
    return found


def arranged(p: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a program as its buffers have them."""
    diagonal, linear = spread(p["diagonal"]), spread(p["linear"])
    diagonal[[2, 3, 6, 7, 10, 11]], linear[[2, 3]] = 1, 1  # cones that nobody uses go to their tips
    diagonal[18:] = 1
    none = np.zeros(12, dtype=object)
    ends = {name: spread(p[name])[12:] for name in ("least", "most", "has least", "has most")}
    one = np.array([1, 1, 1, 0], dtype=object)

    def filled(x: Any) -> Any:
        return np.concatenate([np.asarray(x, dtype=object), [0]])

    U = np.concatenate([spread(p["U"]), np.zeros((1, 24), dtype=object)])
    return {
        "R": spread(p["R"]), "omega": p["omega"], "aim": p["aim"], "hard": p["hard"], "diagonal": diagonal,
        "linear": linear, "U": U, "offset": np.concatenate([filled(p["offset"]), none]), "effort": np.zeros(16),
        "bound": [[*filled(p["low"]), *ends["least"]], [*filled(p["high"]), *ends["most"]]],
        "has": [[*one, *ends["has least"]], [*one, *ends["has most"]]],
    }  # fmt: skip


@pytest.fixture(scope="module")
def solve() -> Any:
    """A function of the numbers of a program, compiled."""
    space = WorkSpace()
    inputs = [Buffer(f"given {name}", "input", shape) for name, shape in GIVEN.items()]
    outputs = [Buffer("answer", "output", (12,)), Buffer("told", "output", (5,)), Buffer("missed", "output", (8,))]
    space.add(*inputs, *outputs)
    solver = ConeProgram(space, SIZES)

    def fill(*numbers: Any) -> list[Any]:
        return list(arranged(dict(zip(GIVEN, numbers, strict=True))).values())

    names = ("R", "omega", "aim", "hard", "diagonal", "linear", "U", "offset", "effort", "bound", "has")
    written = [space.at(name) for name in names]
    reads, writes = space.each(("x", "report", "residual")), [piece(b) for b in outputs]
    body = [
        traced_block(fill, [piece(b) for b in inputs], written),
        *solver.statements(),
        traced_block(lambda x, report, r: [np.ravel(x)[PLACES], report, np.ravel(r)], reads, writes),
    ]
    return compile_function(space.program("cones", body))


def numbers(seed: int) -> dict[str, np.ndarray]:
    """A program that has an answer: some x inside the cones meets every hard row and limit."""
    rng = np.random.default_rng(seed)
    inside = rng.normal(size=12)
    inside[[0, 3]] = 1.5 + np.hypot(inside[[1, 4]], inside[[2, 5]])
    R, U = rng.normal(size=(8, 12)), rng.normal(size=(3, 12))
    R[2] = R[0] + 2 * R[1]  # a hard row that depends on others
    aim = rng.normal(size=8) * 3
    aim[:HARD] = R[:HARD] @ inside
    hard = np.zeros(8)
    hard[:HARD] = 1
    value = U @ inside
    bounded = np.zeros(12)
    bounded[6:9] = 1
    return {
        "R": R, "omega": np.where(hard, 1e4, 1.0), "aim": aim, "hard": hard, "diagonal": np.full(12, 0.1),
        "linear": rng.normal(size=12), "U": U, "offset": np.zeros(3), "low": value - 0.3, "high": value + 0.5,
        "least": inside - 0.2, "most": inside + 0.4, "has least": bounded, "has most": bounded,
    }  # fmt: skip


def by_ipopt(p: dict[str, np.ndarray]) -> np.ndarray:
    x = casadi.SX.sym("x", 12)
    soft = p["R"][HARD:] @ x - p["aim"][HARD:]
    cost = casadi.sumsqr(soft) / 2 + casadi.dot(p["diagonal"], x**2) / 2 + casadi.dot(p["linear"], x)
    equal = p["R"][: HARD - 1] @ x - p["aim"][: HARD - 1]
    cones = [x[k] ** 2 - x[k + 1] ** 2 - x[k + 2] ** 2 for k in (0, 3)] + [x[0], x[3]]
    g = casadi.vertcat(equal, p["U"] @ x, *cones)
    low, high = np.where(p["has least"], p["least"], -1e9), np.where(p["has most"], p["most"], 1e9)
    options = {"print_time": False, "ipopt": {"print_level": 0, "tol": 1e-11, "sb": "yes"}}
    solver = casadi.nlpsol("s", "ipopt", {"x": x, "f": cost, "g": g}, options)
    zero = np.zeros(HARD - 1)
    found = solver(
        x0=np.eye(12)[0] + np.eye(12)[3], lbx=low, ubx=high,
        lbg=[*zero, *p["low"], 0, 0, 0, 0], ubg=[*zero, *p["high"], 1e9, 1e9, 1e9, 1e9],
    )  # fmt: skip
    assert solver.stats()["success"]
    return np.asarray(found["x"]).ravel()


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_those_of_ipopt(solve: Any, seed: int) -> None:
    p = numbers(seed)
    x, report, _ = solve(*p.values())
    assert report[4] < 30
    assert report[1] < 1e-8
    assert report[2] < 1e-8
    assert np.hypot(x[[1, 4]], x[[2, 5]])[0] < x[0]
    assert np.abs(x - by_ipopt(p)).max() < 1e-5 * (1 + np.abs(x).max())


def test_many_at_once_have_the_bits_of_each_alone(solve: Any) -> None:
    cases = [numbers(seed) for seed in range(11)]
    stacked = [np.stack([p[name] for p in cases]) for name in GIVEN]
    with np.errstate(all="ignore"):
        together = solve(*stacked)[0]
    for k, p in enumerate(cases):
        assert np.array_equal(solve(*p.values())[0], together[k])


def test_rows_that_contradict_the_cones_leave_the_least_residual(solve: Any) -> None:
    p = numbers(3)
    p["R"][:HARD] = 0.0
    p["R"][0, 0] = p["R"][1, 6] = 1.0
    p["aim"][:HARD] = -2.0, 0.0, 0.0  # the first entry of a cone cannot be negative
    p["aim"][1] = p["least"][6] + 0.1
    p["low"], p["high"] = np.full(3, -1e6), np.full(3, 1e6)
    x, _, missed = solve(*p.values())
    assert np.all(np.isfinite(x))
    assert 0 < x[0] < 1e-3
    assert missed[0] == pytest.approx(2.0, abs=1e-3)
    assert abs(missed[1]) < 1e-4


def test_limits_of_entries_that_contradict_hard_rows_yield(solve: Any) -> None:
    p = numbers(5)
    p["R"][:HARD] = 0.0
    p["R"][0, 6] = 1.0
    p["aim"][:HARD] = p["most"][6] + 1.0, 0.0, 0.0
    p["low"], p["high"] = np.full(3, -1e6), np.full(3, 1e6)
    x, report, missed = solve(*p.values())
    assert np.all(np.isfinite(x))
    assert report[2] + abs(missed[0]) == pytest.approx(1.0, abs=1e-3)
