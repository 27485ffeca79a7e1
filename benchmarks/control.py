"""Whole-body control: time of a cycle (terms, program, torques), beside piqp and proxsuite on Pinocchio's matrices.

    python -m benchmarks.control            a table, processor time

The robot stands on its feet (four balls of solo12, eight of the G1) with small velocities and is asked to move its
centre of mass, keep its base upright and its posture. Ours: second-order cones, limits of effort, angle and velocity,
all in one compiled function. Peers: the same dense program with friction pyramids of four facets and limits of effort
(no stops), matrices of Pinocchio put together by NumPy beforehand; ``terms`` is what Pinocchio needs for M, bias,
Jacobians and their drift, ``program`` what the solver needs from set-up to answer, to 1e-6.

Then a C program with the exported controller at 1 kHz: cycles, their time, and whether the bits are those of Python.
The last lines are functions inside CasADi, many at once: machine code and SX, and their Jacobians.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.stepping import FRICTION, G1, SOLO12, Footing, standing
from whippletree.control import task

BASES = {"solo12": "base_link", "G1": "pelvis"}
STATES = 16
WEIGHTS = {"center": 100.0, "base": 10.0, "posture": 1.0}
GAIN = 50.0
TOGETHER = 500
"""Evaluations in one call of CasADi, which alone takes 14 µs."""


class Case:
    """A robot on its feet, its controller, and some states near rest."""

    def __init__(self, footing: Footing) -> None:
        self.footing, self.base = footing, BASES[footing.name]
        start = standing(footing, 1, 1)
        self.model, self.q = start.model, start.q[0]
        self.dyn = wt.compile(self.model, threads=1)
        tasks = [
            task("center_of_mass", weight=WEIGHTS["center"], stiffness=GAIN),
            task(f"{self.base}.rotation", weight=WEIGHTS["base"], stiffness=GAIN),
            task("posture", weight=WEIGHTS["posture"], stiffness=GAIN),
        ]
        self.control = wt.control.whole_body(self.model, tasks, dyn=self.dyn)
        self.center = np.asarray(self.dyn.center_of_mass(self.q)) + np.array([0.01, 0.005, -0.01])
        self.targets = {
            "center_of_mass": self.center,
            f"{self.base}.rotation": self.dyn.pose(self.base)(self.q),
            "posture": self.q,
        }
        rng = np.random.default_rng(0)
        motions = rng.normal(size=(4096, self.model.nv))
        # velocities that the feet allow: a planted foot that turns has accelerations that no force takes away
        J = self.dyn.contact_jacobian(self.q)
        self.v = 0.05 * motions @ (np.eye(self.model.nv) - np.linalg.pinv(J) @ J)

    def inputs(self, v: np.ndarray) -> list[Any]:
        return self.control.inputs(self.q, v, self.targets)


def seconds(call: Callable[[], object], least: float = 0.3) -> float:
    """Processor seconds of a call, after one that is not counted."""
    call()
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < least:
        call()
        count += 1
    return spent / count


def ours(case: Case, batch: int) -> None:
    control, name = case.control, case.footing.name
    given = [case.inputs(v) for v in case.v[:STATES]]
    rounds = np.mean([control.function(*one)[-1][4] for one in given])
    single = seconds(lambda: [control.function(*one) for one in given]) / STATES
    many = case.inputs(case.v[:batch])
    with np.errstate(all="ignore"):
        together = seconds(lambda: control.function(*many), least=0.1) / batch
    alone = f"cycle alone {1e6 * single:8.0f} µs ({rounds:.1f} rounds)"
    print(f"{name:8} ours: {alone}   batch of {batch} {1e6 * together:8.0f} µs each")


def peers(case: Case) -> None:
    try:
        import pinocchio as pin
    except ImportError:
        print(f"{case.footing.name:8} Pinocchio is not installed")
        return
    program = Pyramids(case, pin)
    print(f"{case.footing.name:8} pin: terms {1e6 * seconds(program.terms):8.0f} µs")
    for name, solve in program.solvers().items():
        print(f"{case.footing.name:8} {name}: program {1e6 * seconds(solve):8.0f} µs")


class Pyramids:
    """The same question for solvers of quadratic programs: x = (a, p), half-spaces instead of cones."""

    def __init__(self, case: Case, pin: Any) -> None:
        self.case, self.pin = case, pin
        robot = case.footing.robot
        self.model = pin.buildModelFromUrdf(str(robot.path), pin.JointModelFreeFlyer())
        self.data = self.model.createData()
        q, v = case.q, case.v[0]
        dyn, nv = case.dyn, case.model.nv
        self.q = np.concatenate([q[:3], q[4:7], q[3:4], q[7:]])[: self.model.nq]
        M, c = dyn.mass_matrix(q), dyn.bias(q, v)
        J, drift = dyn.contact_jacobian(q), dyn.contact_bias(q, v) + 20 * dyn.contact_velocity(q, v)
        weight = case.control.layout.force_unit
        k = len(J) // 3
        n = nv + 3 * k
        A_G = dyn.centroidal_momentum_matrix(q)[3:] / sum(float(body.mass) for body in case.model.bodies)
        rotation = dyn.jacobian(case.base)(q)[:3]
        H, g = np.zeros((n, n)), np.zeros(n)
        missing = GAIN * (case.center - dyn.center_of_mass(q)) - 2 * np.sqrt(GAIN) * (A_G @ v)
        for rows, aim, w in (
            (A_G, missing, WEIGHTS["center"]),
            (rotation, -2 * np.sqrt(GAIN) * (rotation @ v), WEIGHTS["base"]),
            (np.eye(nv)[6:], -2 * np.sqrt(GAIN) * v[6:], WEIGHTS["posture"]),
        ):
            H[:nv, :nv] += w * rows.T @ rows
            g[:nv] -= w * rows.T @ aim
        H[nv:, nv:] += 1e-2 * np.eye(3 * k)
        dynamics = np.hstack([M / weight, -J.T])
        effort = np.array(case.control.layout.efforts)
        self.H = H + 1e-4 * dynamics[6:].T @ dynamics[6:] + 1e-9 * np.eye(n)
        self.g = g
        # redundant rows of flat feet are left out: these solvers want independent ones
        import scipy.linalg

        independent = np.sort(scipy.linalg.qr(J.T, pivoting=True)[2][: np.linalg.matrix_rank(J)])
        self.E = np.vstack([dynamics[:6], np.hstack([J, np.zeros((3 * k, 3 * k))])[independent]])
        self.b = np.concatenate([-c[:6] / weight, -drift[independent]])
        facets = np.array([[1, 1, 0], [1, -1, 0], [1, 0, 1], [1, 0, -1]]) * (FRICTION, 1, 1)
        cones = np.hstack([np.zeros((4 * k, nv)), np.kron(np.eye(k), -facets)])
        self.G = np.vstack([dynamics[6:], cones])
        self.low = np.concatenate([(-effort - c[6:]) / weight, np.full(4 * k, -1e30)])
        self.high = np.concatenate([(effort - c[6:]) / weight, np.zeros(4 * k)])

    def terms(self) -> None:
        """M, bias, Jacobians of the feet and their drift, centroidal terms."""
        pin, model, data = self.pin, self.model, self.data
        v = np.zeros(model.nv)
        pin.computeAllTerms(model, data, self.q, v)
        pin.ccrba(model, data, self.q, v)
        for body, _ in dict(self.case.footing.feet).items():
            frame = model.getFrameId(body)
            pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
            pin.getFrameClassicalAcceleration(model, data, frame, pin.LOCAL_WORLD_ALIGNED)

    def solvers(self) -> dict[str, Callable[[], object]]:
        found: dict[str, Callable[[], object]] = {}
        try:
            import piqp

            def by_piqp() -> object:
                solver = piqp.DenseSolver()
                solver.settings.eps_abs = solver.settings.eps_rel = 1e-6
                solver.setup(self.H, self.g, self.E, self.b, self.G, self.low, self.high)
                status = solver.solve()
                assert status == piqp.PIQP_SOLVED, status
                return solver.result.x

            by_piqp()
            found["piqp"] = by_piqp
        except ImportError:
            print("piqp is not installed")
        try:
            import proxsuite

            def by_proxqp() -> object:
                solver = proxsuite.proxqp.dense.QP(len(self.g), len(self.b), len(self.low))
                solver.settings.eps_abs = 1e-6
                solver.init(self.H, self.g, self.E, self.b, self.G, self.low, self.high)
                solver.solve()
                return solver.results.x

            by_proxqp()
            found["proxsuite"] = by_proxqp
        except ImportError:
            print("proxsuite is not installed")
        return found


LOOP = """#include "{prefix}.h"
#include <stdio.h>
#include <time.h>
static double now(void) {{ struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }}
int main(int argc, char **argv) {{
    (void)argc;
    double {declared};
    FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
    size_t got = 0;
    {reads}
    struct timespec next; clock_gettime(CLOCK_MONOTONIC, &next);
    double worst = 0, total = 0; int cycles = 0, late = 0;
    while (fread(v, 8, {nv}, in) == {nv}) {{
        next.tv_nsec += 1000000; if (next.tv_nsec >= 1000000000) {{ next.tv_nsec -= 1000000000; next.tv_sec++; }}
        double begun = now();
        {prefix}_whole_body({call});
        double took = now() - begun;
        total += took; if (took > worst) worst = took;
        if (took > 1e-3) late++;
        fwrite(tau, 8, {nv}, out); cycles++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, 0);
    }}
    fclose(out);
    printf("%d cycles at 1 kHz, mean %.0f us, worst %.0f us, %d late\\n",
           cycles, 1e6 * total / cycles, 1e6 * worst, late);
    return got == 0;
}}
"""


def c_loop(case: Case, cycles: int = 500) -> None:
    """The exported controller in C, at 1 kHz, on states that a file holds; its bits beside Python's."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("there is no C compiler")
        return
    control, nv = case.control, case.model.nv
    given = case.inputs(case.v[0])
    names, outputs = control.function.inputs, control.function.outputs
    results = control.function(*given)
    kept = [(name, np.size(x)) for name, x in zip(outputs, results, strict=True) if np.size(x)]
    sizes = dict(zip(names, map(int, map(np.size, given)), strict=True)) | {name: int(size) for name, size in kept}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        prefix = next(path.stem for path in control.export(place) if path.suffix == ".h")
        words = {
            "prefix": prefix, "nv": nv, "call": ", ".join([*names, *[name for name, _ in kept]]),
            "declared": ", ".join(f"{name}[{size}]" for name, size in sizes.items()),
            "reads": " ".join(f"got += fread({name}, 8, {sizes[name]}, in);" for name in names if name != "v"),
        }  # fmt: skip
        (place / "loop.c").write_text(LOOP.format(**words))
        objects = [path.name for path in place.glob("*.o")]
        build = [compiler, "-O2", "-D_GNU_SOURCE", "loop.c", *objects, "-o", "loop", "-lm"]
        subprocess.run(build, cwd=place, check=True)
        fixed = [np.ravel(x) for name, x in zip(names, given, strict=True) if name != "v"]
        (place / "in").write_bytes(np.concatenate([*fixed, case.v[:cycles].ravel()]).tobytes())
        said = subprocess.run(["./loop", "in", "out"], cwd=place, check=True, capture_output=True, text=True).stdout
        torques = np.frombuffer((place / "out").read_bytes()).reshape(-1, nv)
    mine = np.stack([control.function(*case.inputs(v))[0] for v in case.v[:cycles]])
    print(f"{case.footing.name:8} in C: {said.strip()}; bits equal to Python's: {np.array_equal(torques, mine)}")


def in_casadi() -> None:
    """Functions inside CasADi: machine code beside the same trace on SX, and their Jacobians, per evaluation."""
    try:
        import casadi
    except ImportError:
        print("casadi is not installed")
        return
    bars = wt.mechanisms.four_bar(lengths=(2.0, 0.7, 1.9, 1.5))
    dog, biped = wt.mechanisms.quadruped(), wt.mechanisms.planar_biped()
    cases = {
        "constrained dynamics of a four-bar": (bars, ("forward_dynamics",)),
        "four-bar in minimal coordinates": (bars, ("embedded_dynamics", "crank")),
        "forward dynamics of a quadruped": (dog, ("forward_dynamics",)),
        "contact step of a biped": (biped, ("contact_step",)),
    }
    for name, (model, words) in cases.items():
        said = []
        for machine_code in (True, False):
            f = wt.control.external(model, *words, machine_code=machine_code)
            for g in (f, f.jacobian()):
                given = [casadi.DM.zeros(*g.size_in(k)) for k in range(g.n_in())]
                given[0] = casadi.DM(model.home.q)
                if words[0] == "contact_step":
                    given[3] = casadi.DM(1e-3)
                many, states = g.map(TOGETHER), [casadi.repmat(x, 1, TOGETHER) for x in given]
                took = seconds(lambda many=many, states=states: many(*states), least=0.1) / TOGETHER
                entries = g.nnz_out(0)
                said.append(f"{1e6 * took:7.1f} ({entries} entries)")
        print(f"{name:36} machine code {said[0]}, Jacobian {said[1]}; SX {said[2]}, Jacobian {said[3]} µs")


def main(arguments: list[str]) -> None:
    batch = int(arguments[0]) if arguments else 4096
    for footing in (SOLO12, G1):
        case = Case(footing)
        ours(case, batch)
        peers(case)
        c_loop(case)
    in_casadi()


if __name__ == "__main__":
    main(sys.argv[1:])
