"""Contact-aware control: from what a motion should do to the forces of motors, contacts and loops.

    operational_tasks   tasks: rows of frames, centre of mass, momentum and posture, on any scalar
    tiled_algebra       products, a factor and a solution inside a kernel, four numbers at a time
    cone_program        a quadratic program with limits and friction cones, as statements of a kernel
    whole_body_layout   where each row and unknown of a whole-body program stands; shortfalls by name
    whole_body_program  inverse dynamics as such a program: tasks, cones, limits, one compiled function
    projected_dynamics  projected inverse dynamics in closed form, hybrid control of motion and force
    regulator           a linear-quadratic regulator on the constraint manifold
    casadi_external     compiled functions as external functions of CasADi, with derivatives and sparsity

    task, whole_body    control = whole_body(model, [task("center_of_mass", stiffness=50), task("posture")])
    projected           projected(model).inverse_dynamics(q, v, a)
    lqr                 a controller for wt.simulate
    external            external(model, "forward_dynamics"): a CasADi function that calls machine code

The chapter imports ``analysis``, ``compiler`` and what is below them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from whippletree.errors import NameLookupError

if TYPE_CHECKING:
    from whippletree.control.casadi_external import external as external
    from whippletree.control.operational_tasks import task as task
    from whippletree.control.projected_dynamics import contact_gravity_compensation as contact_gravity_compensation
    from whippletree.control.projected_dynamics import projected as projected
    from whippletree.control.regulator import lqr as lqr
    from whippletree.control.whole_body_program import whole_body as whole_body

_HOMES = {
    "contact_gravity_compensation": "projected_dynamics",
    "external": "casadi_external",
    "lqr": "regulator",
    "projected": "projected_dynamics",
    "task": "operational_tasks",
    "whole_body": "whole_body_program",
}
__all__ = ["contact_gravity_compensation", "external", "lqr", "projected", "task", "whole_body"]


if not TYPE_CHECKING:  # type checkers know every name from above, and are to find a misspelt one

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"whippletree.control.{_HOMES[name]}"), name)
        raise NameLookupError("name of wt.control", name, __all__)


def __dir__() -> list[str]:
    return __all__
