"""Whippletree: constrained multibody dynamics from Python.

    import whippletree as wt

    model = wt.load("panda.urdf")              # or wt.Builder, or a ready-made one of wt.mechanisms
    dyn = wt.compile(model)                    # machine code for this model; wt.reference: plain NumPy, any scalar
    a = dyn.forward_dynamics(q, v, tau)        # q (..., nq), v and tau (..., nv) -> (..., nv); SI units
    run = wt.simulate(model, duration=2.0)     # an xarray.Dataset
    wt.export_html(model, run, "run.html")     # a replay

Models         load, save, Builder, Model, mechanisms, on_ground, with_contacts, without_rows
Functions      compile, reference, symbolic, spatial_operators
Explanations   diagnose, conditioning, assemble, constraint_set, contact_set
Simulations    simulate, controllers, Event, event_states, event_impulses, saltation_matrices, single_run
Files of runs  save_run, load_run, read_checkpoint, load_scenario
Pictures       plot, show, export_html

Heavy parts are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from whippletree.errors import (
    AssemblyError,
    DeviceError,
    DeviceMemoryError,
    FileError,
    GraphError,
    MissingExtraError,
    ModelError,
    NameLookupError,
    ScalarError,
    ShapeError,
    SingularSystemError,
    UnsupportedError,
    WhippletreeError,
    did_you_mean,
)

if TYPE_CHECKING:
    import whippletree.controllers as controllers
    import whippletree.mechanisms as mechanisms
    from whippletree.builder import Builder as Builder
    from whippletree.compiler.compiled import compile as compile
    from whippletree.constraints.closing import assemble as assemble
    from whippletree.constraints.closing import without_rows as without_rows
    from whippletree.constraints.system import constraint_set as constraint_set
    from whippletree.contact.candidates import contact_set as contact_set
    from whippletree.diagnosis import diagnose as diagnose
    from whippletree.io import load as load
    from whippletree.io import save as save
    from whippletree.model import Model as Model
    from whippletree.monitor.report import conditioning as conditioning
    from whippletree.operators import spatial_operators as spatial_operators
    from whippletree.pairing import on_ground as on_ground
    from whippletree.pairing import with_contacts as with_contacts
    from whippletree.plain import reference as reference
    from whippletree.scenario.reading import load_scenario as load_scenario
    from whippletree.simulation.batches import single_run as single_run
    from whippletree.simulation.checkpoint import read_checkpoint as read_checkpoint
    from whippletree.simulation.event_log import event_impulses as event_impulses
    from whippletree.simulation.event_log import event_states as event_states
    from whippletree.simulation.event_log import saltation_matrices as saltation_matrices
    from whippletree.simulation.integrator import Event as Event
    from whippletree.simulation.run import simulate as simulate
    from whippletree.simulation.run_files import load_run as load_run
    from whippletree.simulation.run_files import save_run as save_run
    from whippletree.symbols import symbolic as symbolic
    from whippletree.view.live import show as show
    from whippletree.view.plots import plot as plot
    from whippletree.view.replay import export_html as export_html

__version__ = "0.1.0"

_LAZY = {
    "Builder": "whippletree.builder",
    "Event": "whippletree.simulation.integrator",
    "assemble": "whippletree.constraints.closing",
    "conditioning": "whippletree.monitor.report",
    "constraint_set": "whippletree.constraints.system",
    "contact_set": "whippletree.contact.candidates",
    "diagnose": "whippletree.diagnosis",
    "Model": "whippletree.model",
    "compile": "whippletree.compiler.compiled",
    "event_impulses": "whippletree.simulation.event_log",
    "event_states": "whippletree.simulation.event_log",
    "export_html": "whippletree.view.replay",
    "load": "whippletree.io",
    "load_run": "whippletree.simulation.run_files",
    "load_scenario": "whippletree.scenario.reading",
    "on_ground": "whippletree.pairing",
    "plot": "whippletree.view.plots",
    "read_checkpoint": "whippletree.simulation.checkpoint",
    "reference": "whippletree.plain",
    "saltation_matrices": "whippletree.simulation.event_log",
    "save": "whippletree.io",
    "save_run": "whippletree.simulation.run_files",
    "show": "whippletree.view.live",
    "simulate": "whippletree.simulation.run",
    "single_run": "whippletree.simulation.batches",
    "spatial_operators": "whippletree.operators",
    "symbolic": "whippletree.symbols",
    "with_contacts": "whippletree.pairing",
    "without_rows": "whippletree.constraints.closing",
}
"""Public names and the modules that define them."""

__all__ = [
    "AssemblyError",
    "Builder",
    "DeviceError",
    "DeviceMemoryError",
    "Event",
    "FileError",
    "GraphError",
    "MissingExtraError",
    "Model",
    "ModelError",
    "NameLookupError",
    "ScalarError",
    "ShapeError",
    "SingularSystemError",
    "UnsupportedError",
    "WhippletreeError",
    "__version__",
    "assemble",
    "compile",
    "conditioning",
    "constraint_set",
    "contact_set",
    "controllers",
    "diagnose",
    "event_impulses",
    "event_states",
    "export_html",
    "load",
    "load_run",
    "load_scenario",
    "mechanisms",
    "on_ground",
    "plot",
    "read_checkpoint",
    "reference",
    "saltation_matrices",
    "save",
    "save_run",
    "show",
    "simulate",
    "single_run",
    "spatial_operators",
    "symbolic",
    "with_contacts",
    "without_rows",
]


if not TYPE_CHECKING:  # type checkers know every name from above, and are to find a misspelt one

    def __getattr__(name: str) -> Any:
        if name in ("controllers", "mechanisms"):
            return import_module(f"whippletree.{name}")
        if name in _LAZY:
            return getattr(import_module(_LAZY[name]), name)
        raise AttributeError(f"module 'whippletree' has no attribute {name!r}{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
