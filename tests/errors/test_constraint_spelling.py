"""Constraints that are written wrong: every mistake is an error that names the constraint and the cure."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt

NAN = float("nan")


def arm(kind, *on, **parameters):
    b = wt.Builder("arm").body("upper", 1.0, inertia=(1, 1, 1)).joint("shoulder", "revolute", "world", "upper")
    b.body("lower", 1.0, inertia=(1, 1, 1)).joint("elbow", "revolute", "upper", "lower", position=(1, 0, 0))
    return b.frame("hand", "lower", position=(1, 0, 0)).constraint("c", kind, *on, **parameters).build()


@pytest.mark.parametrize(
    ("kind", "on", "parameters", "fault"),
    [
        ("hinge", ("world", "hand"), {"axes": (0, 0, 1)}, r"kind 'hinge' has no parameter 'axes'.*Did you mean 'axis'"),
        ("distance", ("world", "hand"), {"length": NAN}, "length nan must be finite"),
        ("distance", ("world", "hand"), {"length": "long"}, "length 'long' must be numbers"),
        ("distance", ("world", "hand"), {"length": (1, 2)}, r"length \(1, 2\) must be one number"),
        ("distance", ("hand", "hand"), {"length": 1}, "it ties 'hand' to itself: name two different frames"),
        ("point_on_line", ("world", "hand"), {"direction": (1, 0)}, r"direction \(1, 0\) must have three numbers"),
        ("point_on_line", ("world", "hand"), {"direction": (NAN, 0, 0)}, "must be finite"),
        ("gear", ("shoulder", "elbow"), {"ratios": (1, NAN)}, r"ratios \(1, nan\) must be finite"),
        ("coupling", ("elbow", "elbow"), {}, "it ties 'elbow' to itself: name two different joints"),
        ("coupling", ("elbow", "shoulder"), {"coefficients": ()}, "coefficients must not be empty"),
        ("custom", (), {"residual": lambda: [1.0]}, "it names no frames"),
        (
            "custom",
            ("hand",),
            {"residual": lambda X: [X[0, 3]], "rows": ("a", "b")},
            "returns 1 numbers for the rows a",
        ),
        ("point", ("world", "hand"), {"without": ("w",)}, "without: there is no row 'w'; it has x, y, z"),
        ("point", ("world", "hand"), {"without": ("x", "y", "z")}, "every row is left out; remove the constraint"),
        ("hold", ("elbow",), {"component": 3}, "component 3: joint 'elbow' has 1"),
        ("relax", ("elbow",), {}, r'kind \'relax\' is made by massless="relax", not by hand'),
    ],
)
def test_every_mistake_is_named(kind, on, parameters, fault):
    with pytest.raises(wt.ModelError, match=fault) as caught:
        wt.diagnose(arm(kind, *on, **parameters))
    assert "constraint 'c'" in str(caught.value)


def test_numbers_that_are_none_are_refused_before_any_algebra():
    model = wt.mechanisms.four_bar()
    with pytest.raises(ValueError, match="assemble: guess holds nan: coordinates must be finite"):
        wt.assemble(model, [NAN] * 3)
    with pytest.raises(ValueError, match=r"hold\['crank'\] is inf"):
        wt.assemble(model, hold={"crank": np.inf})
    with pytest.raises(wt.ShapeError, match=r"joint 'crank' has 1 coordinates, hold gives \(2,\)"):
        wt.assemble(model, hold={"crank": [1.0, 2.0]})
    with pytest.raises(ValueError, match="diagnose: q holds nan"):
        wt.diagnose(model, [NAN] * 3)
    with pytest.raises(wt.AssemblyError, match=r"the residual of c\.row_0 is not a number at the guess"):
        wt.assemble(arm("custom", "hand", residual=lambda X: [NAN * X[0, 3]]))


def test_rows_are_left_out_by_name():
    model = arm("point", "world", "hand")
    assert wt.constraint_set(wt.without_rows(model, "c.x", "c.z")).row_names == ("c.y",)
    twice = wt.without_rows(wt.without_rows(model, "c.x"), "c.z")
    assert wt.constraint_set(twice).row_names == ("c.y",)
    assert wt.without_rows(model, "c.x", "c.y", "c.z").constraints == ()
    with pytest.raises(wt.NameLookupError, match=r"there is no row 'c\.w'; known: 'c\.x', 'c\.y', 'c\.z'"):
        wt.without_rows(model, "c.w")


@pytest.mark.parametrize("tolerance", [-1.0, NAN, np.inf, "tight", [1e-9, 1e-9]])
@pytest.mark.parametrize("function", [wt.assemble, wt.diagnose])
def test_a_tolerance_is_a_number_that_is_not_negative(function, tolerance):
    """-1 and NaN blamed the lengths of the linkage, or were taken; text was an error of NumPy's."""
    with pytest.raises((ValueError, wt.ScalarError), match=f"^{function.__name__}: tolerance is "):
        function(wt.mechanisms.four_bar(), tolerance=tolerance)


def test_what_is_held_is_named_where_it_is_no_coordinate():
    """It was told of the guess, which nobody gave."""
    with pytest.raises(ValueError, match=r"assemble: hold\['crank'\] is nan: coordinates must be finite"):
        wt.assemble(wt.mechanisms.four_bar(), hold={"crank": NAN})
    with pytest.raises(wt.ScalarError, match=r"guess is no array of numbers but of complex ones \(1j\), expected real"):
        wt.assemble(wt.mechanisms.four_bar(), [1j, 0, 0])


def test_a_route_of_the_reference_alone_says_so():
    with pytest.raises(wt.NameLookupError, match=r"no route 'block'; .*wt.reference\(model, route='block'\) has it"):
        wt.compile(wt.mechanisms.four_bar(), route="block")
