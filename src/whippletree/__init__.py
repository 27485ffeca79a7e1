"""Whippletree: constrained multibody dynamics from Python.

    import whippletree as wt

    model = wt.load("panda.urdf")              # or wt.Builder, or a ready-made one of wt.mechanisms
    dyn = wt.compile(model)                    # machine code for this model; wt.reference: plain NumPy, any scalar
    a = dyn.forward_dynamics(q, v, tau)        # q (..., nq), v and tau (..., nv) -> (..., nv); SI units
    run = wt.simulate(model, duration=2.0)     # an xarray.Dataset
    wt.export_html(model, run, "run.html")     # a replay

Models         load, save, Builder, Model, mechanisms, flexible, on_ground, with_contacts, with_motion,
               decompose, without_overlaps, without_rows
Functions      compile, reference, symbolic, spatial_operators
Explanations   diagnose, conditioning, assemble, embed, constraint_set, contact_set, reaction_names
Analysis       equilibrium, linearize, eigenmodes, frequency_response, inverse_kinematics, dexterity, workspace
Control        control (whole_body, task, projected, lqr, external)
Simulations    simulate, controllers, Event, event_states, event_impulses, read_sensors, saltation_matrices, single_run
Many runs      sweep, open_sweep, sweep_report, on_batch
Files of runs  save_run, load_run, tidy_frame, read_checkpoint, load_scenario
Pictures       plot, replay, show, export_html, export_film

Heavy parts are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from whippletree.errors import (
    AssemblyError,
    ConditioningWarning,
    DeviceError,
    DeviceMemoryError,
    EquilibriumError,
    FileError,
    GraphError,
    LeftOutWarning,
    MissingExtraError,
    ModelError,
    NameLookupError,
    ScalarError,
    ShapeError,
    SingularSystemError,
    UnsupportedError,
    WhippletreeError,
    did_you_mean,
    name_elsewhere,
)

if TYPE_CHECKING:
    import whippletree.control as control
    import whippletree.controllers as controllers
    import whippletree.flexible as flexible
    import whippletree.mechanisms as mechanisms
    from whippletree.accuracy.report import conditioning as conditioning
    from whippletree.analysis.equilibrium import equilibrium as equilibrium
    from whippletree.analysis.inverse_kinematics import inverse_kinematics as inverse_kinematics
    from whippletree.analysis.linear import linearize as linearize
    from whippletree.analysis.maps import dexterity as dexterity
    from whippletree.analysis.maps import workspace as workspace
    from whippletree.analysis.modes import eigenmodes as eigenmodes
    from whippletree.analysis.modes import frequency_response as frequency_response
    from whippletree.campaigns.campaign import on_batch as on_batch
    from whippletree.campaigns.campaign import sweep as sweep
    from whippletree.campaigns.opening import open_sweep as open_sweep
    from whippletree.campaigns.sweep_report import sweep_report as sweep_report
    from whippletree.compiler.casadi import symbolic as symbolic
    from whippletree.compiler.compiled import compile as compile
    from whippletree.constraints.assembly import assemble as assemble
    from whippletree.constraints.clusters.cluster_operators import spatial_operators as spatial_operators
    from whippletree.constraints.clusters.minimal_coordinates import embed as embed
    from whippletree.constraints.constraint_set import constraint_set as constraint_set
    from whippletree.constraints.diagnosis import diagnose as diagnose
    from whippletree.constraints.reactions import reaction_names as reaction_names
    from whippletree.constraints.rows import without_rows as without_rows
    from whippletree.contact.geometry.decomposition import decompose as decompose
    from whippletree.contact.kinematics.broad_phase import without_overlaps as without_overlaps
    from whippletree.contact.kinematics.contact_set import contact_set as contact_set
    from whippletree.functions.reference import reference as reference
    from whippletree.io import load as load
    from whippletree.io import save as save
    from whippletree.model import Model as Model
    from whippletree.model.builder import Builder as Builder
    from whippletree.model.contact_pairs import on_ground as on_ground
    from whippletree.model.contact_pairs import with_contacts as with_contacts
    from whippletree.model.moving_bodies import with_motion as with_motion
    from whippletree.scenario.scenario_reader import load_scenario as load_scenario
    from whippletree.simulation.adaptive.user_events import Event as Event
    from whippletree.simulation.checkpoint import read_checkpoint as read_checkpoint
    from whippletree.simulation.events.event_log import event_impulses as event_impulses
    from whippletree.simulation.events.event_log import event_states as event_states
    from whippletree.simulation.events.event_log import saltation_matrices as saltation_matrices
    from whippletree.simulation.one_by_one import single_run as single_run
    from whippletree.simulation.output.run_files import load_run as load_run
    from whippletree.simulation.output.run_files import save_run as save_run
    from whippletree.simulation.output.run_files import tidy_frame as tidy_frame
    from whippletree.simulation.run import simulate as simulate
    from whippletree.simulation.sensing import read_sensors as read_sensors
    from whippletree.view.film import export_film as export_film
    from whippletree.view.live import show as show
    from whippletree.view.plots import plot as plot
    from whippletree.view.replay import export_html as export_html
    from whippletree.view.replay import replay as replay

__version__ = "0.1.0"

_LAZY = {
    "Builder": "whippletree.model.builder",
    "Event": "whippletree.simulation.adaptive.user_events",
    "assemble": "whippletree.constraints.assembly",
    "conditioning": "whippletree.accuracy.report",
    "constraint_set": "whippletree.constraints.constraint_set",
    "contact_set": "whippletree.contact.kinematics.contact_set",
    "decompose": "whippletree.contact.geometry.decomposition",
    "dexterity": "whippletree.analysis.maps",
    "diagnose": "whippletree.constraints.diagnosis",
    "eigenmodes": "whippletree.analysis.modes",
    "equilibrium": "whippletree.analysis.equilibrium",
    "Model": "whippletree.model",
    "compile": "whippletree.compiler.compiled",
    "embed": "whippletree.constraints.clusters.minimal_coordinates",
    "event_impulses": "whippletree.simulation.events.event_log",
    "event_states": "whippletree.simulation.events.event_log",
    "export_film": "whippletree.view.film",
    "export_html": "whippletree.view.replay",
    "frequency_response": "whippletree.analysis.modes",
    "inverse_kinematics": "whippletree.analysis.inverse_kinematics",
    "linearize": "whippletree.analysis.linear",
    "load": "whippletree.io",
    "load_run": "whippletree.simulation.output.run_files",
    "load_scenario": "whippletree.scenario.scenario_reader",
    "on_ground": "whippletree.model.contact_pairs",
    "plot": "whippletree.view.plots",
    "read_checkpoint": "whippletree.simulation.checkpoint",
    "read_sensors": "whippletree.simulation.sensing",
    "reaction_names": "whippletree.constraints.reactions",
    "reference": "whippletree.functions.reference",
    "replay": "whippletree.view.replay",
    "saltation_matrices": "whippletree.simulation.events.event_log",
    "save": "whippletree.io",
    "save_run": "whippletree.simulation.output.run_files",
    "show": "whippletree.view.live",
    "simulate": "whippletree.simulation.run",
    "sweep": "whippletree.campaigns.campaign",
    "on_batch": "whippletree.campaigns.campaign",
    "open_sweep": "whippletree.campaigns.opening",
    "sweep_report": "whippletree.campaigns.sweep_report",
    "single_run": "whippletree.simulation.one_by_one",
    "spatial_operators": "whippletree.constraints.clusters.cluster_operators",
    "symbolic": "whippletree.compiler.casadi",
    "tidy_frame": "whippletree.simulation.output.run_files",
    "with_contacts": "whippletree.model.contact_pairs",
    "with_motion": "whippletree.model.moving_bodies",
    "without_overlaps": "whippletree.contact.kinematics.broad_phase",
    "without_rows": "whippletree.constraints.rows",
    "workspace": "whippletree.analysis.maps",
}
"""Public names and the modules that define them."""

__all__ = [
    "AssemblyError",
    "Builder",
    "ConditioningWarning",
    "DeviceError",
    "DeviceMemoryError",
    "EquilibriumError",
    "Event",
    "FileError",
    "GraphError",
    "LeftOutWarning",
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
    "control",
    "controllers",
    "decompose",
    "dexterity",
    "diagnose",
    "eigenmodes",
    "embed",
    "equilibrium",
    "event_impulses",
    "event_states",
    "export_film",
    "export_html",
    "flexible",
    "frequency_response",
    "inverse_kinematics",
    "linearize",
    "load",
    "load_run",
    "load_scenario",
    "mechanisms",
    "on_batch",
    "on_ground",
    "open_sweep",
    "plot",
    "reaction_names",
    "read_checkpoint",
    "read_sensors",
    "reference",
    "replay",
    "saltation_matrices",
    "save",
    "save_run",
    "show",
    "simulate",
    "single_run",
    "spatial_operators",
    "sweep",
    "sweep_report",
    "symbolic",
    "tidy_frame",
    "with_contacts",
    "with_motion",
    "without_overlaps",
    "without_rows",
    "workspace",
]


if not TYPE_CHECKING:  # type checkers know every name from above, and are to find a misspelt one

    def __getattr__(name: str) -> Any:
        from whippletree.arithmetic.garbage import garbage_left_alone

        with garbage_left_alone():
            if name in ("control", "controllers", "flexible", "mechanisms"):
                return import_module(f"whippletree.{name}")
            if name in _LAZY:
                return getattr(import_module(_LAZY[name]), name)
        hint = name_elsewhere(name) or did_you_mean(name, __all__)
        raise AttributeError(f"module 'whippletree' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
