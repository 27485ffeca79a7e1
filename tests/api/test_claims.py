"""Every figure of README.md and the pages that can be checked, beside what checks it.

    python -m pytest tests/api/test_claims.py      check them
    python tests/api/test_claims.py                list them: page, words, what shows it

A claim names a page, words that must stand there (white space does not count), and a function that checks them at a
small size. So a sentence cannot change without its check, nor a figure without its sentence. Measured times are not
checked here, since a busy machine would fail them: ``MEASURED`` names the command that measures each, and holds the
pages to one and the same figure.

Claims inside blocks of Python are asserted where they stand (``test_docs_run.py``).
"""

import ast
import importlib
import inspect
import re
import tomllib
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.kinematics.contact_set import contact_set_of_steps
from whippletree.model import Activation, Actuator
from whippletree.model.constraint_syntax import COMMON, KINDS

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = []


def claim(page, *fragments):
    """Enter a check for words of a page."""

    def enter(check):
        CLAIMS.extend((page, fragment, check) for fragment in fragments)
        return check

    return enter


def text_of(page):
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def rows_of(page, first):
    """Rows of the table of a page whose header begins with these cells, as lists of cells."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| " + first))
    table = lines[start + 2 :]
    end = next((i for i, line in enumerate(table) if not line.startswith("|")), len(table))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[:end]]


# --- the project ------------------------------------------------------------------------------------------------------


@claim("README.md", "120 000 double pendulums", "[examples/](examples): short scripts")
@claim("docs/index.md", "120 000 double pendulums")
def pendulums_are_counted():
    """As many as the picture and the example have."""
    picture = (ROOT / "docs/overview.py").read_text(encoding="utf-8")
    columns, rows = map(int, re.search(r"def pendulums\(axes, columns=(\d+), rows=(\d+)", picture).groups())
    example = (ROOT / "examples/09_hundred_thousand_pendulums.py").read_text(encoding="utf-8")
    counts = [int(n) for n in re.findall(r"np\.linspace\(-np\.pi, np\.pi, (\d+)\)", example)]
    assert columns * rows == 120_000 == np.prod(counts)
    assert "120 000 at a time" in picture
    assert 'title="120 000 double pendulums"' in example


@claim("README.md", "On a machine with Python 3.11 or newer and `make`", "Licence: Apache-2.0")
def project_file_says_so():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


@claim(
    "README.md",
    "(extras in brackets: `plot`, `view`, `mjcf`, `contact`, `decompose`, `casadi`, `zarr`, `sweep`, `cluster`)",
)
def extras_are_those_that_the_library_asks_for():
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    asked = set(re.findall(r'MissingExtraError\([^)]*"(\w+)"\)', sources))
    assert asked == {"plot", "view", "mjcf", "contact", "decompose", "casadi", "zarr", "sweep", "cluster"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert asked <= set(project["optional-dependencies"])


@claim(
    "README.md",
    "`make help` lists the targets",
    "make demo # sets itself up",
    "make test # linters, types and tests",
)
@claim("docs/performance.md", "`make bench` prints the first tables", "`make bench-gpu` the last one")
@claim("docs/conditioning.md", "`make study` regenerates everything below")
@claim("docs/gpu.md", "`make test-gpu` compares every function of the catalogue on five robots")
def targets_of_make_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"help", "demo", "test", "lint", "bench", "bench-gpu", "study", "docs", "test-gpu"} <= targets


@claim("README.md", "A chapter imports only from those below it (`make lint` holds it to that)")
def layers_are_in_the_order_of_the_contract():
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("holds it to that):")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    groups = [re.findall(r"`(\w+)`", row) for row in rows]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    order = [set(layer.split(" | ")) for layer in contracts[0]["layers"]]
    named = [name for group in groups for name in group]
    assert set(named) == {name for layer in order for name in layer}
    height = {name: next(i for i, layer in enumerate(order) if name in layer) for name in named}
    for above, below in pairwise(groups):
        assert max(height[name] for name in above) < min(height[name] for name in below), (above, below)


@claim("docs/scenarios.md", "Exit codes, for scripts:", "| 130 | interrupted |")
def commands_of_the_page_exist():
    listed = {row[0].strip("`").split()[1] for row in rows_of("docs/scenarios.md", "command | does")}
    source = (ROOT / "src/whippletree/cli/__init__.py").read_text(encoding="utf-8")
    assert listed == {"demo", "run", "info", "view", "plot", "condition", "convert", "sweep", "bench", "cache"}
    assert all(re.search(rf"\b{name}\b", source, re.IGNORECASE) for name in listed)
    assert "130" in source


# --- compiled functions -----------------------------------------------------------------------------------------------


@claim("README.md", "Each function is a NumPy ufunc", "the same bits on one lane, eight lanes, any number of threads")
@claim("docs/compiler.md", "A state has the same bits alone or in any batch, on one thread or many")
def bits_do_not_depend_on_batch_or_threads():
    model = wt.mechanisms.chain(4)
    one, two = (wt.compile(model, threads=count) for count in (1, 2))
    q, v, tau = np.random.default_rng(0).normal(size=(3, 4099, 4))
    many = one.forward_dynamics(q, v, tau)
    assert isinstance(one.forward_dynamics.ufunc, np.ufunc)
    assert many.tobytes() == two.forward_dynamics(q, v, tau).tobytes()
    for k in (0, 7, 4098):
        assert one.forward_dynamics(q[k], v[k], tau[k]).tobytes() == many[k].tobytes()


@claim(
    "docs/compiler.md", "Sine and cosine are wrong by less than 1.5 units in the last place, for arguments of any size"
)
def sines_are_right():
    mp = pytest.importorskip("mpmath")
    model = wt.mechanisms.pendulum()
    random = np.random.default_rng(0)
    angles = np.concatenate([random.uniform(-10, 10, 150), random.normal(size=50) * 10.0 ** random.uniform(0, 300, 50)])
    pose = wt.compile(model).pose(model.bodies[0].name)(angles[:, None])
    with mp.workdps(400):
        for angle, X in zip(angles, pose, strict=True):
            for found, exact in ((X[0, 0], mp.cos(mp.mpf(angle))), (X[1, 0], mp.sin(mp.mpf(angle)))):
                assert abs(mp.mpf(found) - exact) < 1.5 * np.spacing(abs(float(exact)))


@claim(
    "docs/compiler.md", "`jvp` and `vjp` exist for every function of the catalogue", "roll-outs are no functions of the"
)
@claim("docs/sweeps.md", "| any function, one direction (forward) |")
def every_function_of_the_catalogue_has_derivatives():
    from whippletree.functions import CATALOGUE

    tree, loop, walker = wt.mechanisms.double_pendulum(), wt.mechanisms.four_bar(), wt.mechanisms.quadruped()
    motor = Actuator("motor", (tree.joints[0].name,), activation=Activation("filter", (0.1,)))
    driven = replace(tree, actuators=(motor,))
    for name, entry in CATALOGUE.items():
        model = walker if entry.contacts else tree if entry.constraints == "refuses" else loop
        model = driven if entry.actuators else model
        given = {"frame": model.bodies[0].name, "joints": (model.joints[0].name,), "task": model.bodies[0].name}
        names = [given[kind] for kind in entry.names]
        ref = wt.reference(model)
        for derivative in (ref.jvp, ref.vjp):
            inputs = derivative(name, *names).shapes
            assert set(entry.inputs) - {"t", "active"} <= set(inputs), name
            assert len(inputs) > len(entry.inputs) - 2, name
    with pytest.raises(wt.NameLookupError):
        wt.compile(loop).jvp("rollout")


@claim(
    "docs/compiler.md",
    "Up to 48 moving bodies code is unrolled.",
    "are unrolled up to 150 bodies and refused beyond",
    "up to 500 entries of the mass matrix",
)
@claim(
    "docs/compiler.md",
    "beyond 200 velocities",
    "Models of more than 48 bodies run as loops",
    "megabytes above 0, default 512",
)
@claim(
    "docs/constraints.md",
    "Beyond 200 velocities, and for chains from 53 joints on",
    "Derivatives take the same sweeps, at any length, and so do `dagger`",
)
@claim("docs/simulation.md", "for models of more than 150 moving bodies with the implicit midpoint rule or")
@claim(
    "docs/gpu.md",
    "trees of more than 48 bodies run as loops over bodies",
    "Code of more than 12 000 operations",
    "about 5000",
)
def sizes_of_compiled_code():
    from whippletree.compiler.cuda import split
    from whippletree.compiler.frontend import code_forms
    from whippletree.compiler.rollout import rollout
    from whippletree.constraints.long_systems.node_rows import LOOPED, factor_cost
    from whippletree.constraints.singular.exploration import LONG_SYSTEM
    from whippletree.files import cache

    assert (code_forms.UNROLL_UP_TO, code_forms.UNROLL_MATRICES_UP_TO, rollout.LOOPS_BEYOND, LONG_SYSTEM) == (
        48,
        150,
        48,
        200,
    )
    assert (split.LONGEST_PIECE, split.PART_SIZE) == (12_000, 5_000)
    assert "default 512" in cache.__doc__
    assert factor_cost(wt.mechanisms.chain(52)) <= LOOPED < factor_cost(wt.mechanisms.chain(53))
    with pytest.raises(wt.UnsupportedError, match=r"153 moving bodies, .* up to 150 bodies"):
        wt.compile(wt.mechanisms.four_bar_chain(51)).qr_projector(np.zeros(153))
    assert code_forms.matrix_entries(wt.mechanisms.chain(31)) + 4 == code_forms.UNROLL_ENTRIES_UP_TO
    run = wt.simulate(wt.mechanisms.chain(151), duration=0.002, output_dt=0.002, method="implicit_midpoint")
    assert run.attrs["path"].startswith("python: ")
    free = wt.simulate(
        wt.mechanisms.chain(151), duration=0.002, output_dt=0.002, method="rk4", controller=lambda t, q, v: -v
    )
    assert free.attrs["path"] == "compiled"


# --- theory -----------------------------------------------------------------------------------------------------------


@claim(
    "docs/theory/projectors.md",
    "Massless links and redundant rows are no exception.",
    "Floats give floats; Fractions and",
)
@claim("docs/theory/projectors.md", "Symbols and traces have no value yet, so no rank, and are refused.")
@claim("docs/constraints.md", "are beside it for given matrices, and among the functions of a model")
def projectors_keep_their_kind():
    from whippletree.constraints import projectors

    M, A = np.diag([1, 0]), [[2, -1], [4, -2]]
    assert projectors.schur_projector(M, A).dtype == np.float64
    exact = projectors.schur_projector(np.array([[Fraction(1), Fraction(0)], [Fraction(0), Fraction(0)]]), A)
    assert {type(x) for x in exact.flat} == {Fraction}
    with pytest.raises(wt.ScalarError, match="no value yet"):
        projectors.qr_projector([[pytest.importorskip("sympy").Symbol("x"), 1]])


@claim("docs/theory/block-matrix.md", "A† and Λ† have the independent rows only, in order.")
@claim("docs/constraints.md", "A planar loop closed by a spatial hinge has three rows too many.")
def redundant_rows_are_left_out():
    rod = ((0.4, 0, 0), (0, 0.1, 0.1))
    model = (
        wt.Builder("hinged", (0, -9.81, 0))
        .body("crank", 1.0, *rod).joint("a", "revolute", "world", "crank")
        .body("coupler", 1.0, *rod).joint("b", "revolute", "crank", "coupler", position=(0.8, 0, 0), start=0.3)
        .body("rocker", 1.0, *rod).joint("c", "revolute", "world", "rocker", position=(2.0, 0, 0), start=1.5)
        .frame("end", "coupler", position=(2.2, 0, 0)).frame("top", "rocker", position=(1.7, 0, 0))
        .constraint("pin", "hinge", "end", "top").build()
    )  # fmt: skip
    structure = wt.constraint_set(model).structure
    assert len(structure.redundant) == 3
    _, A_dagger, Lambda_dagger = wt.reference(model).dagger(wt.assemble(model))
    assert A_dagger.shape == (2, 3)
    assert Lambda_dagger.shape == (2, 2)


@claim(
    "docs/constraints.md",
    "(angles below 1e-4 rad)",
    "more than 16 times what `augmented` loses",
    "Where that exceeds 1000,",
)
def constants_of_constraints():
    from whippletree.constraints.light_loops import LIGHT
    from whippletree.constraints.long_systems.node_rows import SWEPT
    from whippletree.constraints.redundancy import FAINT

    assert (FAINT, LIGHT, SWEPT) == (1e-4, 16, 1000)


@claim("docs/constraints.md", "| `augmented` | massless or very light links | all digits for any mass, also 0 |")
@claim("docs/constraints.md", "Largest relative error of the accelerations of a four-bar whose rocker has the mass m")
def routes_keep_their_digits():
    """At one state of two rows of the table: schur loses what augmented and block keep."""
    mp = pytest.importorskip("mpmath")
    from whippletree.constraints import dynamics
    from whippletree.tree.mechanism import Mechanism

    def solved(model, route, number):
        m = Mechanism.of(model)
        m.route = route
        q, v, tau = ([number(float(x)) for x in vector] for vector in (model.home.q, np.zeros(3), [0.3, -0.2, 0.1]))
        return dynamics.solve(m, *(np.array(x, dtype=object) for x in (q, v, tau)), 0, None)[0]

    errors = {}
    for mass in (1.0, 1e-8):
        model = wt.mechanisms.four_bar(lengths=(2.0, 0.8, 2.2, 1.7), masses=(1.0, 1.0, mass))
        with mp.workdps(50):
            exact = solved(model, "augmented", mp.mpf)
        for route in ("schur", "augmented", "nullspace", "block"):
            found = solved(model, route, float)
            errors[mass, route] = float(
                max(abs(a - b) for a, b in zip(found, exact, strict=True)) / max(map(abs, exact))
            )
    assert all(errors[1.0, route] < 1e-14 for route in ("schur", "augmented", "nullspace", "block"))
    assert all(errors[1e-8, route] < 1e-14 for route in ("augmented", "nullspace", "block"))
    assert 1e-12 < errors[1e-8, "schur"] < 1e-7


@claim("docs/constraints.md", "| position residual | 1.3e-15 m |", "| velocity residual | 3.0e-15 m/s |")
@claim("README.md", "loop open by 1.3e-15 m")
def loops_do_not_drift():
    """The first 2000 of the 100 000 steps; ``python benchmarks/drift.py`` runs them all."""
    drift = importlib.import_module("benchmarks.drift")
    model = wt.mechanisms.four_bar(drift.LENGTHS, angle=1.0)
    run = wt.simulate(model, duration=2.0, output_dt=drift.STEP, method="rk4", step=drift.STEP)
    assert np.abs(run.constraint_residual).max() < 2e-15
    assert np.abs(run.constraint_velocity).max() < 1e-14


@claim("docs/conditioning.md", "Straight chains of 50 to 1000 rods, where κ₂ grows like 4n⁴ and δ = n³ exactly.")
def chains_have_the_conditioning_of_the_table():
    rows = rows_of("docs/conditioning.md", "rods | κ₂ | κ₂ equilibrated | δ |")
    assert [int(row[0]) for row in rows] == [4, 10, 20, 50, 100, 200, 500, 1000]
    for row in rows[:5]:
        n = int(row[0])
        report = wt.conditioning(wt.mechanisms.chain(n), np.zeros(n))
        found = [report.kappa, report.kappa_equilibrated, report.diagonal_ratio, report.pivot_ratio_base_first]
        np.testing.assert_allclose(found, [float(cell) for cell in row[1:5]], rtol=2e-3)


@claim("docs/conditioning.md", "when δ_s passes 10¹²")
def a_run_warns_of_noise():
    from whippletree.simulation.conditioning_watch import SUSPICIOUS

    assert SUSPICIOUS == 1e12


# --- simulation and contact -------------------------------------------------------------------------------------------


@claim("docs/simulation.md", "Its equations are solved by fixed-point iteration: twelve rounds in the kernel.")
@claim(
    "docs/simulation.md", "moves the coordinates by more than 1e-12 is taken again in Python, with up to fifty rounds"
)
@claim("docs/simulation.md", "positions by three corrections of least energy")
def rounds_of_fixed_steps():
    from whippletree.compiler.rollout.rollout import Plan
    from whippletree.compiler.rollout.rollout_steps import CONVERGED_STEP, STEP_CORRECTIONS
    from whippletree.simulation.fixed_step.fixed_step_method import MIDPOINT_ITERATIONS

    assert (Plan.iterations, MIDPOINT_ITERATIONS, STEP_CORRECTIONS, CONVERGED_STEP) == (12, 50, 3, 1e-12)


@claim("docs/controllers.md", "of a model of one or two bodies; of")
@claim("docs/simulation.md", "The code of a model of one or two bodies contains its equations of motion")
def bodies_whose_steps_contain_their_equations():
    from whippletree.simulation.adaptive.compiled_steps import BODIES_IN_STEPS

    assert BODIES_IN_STEPS == 2


@claim("docs/simulation.md", "Each step is a Gauss collocation with eight points, of order 16")
@claim("docs/simulation.md", "steps are Radau's, of order 15")
@claim("docs/contact_events.md", "steps are Radau's, of order 15")
def orders_of_collocation():
    """A rule of s points integrates polynomials up to degree 2s − 1 (Gauss) and 2s − 2 (Radau), and no further."""
    from whippletree.simulation.adaptive.collocation import gauss_rule, radau_rule

    for rule, order in ((gauss_rule(), 16), (radau_rule(), 15)):
        nodes = rule.nodes
        assert len(nodes) == 8
        weights = np.linalg.solve(np.vander(nodes, increasing=True).T, 1 / np.arange(1, 9))
        errors = [abs(weights @ nodes**k - 1 / (k + 1)) for k in range(order + 1)]
        assert max(errors[:order]) < 1e-13 < 1e-12 < errors[order]


@claim(
    "docs/simulation.md",
    "| `rtol`, `atol` | 1e-8, 1e-10 |",
    "| `max_steps` | 10⁶ |",
    "| `output_dt` | duration / 200 |",
)
@claim("docs/simulation.md", "| `step` | up to 1 ms |", "| `checkpoint`, `checkpoint_every` | none, 10 s |")
@claim("docs/simulation.md", "Its time is located on the step's polynomial to 1e-12 s.")
def defaults_of_simulate():
    from whippletree.simulation.adaptive.adaptive_method import MOST_ADAPTIVE_STEPS
    from whippletree.simulation.adaptive.integrator import Integrator

    defaults = {name: p.default for name, p in inspect.signature(wt.simulate).parameters.items()}
    assert (defaults["rtol"], defaults["atol"], defaults["checkpoint_every"]) == (1e-8, 1e-10, 10)
    assert MOST_ADAPTIVE_STEPS == 10**6
    assert inspect.signature(Integrator).parameters["event_tolerance"].default == 1e-12
    run = wt.simulate(wt.mechanisms.pendulum(), duration=1.0, method="rk4")
    assert (len(run.time), run.attrs["step"]) == (201, 1e-3)


@claim("docs/contact.md", "| `penetration` | events | 1e-9 m |", "| `speed_tolerance` | events | 1e-9 m/s |")
@claim("docs/contact.md", "| `zeno_interval` | events | 1e-6 s |", "| `most_events` | events | 10 000 |")
@claim("docs/contact.md", "| `step` | time stepping | 1 ms |", "| `tolerance` | time stepping | 1e-7 m/s |")
@claim("docs/contact.md", "| `sweeps` | time stepping | 20 |", "`events` up to 16 contacts")
@claim("docs/performance/robots.md", "| solo12, 10 sweeps, the default |")
def defaults_of_methods_for_contact():
    from whippletree.compiler.compiled import Compiled
    from whippletree.simulation.events.event_method import Events
    from whippletree.simulation.method import EVENTS_UP_TO
    from whippletree.simulation.time_stepping.stepping_method import TimeStepping

    events, steps = (
        {name: p.default for name, p in inspect.signature(method).parameters.items()}
        for method in (Events, TimeStepping)
    )
    asked = [events[name] for name in ("penetration", "speed_tolerance", "zeno_interval", "most_events")]
    assert asked == [1e-9, 1e-9, 1e-6, 10_000]
    assert [steps[name] for name in ("step", "tolerance", "sweeps")] == [1e-3, 1e-7, 20]
    assert inspect.signature(Compiled.contact_rollout).parameters["sweeps"].default == 10
    assert EVENTS_UP_TO == 16


@claim("docs/contact.md", "after 100 rounds the rest is plastic", "after 60 strokes the rest is plastic")
@claim("docs/contact_events.md", "After fifty events at one instant the run stops")
@claim(
    "docs/contact_steps.md",
    "so beyond 100 contacts G = J M† Jᵀ is kept as its sparse",
    "code of its own, up to 16 000",
)
@claim(
    "docs/contact.md",
    "takes six Newton steps from the point below",
    "below a tilt of 1e-8 rad a cylinder counts as standing",
)
@claim("docs/contact.md", "within 26° of −y jump there", "(their normals within 0.01 rad)")
@claim("docs/contact.md", "its corners up to 16; of more, the lowest corner of each octant")
def constants_of_contact():
    from whippletree.compiler.rollout.contact_rollout import COUPLINGS_UP_TO
    from whippletree.contact.geometry import closed_forms, coal_pairs, shapes, terrain
    from whippletree.contact.impact import laws
    from whippletree.contact.problem import delassus
    from whippletree.simulation.events.zeno import EVENTS_AT_ONCE

    assert (laws.Newton().rounds, laws.Sequential().strokes, EVENTS_AT_ONCE) == (100, 60, 50)
    assert (delassus.DENSE_UP_TO, COUPLINGS_UP_TO, terrain.FOOT_STEPS, terrain.EDGE_ON) == (100, 16_000, 6, 1e-8)
    assert (coal_pairs.FACING, shapes.SEPARATE_CORNERS) == (0.01, 16)
    assert round(np.degrees(np.arccos(-closed_forms.BACK))) == 26


@claim("README.md", "contacts stick, slide, bounce and lift off, by events located to rounding or in steps")
def events_are_located_to_rounding():
    ball = wt.mechanisms.bouncing_ball(height=1.0, restitution=0.5)
    times = wt.simulate(ball, duration=1.3, method="events").attrs["event_times"]
    first = np.sqrt(2 / 9.81)
    np.testing.assert_allclose(times[:4], first * np.array([1, 2, 2.5, 2.75]), rtol=0, atol=1e-14)


@claim("docs/viewing.md", "simplified to 1500 triangles each, runs to 300 moments", "The names: `overview`, `joints`,")
def figures_and_replays():
    from whippletree.view.plots import PLOTS
    from whippletree.view.replay import TRIANGLES
    from whippletree.view.scene import FRAMES

    assert (TRIANGLES, FRAMES) == (1500, 300)
    listed = re.search(r"The names: (.*?)\. The colours", text_of("docs/viewing.md"))[1]
    assert re.findall(r"`(\w+)`", listed) == ["overview", *PLOTS]


@claim(
    "docs/performance.md", "Counted operations of forward dynamics: UR5 656", "Panda 1248", "Kinova 1293", "solo12 2373"
)
@claim("docs/performance.md", "G1 7086", "Talos 6750")
@claim("docs/performance/gpu.md", "Derivatives of the G1's forward dynamics are 47 300 operations.")
@claim(
    "docs/constraints.md",
    "platform on massless legs takes 6.7 k operations",
    "(G1 with two 6-D contacts 11.5 k instead",
)
@claim("docs/constraints.md", "11.5 k instead of 13.2 k", "Cassie with 16 closures takes 13.5 k by `schur` and 15.7 k")
@claim(
    "docs/constraints.md", "Cassie on a free base takes 12.2 k operations instead of 25.8 k by `schur`", "takes 8.2 k"
)
@claim("docs/performance/loops.md", "| Cassie, 16 closures, free base | 2.0 k, 12.2 k, 8.2 k |")
@claim("docs/conditioning.md", "Operations are exact, times those of a shared machine")
def operations_are_counted():
    from benchmarks.contacts import standing
    from benchmarks.robots import ROBOTS, data_folder, model_of

    from whippletree.compiler.frontend.unrolled import unrolled_program
    from whippletree.functions import find

    def operations(model, name="forward_dynamics", route=None):
        entry = find(name, model)

        def implementation(m, *inputs):
            m.route = route
            return entry.implementation(m, *inputs)

        return unrolled_program(model, replace(entry, implementation=implementation)).body[0].code.operations

    robots = {robot.name: robot for robot in ROBOTS}
    models = {name: model_of(robot) for name, robot in robots.items()}
    counted = {name: operations(model) for name, model in models.items()}
    assert counted == {"UR5": 656, "Panda": 1248, "Kinova": 1293, "solo12": 2373, "G1": 7086, "Talos": 6750}
    assert round(operations(models["G1"], "forward_dynamics_derivatives"), -2) == 47_300
    assert round(operations(wt.mechanisms.stewart_platform(leg_mass=0.0)), -2) == 6700
    on_two_feet = standing(robots["G1"])
    assert [round(operations(on_two_feet, route=route), -2) for route in (None, "schur")] == [11_500, 13_200]
    cassie = wt.load(data_folder() / "cassie_description/robots/cassie.sdf")
    assert len(cassie.constraints) == 16
    assert [round(operations(cassie, route=route), -2) for route in ("schur", "augmented")] == [13_500, 15_700]
    free = wt.load(data_folder() / "cassie_description/robots/cassie.sdf", base="free")
    assert [round(operations(free, route=route), -2) for route in (None, "schur")] == [12_200, 25_800]
    assert round(operations(free.tree), -2) == 8_200
    for name, more, _ in rows_of("docs/conditioning.md", "model | operations |"):
        model = models.get(name) or wt.mechanisms.chain(20)
        share = operations(model, "forward_dynamics_with_diagonal_ratio") / operations(model) - 1
        assert f"{share:+.0%}".replace("%", " %") == more, name


@claim(
    "docs/compiler.md",
    "complex and exact numbers are an error that points to `wt.reference`",
    "A NaN *input* is not a failure",
)
@claim(
    "docs/compiler.md",
    "`bodies.NAME.mass`, `.center` (3), `.inertia` (6);",
    "`.pitch`, `.position` (3); `gravity` (3).",
)
def inputs_of_compiled_functions():
    model = wt.mechanisms.double_pendulum()
    dyn = wt.compile(model)
    for odd in (np.array([1j, 0]), np.array([Fraction(1, 2), Fraction(0)])):
        with pytest.raises((wt.ScalarError, TypeError), match=r"wt\.reference"):
            dyn.mass_matrix(odd)
    assert np.isnan(dyn.forward_dynamics([np.nan, 0], [0, 0], [0, 0])).all()
    assert not np.any(dyn.forward_dynamics.status)
    body, joint = model.bodies[0].name, model.joints[0].name
    sizes = {f"bodies.{body}.mass": (), f"bodies.{body}.center": (3,), f"bodies.{body}.inertia": (6,), "gravity": (3,)}
    sizes |= {f"joints.{joint}.{word}": () for word in ("stiffness", "damping", "rest", "rotor_inertia", "gear_ratio")}
    sizes |= {f"joints.{joint}.position": (3,)}
    assert wt.reference(model, parameters=list(sizes)).parameters == sizes
    screw = (
        wt.Builder("screw").body("nut", 1.0, inertia=(1, 1, 1)).joint("thread", "helical", "world", "nut", pitch=0.1)
    )
    assert wt.reference(screw.build(), parameters=["joints.thread.pitch"]).parameters == {"joints.thread.pitch": ()}


@claim(
    "docs/models.md",
    "| `universal` | 2 angles (rad) |",
    "| `planar` | x, y, angle (m, m, rad) |",
    "| `spherical` | quaternion (4) |",
)
@claim(
    "docs/models.md",
    "| `free` | position (3, m), quaternion (4) |",
    "A joint that stores a quaternion has no spring, and is refused one.",
)
def joints_have_the_sizes_of_the_table():
    def alone(kind, **options):
        one = wt.Builder("one").body("b", 1.0, inertia=(1, 1, 1)).joint("j", kind, "world", "b", **options)
        return one.build()

    sizes = {"revolute": (1, 1), "prismatic": (1, 1), "helical": (1, 1), "cylindrical": (2, 2), "universal": (2, 2)}
    sizes |= {"planar": (3, 3), "spherical": (4, 3), "free": (7, 6), "weld": (0, 0)}
    assert [row[0].strip("`") for row in rows_of("docs/models.md", "kind | q | v |")] == list(sizes)
    extras = {"helical": {"pitch": 0.1}}
    found = {kind: alone(kind, **extras.get(kind, {})) for kind in sizes}
    assert {kind: (model.nq, model.nv) for kind, model in found.items()} == sizes
    for kind in ("spherical", "free"):
        with pytest.raises(
            wt.ModelError, match=rf"joint 'j': stiffness 1.0 on a {kind} joint, which stores a quaternion"
        ):
            alone(kind, stiffness=1.0)


@claim("docs/simulation.md", "NumPy's `sin`, `cos`, `tan`, `sqrt`, `abs`, `arctan`, `arctan2` and `@` on its arguments")
@claim(
    "docs/simulation.md", "Code that branches on values (`if`, `np.clip`, `np.where`), converts to float (`math.sin`)"
)
def what_can_be_traced():
    import math

    model = wt.mechanisms.pendulum()

    def path(force):
        options = {"duration": 0.002, "output_dt": 0.002, "method": "rk4"}
        return wt.simulate(model, controller=lambda t, q, v: [force(t, q, v)], **options).attrs["path"]

    for name in ("sin", "cos", "tan", "abs", "arctan"):
        assert path(lambda t, q, v, name=name: getattr(np, name)(q[0])) == "compiled", name
    assert (
        path(lambda t, q, v: np.sqrt(2 + q[0] * q[0]) + np.arctan2(v[0], 3 + q[0]) + np.array([2.0]) @ q) == "compiled"
    )
    assert path(lambda t, q, v: 1.0 if q[0] > 0 else -1.0).startswith("python: ")
    assert path(lambda t, q, v: np.clip(q[0], -1, 1)).startswith("python: ")
    assert path(lambda t, q, v: np.where(q[0] > 0, 1.0, 2.0)).startswith("python: ")
    assert path(lambda t, q, v: math.sin(q[0])).startswith("python: ")


SOLIDS = {
    "sphere": {"radius": 0.1}, "point": {}, "capsule": {"radius": 0.1, "length": 0.3}, "box": {"size": (0.2, 0.3, 0.4)},
    "cylinder": {"radius": 0.1, "length": 0.3}, "ellipsoid": {"radii": (0.1, 0.2, 0.3)},
    "mesh": {"vertices": ((0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1))},
    "half_space": {}, "terrain": {"height": lambda x, y: x * y / 10}, "cavity": {"radius": 2.0},
}  # fmt: skip


def touching(first, second):
    """A free body of the first shape over a second one of the world."""
    builder = (
        wt.Builder("pair")
        .body("b", 1.0, inertia=(1, 1, 1))
        .joint("free", "free", "world", "b", start=(0, 0, 1, 1, 0, 0, 0))
    )
    builder.geometry("upper", "b", first, **SOLIDS[first]).geometry("lower", "world", second, **SOLIDS[second])
    return builder.contact("touch", "upper", "lower").build()


@claim("docs/contact.md", "| point, sphere, ellipsoid on half-space | 1 |", "| capsule on half-space | 2, its ends |")
@claim("docs/contact.md", "| cylinder on half-space | 8: the lowest point of each rim", "| capsule with capsule | 1 |")
@claim("docs/contact.md", "| sphere or point with sphere, capsule, box, cylinder | 1 |")
def candidates_are_as_many_as_the_table_says():
    counts = {("point", "half_space"): 1, ("sphere", "half_space"): 1, ("ellipsoid", "half_space"): 1}
    counts |= {("capsule", "half_space"): 2, ("box", "half_space"): 8, ("mesh", "half_space"): 4}
    counts |= {
        ("cylinder", "half_space"): 8,
        ("capsule", "capsule"): 1,
        ("capsule", "terrain"): 3,
        ("box", "cavity"): 8,
    }
    counts |= {(one, two): 1 for one in ("sphere", "point") for two in ("sphere", "capsule", "box", "cylinder")}
    for pair, count in counts.items():
        assert len(wt.contact_set(touching(*pair)).candidates) == count, pair


@claim(
    "docs/contact.md",
    "| | half-space | terrain, height field | sphere, point | capsule | box | cylinder | ellipsoid | mesh |",
)
def closed_forms_are_those_of_the_table():
    rows = rows_of("docs/contact.md", "| half-space | terrain, height field |")
    columns = ("half_space", "terrain", "sphere", "capsule", "box", "cylinder", "ellipsoid", "mesh")
    for first, *cells in rows:
        for second, cell in zip(columns, cells, strict=True):
            model = touching(first.split(",")[0], second)
            (pair,) = contact_set_of_steps(model).pairs
            found = "closed" if wt.contact_set(model).closed_form else "solids" if pair.solids else "steps"
            assert pair.touching is not None
            assert found == cell, (first, second)


@claim("docs/contact.md", "a point that passes a ball's centre at the distance ρ with the speed u has a bias of u²/ρ")
def curvature_is_in_the_bias():
    model = touching("point", "sphere")
    q, v = np.array([0, 0, 0.7, 1, 0, 0, 0]), np.array([0, 0, 0, 0.3, 0.4, 0])
    assert np.isclose(wt.compile(model).contact_bias(q, v)[0], 0.5**2 / 0.7)


@claim("docs/viewing.md", "it has a few hundred kilobytes")
def replays_are_small():
    import tempfile

    model = wt.mechanisms.crank_slider()
    run = wt.simulate(model, duration=2.0, output_dt=0.01)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        wt.export_html(model, run, path)
        text = path.read_text(encoding="utf-8")
    assert 50_000 < len(text) < 1_000_000
    assert not re.search(r"(src|href)=[\"']https?:", text)


@claim("docs/conditioning.md", "A state with NaN gives NaN. A model without freedoms, or with one, has κ = 1.")
def special_cases_of_conditioning():
    assert wt.conditioning(wt.mechanisms.pendulum(), [0.3]).kappa == 1
    assert np.isnan(wt.conditioning(wt.mechanisms.chain(2), [np.nan, np.nan]).kappa)


@claim("docs/notation.md", "(0, 0, −9.81) m/s² for robots from files, (0, −9.81, 0) for the ready-made planar")
def gravity_of_models():
    assert list(wt.Builder("empty").body("b", 1.0).joint("j", "prismatic", "world", "b").build().gravity) == [
        0,
        0,
        -9.81,
    ]
    for name in ("pendulum", "double_pendulum", "four_bar", "crank_slider", "cart_pole"):
        assert list(getattr(wt.mechanisms, name)().gravity) == [0, -9.81, 0], name


# --- measured: the command that measures, and one figure on every page ------------------------------------------------

MEASURED = [
    ("README.md", "0.031 / 0.31 µs", "make bench",
     ["| UR5, 6 DoF | 0.031 | 1.66 | 54× |", "| G1, free base, 35 DoF | 0.307 |"]),
    ("README.md", "54× / 28×", "make bench", ["| 0.031 | 1.66 | 54× |", "| 0.307 | 8.73 | 28× |"]),
    ("README.md", "0.48 / 1.8 µs", "make bench", ["| UR5 | 0.48 | 2.29 | 4.8× |", "| G1 | 1.75 | 9.87 | 5.6× |"]),
    ("README.md", "0.49 µs | `pin.constraintDynamics` | 30×", "make bench", ["0.493, two 6-D feet | 30×"]),
    ("README.md", "residual 2e-16 m/s | 0.83 µs", "python -m benchmarks stepping",
     ["| 2e-16, 2e-16 | 0.83 | 9.9 | 11.9× |"]),
    ("README.md", "0.043 µs | `mujoco.rollout` | 49×", "make bench", ["| 0.043 | 2.09 (`mujoco.rollout`) | 49× |"]),
    ("README.md", "the same final states to 3e-14", "make bench", ["largest difference 3.1e-14"]),
    ("README.md", "12 thousand million a second | MJX, same card | 337×", "make bench-gpu",
     ["12.46 / 13.14", "| 337× |"]),
    ("docs/peers.md", "49 times `mujoco.rollout` on a UR5", "make bench", ["(`mujoco.rollout`) | 49× |"]),
    ("docs/gpu.md", "| forward dynamics | 23.3 | 12.5 | 1.52 | 1.82 | 0.45 |", "make bench-gpu",
     ["23.34 /", "12.46 /", "1.52 /", "1.82 /", "0.45 /"]),
    ("docs/gpu.md", "| inverse dynamics | 32.6 | 17.4 | 4.32 | 3.99 | |", "make bench-gpu",
     ["32.59 /", "17.36 /", "4.32 /", "3.99 /"]),
]  # fmt: skip


@claim("docs/peers.md", "batches (23 to 54 times its own batch loops", "single calls from Python (2.5 to 6.3 times)")
def ratios_are_those_of_the_tables():
    """Least and largest ratio of the two tables beside Pinocchio."""
    for first, least, most in (
        ("robot | forward dynamics | Pinocchio", 23, 54),
        ("robot | forward dynamics | `pin.aba`", 2.5, 6.3),
    ):
        rows = rows_of("docs/performance.md", first)
        ratios = [float(cell.rstrip("×")) for row in rows for cell in row if cell.endswith("×")]
        assert (min(ratios), max(ratios)) == (least, most)


@claim("docs/performance/robots.md", "that is 1.2 million steps of a quadruped per second and core.")
def rates_follow_from_times():
    row = next(row for row in rows_of("docs/performance/robots.md", "| residual in") if row[0].startswith("solo12, 10"))
    assert round(1 / float(row[2]), 1) == 1.2


# --- the tests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("page", "fragment"), [(page, fragment) for page, fragment, _ in CLAIMS], ids=lambda x: x[:60])
def test_words_stand_in_the_page(page, fragment):
    assert " ".join(fragment.split()) in text_of(page)


@pytest.mark.slow
@pytest.mark.parametrize("check", dict.fromkeys(check for _, _, check in CLAIMS), ids=lambda check: check.__name__)
def test_figures_hold(check):
    check()


PERFORMANCE = sorted((ROOT / "docs" / "performance").glob("*.md"))


@pytest.mark.parametrize(("page", "fragment", "command", "there"), MEASURED, ids=lambda x: str(x)[:40])
def test_measured_figures_are_those_of_the_page_on_performance(page, fragment, command, there):
    assert fragment in text_of(page)
    pages = [text_of("docs/performance.md"), *[text_of(f"docs/performance/{page.name}") for page in PERFORMANCE]]
    assert all(any(figure in text for text in pages) for figure in there)
    words = command.split()
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    else:
        assert (ROOT / words[2]).is_dir()


def test_every_measured_row_of_the_readme_is_listed():
    """A new row of the table of figures needs an entry in one of the lists above."""
    known = [fragment for page, fragment, *_ in [*CLAIMS, *MEASURED] if page == "README.md"]
    for row in rows_of("README.md", "float64 on one core"):
        line = "| " + " | ".join(row) + " |"
        assert any(fragment in " ".join(line.split()) for fragment in known), line


@claim("docs/one_hop.md", "These twelve modules are the main line.")
def main_line_of_a_hop():
    """The modules that the first table names, each once; all of them exist."""
    table = (ROOT / "docs" / "one_hop.md").read_text(encoding="utf-8").split("These twelve")[0]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("| ") and "`" in line.split("|")[2]]
    names = {name for row in rows[1:] for name in re.findall(r"`([\w.]+)`", row)}
    places = {"adaptive.integrator": "simulation"}
    for name in names:
        home = "" if name.startswith("contact.") else f"{places.get(name, 'simulation.events')}."
        importlib.import_module(f"whippletree.{home}{name}")
    assert len(names) == 12


@claim("docs/constraints.md", "Every kind also takes `compliance`, `switchable`, `active` and `without`")
def kinds_of_constraints():
    """Two tables of kinds with all their parameters: those that the library reads, no other and none missing."""
    text = (ROOT / "docs" / "constraints.md").read_text(encoding="utf-8").split("Every kind also takes")[0]
    rows = [line.split("|")[1:5] for line in text.splitlines() if line.startswith("| `")]
    told = {kind.strip(" `"): set(re.findall(r"`(\w+)`", words)) for kind, _, words, _ in rows}
    hidden = {"massless"}  # written by massless="hold", not by hand
    known = {kind: {*words.parameters, *([words.function] if words.function else [])} for kind, words in KINDS.items()}
    assert told == {kind: words - hidden for kind, words in known.items()}
    assert COMMON == ("compliance", "switchable", "active", "without")


def test_every_check_is_entered():
    """A function of this file that nobody calls would check nothing."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    entered = {check.__name__ for _, _, check in CLAIMS}
    claimed = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list}
    assert entered == {name for name in claimed if not name.startswith("test_")}


if __name__ == "__main__":
    for page, fragment, check in CLAIMS:
        print(f"{page}: {fragment}\n    {check.__name__}: {(check.__doc__ or '').strip()}".rstrip(": "))
    for page, fragment, command, _ in MEASURED:
        print(f"{page}: {fragment}\n    {command}")
