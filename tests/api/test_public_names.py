"""The public names, held in one list each: a change here is a change of the interface, and belongs in the changelog."""

import importlib
import inspect

import numpy as np
import pytest

import whippletree as wt
from whippletree.functions import CATALOGUE

NAMES = """
AssemblyError Builder ConditioningWarning DeviceError DeviceMemoryError EquilibriumError Event FileError GraphError
LeftOutWarning
MissingExtraError Model ModelError NameLookupError ScalarError ShapeError SingularSystemError UnsupportedError
WhippletreeError __version__ assemble compile conditioning constraint_set contact_set control controllers decompose
dexterity
diagnose eigenmodes embed equilibrium event_impulses event_states export_film export_html flexible frequency_response
inverse_kinematics linearize load load_run load_scenario mechanisms on_batch on_ground open_sweep plot reaction_names
read_checkpoint read_sensors reference replay saltation_matrices save save_run show simulate single_run
spatial_operators sweep sweep_report symbolic tidy_frame with_contacts with_motion without_overlaps without_rows
workspace
"""

FUNCTIONS = """
activation_rates actuator_forces actuator_wrenches allowed_motions apparent_inertia bias block_condition_numbers
center_of_mass centroidal_momentum_matrix closing_step condition_number constraint_bias constraint_forces
constraint_forces_derivatives constraint_forces_least_norm constraint_jacobian constraint_residual constraint_velocity
contact_axes contact_bias contact_gaps contact_jacobian contact_points contact_velocity dagger delassus
diagonal_of_mass_matrix diagonal_ratio difference element_forces equilibrated_condition_number force_sensitivity
forward_dynamics forward_dynamics_derivatives forward_dynamics_with_diagonal forward_dynamics_with_diagonal_ratio
forward_dynamics_with_wrench gravity gravity_derivatives hybrid_dynamics impact integrate interbody_forces
inverse_dynamics inverse_dynamics_derivatives inverse_dynamics_in_contact inverse_dynamics_with_metric
inverse_dynamics_with_motors inverse_dynamics_with_wrench jacobian jacobian_bias joint_reactions
joint_reactions_of_motion joint_reactions_with_weights kinetic_energy mass_matrix mass_matrix_inverse mass_matrix_solve
momentum null_projector operational_inertia operational_inertia_inverse passive_forces pivot_ratios pose
potential_energy project_velocity qr_projector rate reduced_mass_matrix regressor relaxed_velocity schur_projector twist
velocity_step weighted_pseudo_inverse
"""


def test_names_of_the_package():
    assert sorted(wt.__all__) == NAMES.split()
    assert dir(wt) == NAMES.split()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES.split())
def test_name_is_there(name):
    assert getattr(wt, name) is not None


def test_no_module_has_the_name_of_a_public_function():
    """Python would overwrite one with the other."""
    for name in NAMES.split():
        if callable(getattr(wt, name)):
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module(f"whippletree.{name}")


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError) as raised:
        wt.forward_dynamics  # noqa: B018
    assert str(raised.value) == "module 'whippletree' has no attribute 'forward_dynamics'"


def public_functions():
    return {name: getattr(wt, name) for name in wt.__all__ if inspect.isfunction(getattr(wt, name))}


def positional(function):
    return [p for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]


DATA_CLASSES = (
    wt.Model,
    wt.flexible.FlexibleBody,
    wt.flexible.FlexibleFrame,
    wt.flexible.NodalModel,
    wt.flexible.Section,
)
"""Their fields say what a thing is."""


def public_callables():
    """Functions, classes and the methods of classes, of the package and of the parts of it that users name."""
    homes = (wt, wt.control, wt.controllers, wt.flexible, wt.mechanisms)
    things = {name: getattr(home, name) for home in homes for name in home.__all__}
    model = wt.mechanisms.pendulum()
    made = (type(wt.compile(model)), type(wt.reference(model)))  # not by calling their classes
    things |= {"dyn": made[0], "ref": made[1]}
    for name, thing in things.items():
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing) and not issubclass(thing, BaseException):
            if thing not in (*DATA_CLASSES, *made):
                yield name, thing
            for word, method in inspect.getmembers(thing, inspect.isroutine):
                if not word.startswith("_") and (method.__module__ or "").startswith("whippletree"):
                    yield f"{name}.{word}", method


def test_options_are_keyword_only():
    """States, commands, steps of time, guesses, runs, the choice of a picture and what a body is are no options."""
    data = {"q", "v", "q0", "v0", "act", "ctrl", "dt", "guess", "run", "what"}
    data |= {"limits", "gravity", "mass", "center", "inertia"}
    found = dict(public_callables())
    ready_made = set(wt.mechanisms.__all__)
    left_out = {
        name: {p.name for p in positional(function) if p.default is not p.empty}
        for name, function in found.items()
        if name not in ready_made
    }
    assert {name: words - data for name, words in left_out.items() if words - data} == {}
    # of a ready-made mechanism, one dimension may stand for itself
    many = {name: len(positional(found[name])) for name in ready_made - {"rod_inertia"}}
    assert {name for name, count in many.items() if count > 1} == set()
    assert len(found) > 140


def test_model_run_and_path_come_in_one_order_and_a_path_is_returned():
    order = ["model", "run", "path"]
    for name in ("plot", "show", "replay", "export_film", "export_html", "save", "save_run"):
        function = public_functions()[name]
        own = [p.name for p in positional(function) if p.name in order]
        assert own == sorted(own, key=order.index), name
        assert own == [p.name for p in positional(function)][: len(own)], name
        if "path" in own:
            assert inspect.signature(function).return_annotation == "Path", name


def test_functions_of_the_catalogue():
    assert sorted(CATALOGUE) == FUNCTIONS.split()


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_function_says_what_it_is(name):
    """A summary whose first paragraph ends as a sentence, and named outputs."""
    entry = CATALOGUE[name]
    assert entry.name == name
    assert entry.summary.split("\n\n")[0].endswith((".", ":"))
    assert entry.outputs


def test_the_reference_offers_every_function():
    ref = wt.reference(wt.mechanisms.pendulum())
    assert set(FUNCTIONS.split()) <= set(dir(ref))
    assert ref.mass_matrix.__doc__ == CATALOGUE["mass_matrix"].explanation
    assert repr(ref.mass_matrix) == "<reference mass_matrix of model 'pendulum'>"
    assert ref.mass_matrix(np.zeros(1)).shape == (1, 1)
