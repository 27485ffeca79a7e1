"""Every error this library raises on purpose, and the status codes of compiled functions.

::

    WhippletreeError
    ├── GraphError            a graph is not what an operation needs (a cycle, two parents, an unknown node)
    ├── ModelError            a model description is wrong; lists every fault at once
    │   └── FileError         ... and it came from a file; each fault carries its line
    ├── NameLookupError       a joint, body, frame or function that the model does not have
    ├── ShapeError            an array whose shape does not fit the model
    ├── ScalarError           a scalar type that cannot do what an algorithm needs
    ├── SingularSystemError   the equations of motion do not determine an acceleration
    ├── AssemblyError         loops that cannot close, or a state that violates the constraints
    ├── IntegrationError      a motion cannot be followed any further; says when
    │   └── StepError         ... since no step, however short, meets the tolerances
    ├── EquilibriumError      no configuration was found in which all forces balance
    ├── UnsupportedError      valid, but not something this function can do; nothing is ever ignored
    ├── MissingExtraError     an optional dependency is needed; says what to install
    └── DeviceError           a GPU is missing, or arrays are not where it can reach them
        └── DeviceMemoryError ... or it has not enough memory

    ConditioningWarning       a result has fewer digits than its inputs explain, or a run fewer than it was asked for
    LeftOutWarning            something that a file says, or a model has, takes no part in what was asked for

Each message says where, what was found, what was expected, why, and what to do, with names instead of indices.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType
from typing import Any

PACKAGE = __file__.rpartition("errors.py")[0]
"""Where this library's own code is."""

SHOWN_FAULTS = 200
"""Faults in the text of one error. A file with more has one fault many times, and the text would fill the screen."""

SHOWN_NAMES = 20
"""Names in one list of a message."""

SHOWN_LETTERS = 80
"""Letters of a value in a message."""

HINTS = 20
"""Suggestions in one error. Each compares a name with all that are known; more than this nobody reads."""

COMPARED = 64
"""Names that are compared letter by letter for a suggestion: the nearest by their pairs of letters."""

LONGEST_NAME = 200
"""Letters of a name that suggestions are sought for."""


class WhippletreeError(Exception):
    """Base of every error raised on purpose by this library."""

    def __reduce__(self) -> tuple[Any, ...]:
        # it must cross processes, whatever its constructor asks for: a pool may wait for ever for one that does not
        attributes = self.__dict__ | ({"name": self.name} if hasattr(self, "name") else {})  # a slot of AttributeError
        return _restore_error, (type(self), self.args, attributes)


class ConditioningWarning(UserWarning):
    """A result that keeps fewer digits than its inputs explain, or a run whose tolerance was raised to what the model
    can give."""


class LeftOutWarning(UserWarning):
    """Parts of a file or a model that take no part in the calculation asked for, by name."""


def warn_caller(text: str, category: type[Warning] = LeftOutWarning) -> None:
    """Warn whoever called this library, however deep in it this is found."""
    level = 1
    while (frame := _frame(level)) is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level += 1
    warnings.warn(text, category, stacklevel=level)


def _frame(level: int) -> FrameType | None:
    """The frame that a warning of this stack level from :func:`warn_caller` names; None beyond the last."""
    try:
        return sys._getframe(level)
    except ValueError:
        return None


def _restore_error(
    kind: type[WhippletreeError], args: tuple[Any, ...], attributes: Mapping[str, Any]
) -> WhippletreeError:
    error = kind.__new__(kind, *args)
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class GraphError(WhippletreeError, ValueError):
    """A graph is not what an operation needs: a directed cycle, several parents, an unknown node."""


class ModelError(WhippletreeError, ValueError):
    """A model description is wrong. ``faults`` lists everything found, not only the first."""

    def __init__(self, subject: str, faults: Sequence[str]) -> None:
        self.subject = subject
        self.faults = tuple(faults)
        count = len(self.faults)
        shown = [f"  - {fault}" for fault in self.faults[:SHOWN_FAULTS]]
        if count > SHOWN_FAULTS:
            shown.append(f"  - … ({count} in all; the attribute faults has them)")
        listed = "\n".join(shown)
        super().__init__(f"{subject}: {self.faults[0]}" if count == 1 else f"{subject}: {count} faults\n{listed}")


class FileError(ModelError):
    """A model file cannot be used. Each fault carries its line number where the format has lines."""


class NameLookupError(WhippletreeError, LookupError, AttributeError):
    """A name that is not there. The message lists the names that are.

    Also an AttributeError, so that ``hasattr(dyn, "no_such_function")`` answers as Python expects.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str], where: str = "", hint: str = "") -> None:
        """``hint``: a sentence for the end, with its full stop before it; default: what a similar name would say."""
        self.kind, self.name, self.known = kind, str(name), tuple(known)
        place, elsewhere = f"{where}: " if where else "", name_elsewhere(str(name))
        hint = hint or elsewhere or did_you_mean(str(name), self.known)
        # nobody who is told what it is called here wants to read eighty other names
        hidden = elsewhere and len(self.known) > SHOWN_NAMES
        names = "" if hidden else f"; known: {list_items(map(repr, self.known)) or 'none'}"
        super().__init__(f"{place}there is no {kind} {name!r}{names}{hint}")


class ShapeError(WhippletreeError, ValueError):
    """An array does not have the shape that the model asks for."""


class ScalarError(WhippletreeError, TypeError):
    """A scalar type cannot do what was asked exactly (for example the sine of a Fraction)."""


class SingularSystemError(WhippletreeError, ArithmeticError):
    """The equations of motion do not determine an acceleration."""


class AssemblyError(WhippletreeError, ArithmeticError):
    """Constraints that cannot be met near a guess, or that a given state violates; says which, and by how much.

    ``q`` is the best configuration that was found, ``residuals`` the open rows by name.
    """

    def __init__(self, message: str, q: object = None, residuals: Mapping[str, float] | None = None) -> None:
        super().__init__(message)
        self.q = q
        self.residuals = dict(residuals or {})


class IntegrationError(WhippletreeError, ArithmeticError):
    """The integration cannot go on; ``time`` is where it stopped."""

    def __init__(self, message: str, time: float) -> None:
        self.time = time
        super().__init__(message)


class StepError(IntegrationError):
    """No step, however short, meets the tolerances."""


class EquilibriumError(WhippletreeError, ArithmeticError):
    """No configuration near a guess balances all forces; says along which joints what is left pushes.

    ``q`` is the best configuration that was found, ``forces`` what is left there by name, N m or N.
    """

    def __init__(self, message: str, q: object = None, forces: Mapping[str, float] | None = None) -> None:
        super().__init__(message)
        self.q = q
        self.forces = dict(forces or {})


class UnsupportedError(WhippletreeError, NotImplementedError):
    """A valid request that this function cannot serve; it says so instead of ignoring a part of it."""


class DeviceError(WhippletreeError, RuntimeError):
    """A device, or its driver, is missing or fails; or an array is not in its memory."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A device has not enough memory for what was asked."""


class MissingExtraError(WhippletreeError, ImportError):
    """An optional dependency is missing."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(f"{feature} needs the package {package!r}: pip install 'whippletree[{extra}]'")


def list_items(items: Iterable[str]) -> str:
    """Items with commas between them, the first ones only where there are many."""
    texts = list(items)
    more = [f"… ({len(texts)} in all)"] if len(texts) > SHOWN_NAMES else []
    return ", ".join([*texts[:SHOWN_NAMES], *more])


def route(names: Sequence[str], arrow: str) -> str:
    """Names in quotes with an arrow between them; of a long way the beginning and the end."""
    texts = [repr(name) for name in names]
    return f" {arrow} ".join(texts if len(texts) <= SHOWN_NAMES else [*texts[:3], "…", *texts[-3:]])


def quote(value: object) -> str:
    """A value as Python writes it, its middle left out where it is long."""
    text = repr(value)
    half = SHOWN_LETTERS // 2
    return text if len(text) <= SHOWN_LETTERS else f"{text[:half]}…{text[-half:]} ({len(text)} letters)"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A short suggestion to append to a message, or nothing when no known name is close."""
    from difflib import get_close_matches  # only errors pay for this import

    if len(name) > LONGEST_NAME:
        return ""
    # names of very different length cannot be close
    near = [k for k in known if len(k) <= 3 * len(name) + 1 and len(name) <= 3 * len(k) + 1]
    if len(near) > COMPARED:
        pairs = _letter_pairs(name)
        near = sorted(near, key=lambda k: len(pairs ^ _letter_pairs(k)))[:COMPARED]
    close = get_close_matches(name, near, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


_COMPILED = "wt.compile(model)"
_ELSEWHERE = {
    "Pinocchio": {
        "rnea": f"{_COMPILED}.inverse_dynamics(q, v, a)",
        "aba": f"{_COMPILED}.forward_dynamics(q, v, tau)",
        "crba": f"{_COMPILED}.mass_matrix(q)",
        "ccrba": f"{_COMPILED}.centroidal_momentum_matrix(q)",
        "nle": f"{_COMPILED}.bias(q, v)",
        "nonLinearEffects": f"{_COMPILED}.bias(q, v)",
        "computeGeneralizedGravity": f"{_COMPILED}.gravity(q)",
        "computeMinverse": f"{_COMPILED}.mass_matrix_inverse(q)",
        "computeJointTorqueRegressor": f"{_COMPILED}.regressor(q, v, a)",
        "forwardKinematics": f'{_COMPILED}.pose("frame")(q)',
        "framesForwardKinematics": f'{_COMPILED}.pose("frame")(q)',
        "computeFrameJacobian": f'{_COMPILED}.jacobian("frame")(q)',
        "getFrameJacobian": f'{_COMPILED}.jacobian("frame")(q)',
        "computeRNEADerivatives": f"{_COMPILED}.inverse_dynamics_derivatives(q, v, a)",
        "computeABADerivatives": f"{_COMPILED}.forward_dynamics_derivatives(q, v, tau)",
        "constraintDynamics": f"{_COMPILED}.forward_dynamics(q, v, tau), which honours every constraint",
        "centerOfMass": f"{_COMPILED}.center_of_mass(q)",
        "buildModelFromUrdf": 'wt.load("robot.urdf")',
    },
    "MuJoCo": {
        "mj_step": f"{_COMPILED}.step(q, v, ctrl, dt), or wt.simulate(model, duration=...)",
        "mjd_transitionFD": f"{_COMPILED}.step_derivatives(q, v, ctrl, dt)",
        "mj_fwdActuation": f"{_COMPILED}.actuator_forces(q, v, ctrl)",
        "mj_forward": f"{_COMPILED}.forward_dynamics(q, v, tau)",
        "mj_inverse": f"{_COMPILED}.inverse_dynamics(q, v, a)",
        "mj_fullM": f"{_COMPILED}.mass_matrix(q)",
        "mj_kinematics": f'{_COMPILED}.pose("frame")(q)',
        "mj_jac": f'{_COMPILED}.jacobian("frame")(q)',
        "mj_jacBody": f'{_COMPILED}.jacobian("body")(q)',
        "mj_jacSite": f'{_COMPILED}.jacobian("frame")(q)',
        "mj_integratePos": f"{_COMPILED}.integrate(q, d)",
        "mj_differentiatePos": f"{_COMPILED}.difference(q, r)",
        "MjModel": 'wt.load("robot.xml")',
        "from_xml_path": 'wt.load("robot.xml")',
        "MjData": "not needed: functions take q, v and tau, and return what they compute",
    },
    "Drake": {
        "MultibodyPlant": "wt.Builder, or wt.load of a file",
        "CalcMassMatrix": f"{_COMPILED}.mass_matrix(q)",
        "CalcInverseDynamics": f"{_COMPILED}.inverse_dynamics(q, v, a)",
        "CalcBiasTerm": f"{_COMPILED}.bias(q, v)",
        "CalcGravityGeneralizedForces": f"{_COMPILED}.gravity(q), which holds the system: Drake's has the other sign",
    },
    "other programs": {
        "load_urdf": 'wt.load("robot.urdf")',
        "load_mjcf": 'wt.load("robot.xml")',
        "load_robot_description": 'wt.load("robot.urdf")',
        "animate": "wt.replay(model, run), or wt.export_film(model, run, 'run.gif')",
        "render": "wt.replay(model, run), or wt.export_film(model, run, 'run.gif')",
        "visualize": "wt.replay(model, run), or wt.show(model, run)",
        "view": "wt.replay(model, run), or wt.show(model, run)",
        "film": "wt.export_film(model, run, 'run.mp4')",
        "save_gif": "wt.export_film(model, run, 'run.gif')",
        "export_gif": "wt.export_film(model, run, 'run.gif')",
        "export_mp4": "wt.export_film(model, run, 'run.mp4')",
        "save_video": "wt.export_film(model, run, 'run.mp4')",
        "to_csv": "wt.save_run(run, 'run.csv')",
        "export_csv": "wt.save_run(run, 'run.csv')",
        "save_csv": "wt.save_run(run, 'run.csv')",
        "to_dataframe": "wt.tidy_frame(run)",
        "dataframe": "wt.tidy_frame(run)",
        "table": "wt.tidy_frame(run)",
    },
    "textbooks": {
        "com": f"{_COMPILED}.center_of_mass(q)",
        "fk": f'{_COMPILED}.pose("frame")(q)',
        "ik": "wt.inverse_kinematics(model, {'frame': pose})",
        "jac": f'{_COMPILED}.jacobian("frame")(q)',
        "forward_kinematics": f'{_COMPILED}.pose("frame")(q)',
        "inertia_matrix": f"{_COMPILED}.mass_matrix(q)",
        "coriolis": f"{_COMPILED}.bias(q, v), gravity included",
        "reactions": f"{_COMPILED}.joint_reactions(q, v, tau)",
        "inverse_mass_matrix": f"{_COMPILED}.mass_matrix_inverse(q)",
    },
    "other libraries": {
        "hinge": "'revolute'",
        "continuous": "'revolute'",
        "rotary": "'revolute'",
        "slide": "'prismatic'",
        "slider": "'prismatic'",
        "linear": "'prismatic'",
        "ball": "'spherical'",
        "fixed": "'weld'",
        "floating": "'free'",
        "freejoint": "'free'",
        "screw": "'helical'",
    },
}
"""By library, what its names are called here."""


def name_elsewhere(name: str) -> str:
    """A sentence to append to a message where a name is one of another library; nothing for other names."""
    for library, names in _ELSEWHERE.items():
        for theirs, here in names.items():
            if theirs.lower() == name.lower():
                return f". {theirs!r} of {library} is here: {here}"
    return ""


def _letter_pairs(name: str) -> set[str]:
    return {*map("".join, zip(f" {name}", f"{name} ", strict=True))}


class Hints:
    """Suggestions for the names of one description: the first few, since each one takes time."""

    def __init__(self) -> None:
        self._left = HINTS

    def __call__(self, name: str, known: Iterable[str]) -> str:
        """A suggestion as :func:`did_you_mean` gives it, or nothing once there were enough."""
        self._left -= 1
        return did_you_mean(name, known) if self._left >= 0 else ""
