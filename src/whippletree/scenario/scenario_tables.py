"""The scenario format, version 1: what each table of the TOML file may hold.

    whippletree_scenario = 1

    [model]
    file = "gripper.urdf"                  # URDF, SDF, MJCF or native; beside the scenario unless the path is absolute
    loops = "gripper.loops.toml"           # what a URDF cannot say
    root = ".."                            # where meshes and included files may be; contacts, limits, actuators: false
    # or: mechanism = "crank_slider" and parameters = { rod_mass = 0.0 }

    [[constraints]]                        # further ones, as in a native model file; [[contacts]] likewise
    name = "lock"
    kind = "coordinate"
    on = ["wrist"]

    [ground]                               # flat ground under named frames or geometries
    frames = ["foot"]
    friction = 0.8

    [start]
    q = [0.1, 0.2, 0.3]                    # all of them, or joints by name; loops are closed near here
    joints = { crank = 0.4 }
    velocities = { crank = 2.0 }
    activations = { grip = 0.1 }           # of actuators that have one

    [[controllers]]                        # their forces add up
    kind = "gravity_compensation"

    [ctrl]                                 # commands of the model's actuators
    actuators = { grip = 0.3 }             # by name, 0 for the others; or values = [...], key_frame = "...", or a file

    [solver]
    duration = 2.0                         # s
    method = "auto"
    rtol = 1e-8

    [outputs]
    run = "gripper.nc"
    points = ["tool"]
    variables = ["a", "kinetic_energy"]    # beside q and v; everything if it is not said
    replay = "gripper.html"
    plots = ["energies", "joints"]
    reactions = true                       # what joints and closures carry

Only ``[model]`` and ``[solver]`` have to be there. A key that is not known is an error that names the nearest one.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

SCENARIO_VERSION = 1


class ModelChoice(Struct, forbid_unknown_fields=True):
    """``[model]``: a file with the arguments of ``wt.load``, or a ready-made mechanism with its parameters."""

    file: str = ""
    base: str = "fixed"
    loops: str = ""
    root: str = ""
    contacts: bool | None = None
    limits: bool = True
    actuators: bool = True
    mechanism: str = ""
    parameters: dict[str, Any] = {}


class Ground(Struct, forbid_unknown_fields=True):
    """``[ground]``: the arguments of ``wt.on_ground``."""

    friction: float = 0.8
    restitution: float = 0.0
    torsional: float = 0.0
    rolling: float = 0.0
    geometries: list[str] | None = None
    frames: list[str] | None = None
    radius: float = 0.0
    height: float = 0.0
    normal: list[float] | None = None


class StartChoice(Struct, forbid_unknown_fields=True):
    """``[start]``: all coordinates and velocities, or some by the name of their joint; the others stay at home.
    Activations are given by actuator."""

    q: list[float] | None = None
    v: list[float] | None = None
    joints: dict[str, float | list[float]] = {}
    velocities: dict[str, float | list[float]] = {}
    activations: dict[str, float] = {}
    """By name of actuator."""


class Controller(Struct, forbid_unknown_fields=True):
    """``[[controllers]]``: a function of :mod:`whippletree.controllers` by its name, or one of a Python file."""

    kind: str
    file: str = ""
    function: str = ""
    parameters: dict[str, Any] = {}


class Commands(Struct, forbid_unknown_fields=True):
    """``[ctrl]``: commands of the actuators, in one of four ways.

    By name of actuator; all of them, or a table whose rows hold for equal parts of the duration; those of a key frame;
    or a function of (t, q, v) of a Python file.
    """

    actuators: dict[str, float] = {}
    values: list[float | list[float]] = []
    key_frame: str = ""
    file: str = ""
    function: str = ""
    parameters: dict[str, Any] = {}


class Solver(Struct, forbid_unknown_fields=True):
    """``[solver]``: the arguments of ``wt.simulate``; ``options`` are the method's own."""

    duration: float
    method: str = "auto"
    rtol: float = 1e-8
    atol: float = 1e-10
    output_dt: float | None = None
    massless: str = "refuse"
    project: bool = False
    effort_limits: bool = False
    options: dict[str, Any] = {}


class Outputs(Struct, forbid_unknown_fields=True):
    """``[outputs]``: files to write, beside the scenario, and points to follow."""

    run: str = ""
    points: list[str] = []
    variables: list[str] | None = None
    replay: str = ""
    plots: list[str] = []
    checkpoint: str = ""
    reactions: bool = False


class ScenarioFile(Struct, forbid_unknown_fields=True):
    """The whole file."""

    model: dict[str, Any]
    solver: dict[str, Any]
    whippletree_scenario: int = SCENARIO_VERSION
    ground: dict[str, Any] = {}
    start: dict[str, Any] = {}
    ctrl: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    frames: list[dict[str, Any]] = []
    constraints: list[dict[str, Any]] = []
    contacts: list[dict[str, Any]] = []
    controllers: list[dict[str, Any]] = []
