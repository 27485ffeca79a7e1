"""Flexible bodies: the same reduced solid in this library and in Exudyn, growth with bodies and with modes.

    python -m benchmarks.flexible_bodies

A bar of 80 brick elements, reduced by Craig and Bampton to twelve modes, turns and falls freely for one second. Each
program is measured at several steps, with the distance of the tip from where its own shortest step leads: times count
at equal error. Exudyn is measured if it can be imported (``pip install exudyn``); processor time, the best of three.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp

import whippletree as wt

RUNS = 4096
"""Runs of the batch."""

STEPS = (1e-5, 4e-5, 2e-4)
"""s, of the fixed-step method: fifty, twelve and two and a half steps per period of the highest mode, 1.6 kHz. The
last is near the limit of stability; what it does not resolve is not excited here."""

PEER_STEPS = (2e-5, 2e-4, 1e-3)
"""s, of Exudyn's generalised-α method, which is stable at all of them."""


def bar(cells: tuple[int, int, int] = (20, 2, 2)) -> wt.flexible.NodalModel:
    """1 m × 5 cm × 5 cm, 2 GPa, 1000 kg/m³, of trilinear bricks."""
    size, E, nu, density = np.array([1.0, 0.05, 0.05]), 2e9, 0.3, 1000.0
    counts = np.array(cells) + 1
    points = np.array(list(np.ndindex(*counts))) * size / cells - [0, size[1] / 2, size[2] / 2]
    edges = size / cells
    shear = E / (2 * (1 + nu))
    lame = E * nu / ((1 + nu) * (1 - 2 * nu))
    C = np.diag([2 * shear] * 3 + [shear] * 3) + np.pad(np.full((3, 3), lame), (0, 3))
    corners = np.array(list(product((-1, 1), repeat=3)))
    K, M = np.zeros((24, 24)), np.zeros((24, 24))
    for at in corners / np.sqrt(3):
        terms = 1 + corners * at
        N = terms.prod(axis=1) / 8
        dN = np.stack([corners[:, d] * np.delete(terms, d, axis=1).prod(axis=1) for d in range(3)], axis=1) / 4 / edges
        B = np.zeros((6, 24))
        for k, (x, y, z) in enumerate(dN):
            B[:, 3 * k : 3 * k + 3] = [[x, 0, 0], [0, y, 0], [0, 0, z], [y, x, 0], [0, z, y], [z, 0, x]]
        spread = np.kron(N, np.eye(3))
        K += B.T @ C @ B * edges.prod() / 8
        M += density * spread.T @ spread * edges.prod() / 8
    places = []
    for cell in np.ndindex(*cells):
        nodes = np.ravel_multi_index((np.array(cell) + (corners + 1) // 2).T, tuple(counts))
        places.append((3 * nodes[:, None] + np.arange(3)).ravel())
    at = np.array(places)
    where = np.repeat(at, 24, axis=1).ravel(), np.tile(at, 24).ravel()
    big = [sp.csc_matrix((np.tile(A.ravel(), len(at)), where)) for A in (K, M)]
    freedoms = np.stack([np.repeat(np.arange(len(points)), 3), np.tile(np.arange(3), len(points))], axis=1)
    return wt.flexible.NodalModel(points, freedoms, *big)


def best(function: Callable[[], Any]) -> float:
    """Processor seconds, the best of three after one that compiles."""
    function()
    found = []
    for _ in range(3):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def ours(solid: wt.flexible.NodalModel, ends: list[list[int]]) -> None:
    """One run, a batch of runs, and forward dynamics."""
    body = wt.flexible.craig_bampton(solid, {"left": ends[0], "right": ends[1]}, root="left", modes=6)
    model = wt.Builder("bar", (0, -9.81, 0)).flexible_body("bar", body).joint("free", "free", "world", "bar").build()
    v = np.zeros(model.nv)
    v[2] = 2.0
    dyn = wt.compile(model, threads=1)
    cases = {f"rk4, step {h:g} s": {"method": "rk4", "step": h, "output_dt": 0.01} for h in STEPS}
    cases["adaptive, rtol 1e-4"] = {"rtol": 1e-4, "atol": 1e-6}
    exact = None
    for label, options in cases.items():
        seconds = best(lambda options=options: wt.simulate(model, model.home.q, v, duration=1.0, **options))
        run = wt.simulate(model, model.home.q, v, duration=1.0, **options)
        tip = dyn.pose("bar/right")(run.q.values[-1])[:3, 3]
        exact = tip if exact is None else exact
        tell("whippletree", label, seconds, tip, exact)
    q, many = np.tile(model.home.q, (RUNS, 1)), np.tile(v, (RUNS, 1))
    fixed = {"duration": 1.0, "method": "rk4", "step": STEPS[-1], "output_dt": 0.5}
    wt.simulate(model, q, many, **(fixed | {"duration": 0.002, "output_dt": 0.001}))  # compiles
    start = time.process_time()
    wt.simulate(model, q, many, **fixed)
    seconds = time.process_time() - start
    print(f"whippletree, batch of {RUNS} runs, rk4, step {STEPS[-1]:g} s: {seconds / RUNS * 1e3:.2f} ms a run")


def tell(program: str, label: str, seconds: float, tip: np.ndarray, exact: np.ndarray) -> None:
    """Print one run."""
    error = np.linalg.norm(tip - exact) * 1e6
    print(f"{program}, one run, {label}: {seconds:.4f} s; tip {tip[0]:.7f}, {tip[1]:.7f} m, {error:.3f} µm off")


def exudyn(solid: wt.flexible.NodalModel, ends: list[list[int]]) -> None:
    """One run by Exudyn's floating-frame body with the same modes."""
    try:
        import exudyn as exu
        from exudyn import FEM
        from exudyn.utilities import SensorSuperElement
    except ImportError:
        print("Exudyn: not installed")
        return
    fem = FEM.FEMinterface()
    fem.nodes, fem.elements = {"Position": solid.points}, []
    fem.massMatrix, fem.stiffnessMatrix = sp.csr_matrix(solid.mass), sp.csr_matrix(solid.stiffness)
    fem.ComputeHurtyCraigBamptonModes(ends, 6, True, computationMode=FEM.HCBstaticModeSelection.RBE2)
    mbs = exu.SystemContainer().AddSystem()
    made = FEM.ObjectFFRFreducedOrderInterface(fem).AddObjectFFRFreducedOrder(
        mbs, [0, 0, 0], [0, 0, 0], np.eye(3), [0, 0, 2.0], gravity=[0, -9.81, 0]
    )
    kind = exu.OutputVariableType.Position
    sensor = mbs.AddSensor(
        SensorSuperElement(
            bodyNumber=made["oFFRFreducedOrder"], meshNodeNumber=ends[1][4], storeInternal=True, outputVariableType=kind
        )
    )
    mbs.Assemble()
    exact = None
    for step in PEER_STEPS:
        settings = exu.SimulationSettings()
        settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = round(1 / step), 1.0
        settings.timeIntegration.generalizedAlpha.spectralRadius = 1.0
        settings.timeIntegration.newton.useModifiedNewton = True
        settings.solutionSettings.sensorsWritePeriod = 0.01
        settings.solutionSettings.writeSolutionToFile = False
        seconds = best(lambda settings=settings: mbs.SolveDynamic(settings))
        tip = mbs.GetSensorStoredData(sensor)[-1, 1:]
        exact = tip if exact is None else exact
        tell(f"Exudyn {exu.__version__}", f"step {step:g} s", seconds, tip, exact)


def growth() -> None:
    """Forward dynamics of chains of flexible links: operations of code, and time per state of a batch of 4096."""
    for links, modes in ((1, 2), (2, 2), (4, 2), (8, 2), (16, 2), (40, 2), (150, 2), (4, 1), (4, 4), (4, 8)):
        beam = wt.flexible.beam(
            length=1.0, bending_stiffness=200.0, mass_per_length=0.5, modes=modes, rotary_inertia=1e-4
        )
        builder, before = wt.Builder("chain", (0, -9.81, 0)), "world"
        for k in range(links):
            builder.flexible_body(f"b{k}", beam).joint(f"j{k}", "revolute", before, f"b{k}")
            before = f"b{k}/tip"
        model = builder.build()
        q, v, tau = 0.01 * np.random.default_rng(0).normal(size=(3, 4096, model.nv))
        dyn = wt.compile(model, threads=1)
        seconds = best(lambda dyn=dyn, q=q, v=v, tau=tau: dyn.forward_dynamics(q, v, tau))
        micro = seconds / 4096 * 1e6
        print(f"{links:3d} links of {modes} modes: {micro:.3f} µs a state, {micro / links:.4f} a link")


def main() -> None:
    """Print everything."""
    solid = bar()
    ends = [np.flatnonzero(np.isclose(solid.points[:, 0], x)).tolist() for x in (0.0, 1.0)]
    ours(solid, ends)
    exudyn(solid, ends)
    growth()


if __name__ == "__main__":
    main()
