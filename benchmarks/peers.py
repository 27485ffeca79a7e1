"""The peers on the same robots: Pinocchio's own C++ batch loops and single calls, MuJoCo's roll-outs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.robots import Robot
from whippletree.contact.problem.contact_problem import ContactProblem
from whippletree.contact.problem.delassus import as_array


class Pinocchio:
    """A robot in Pinocchio, with random states of its own (the arithmetic does not depend on the numbers)."""

    def __init__(self, robot: Robot, count: int) -> None:
        import pinocchio as pin

        self.pin = pin
        root = [pin.JointModelFreeFlyer()] if robot.base == "free" else []
        self.model = pin.buildModelFromUrdf(str(robot.path), *root)
        self._prepare(count)

    def _prepare(self, count: int) -> None:
        pin, model = self.pin, self.model
        self.data = model.createData()
        self.pool = pin.ModelPool(model, 1)
        rng = np.random.default_rng(0)
        columns = [pin.randomConfiguration(model, -np.ones(model.nq), np.ones(model.nq)) for _ in range(count)]
        self.q = np.asfortranarray(np.array(columns).T)
        self.v, self.tau = (np.asfortranarray(rng.uniform(-1, 1, (model.nv, count))) for _ in range(2))
        self.out = np.asfortranarray(np.empty((model.nv, count)))
        self.one = (self.q[:, 0].copy(), self.v[:, 0].copy(), self.tau[:, 0].copy())

    @classmethod
    def chain(cls, links: int, count: int) -> Pinocchio:
        """A planar chain of uniform rods, built joint by joint."""
        import pinocchio as pin

        self = cls.__new__(cls)
        self.pin, self.model = pin, pin.Model()
        rod = pin.Inertia(1.0, np.array([0.5, 0, 0]), np.diag([0, 1 / 12, 1 / 12]))
        parent, place = 0, pin.SE3.Identity()
        for k in range(links):
            parent = self.model.addJoint(parent, pin.JointModelRZ(), place, f"joint{k}")
            self.model.appendBodyToJoint(parent, rod, pin.SE3.Identity())
            place = pin.SE3(np.eye(3), np.array([1.0, 0, 0]))
        self._prepare(count)
        return self

    def forward_batch(self) -> Any:
        return self.pin.abaInParallel(1, self.pool, self.q, self.v, self.tau, self.out)

    def inverse_batch(self) -> Any:
        return self.pin.rneaInParallel(1, self.pool, self.q, self.v, self.tau, self.out)

    def forward_one(self) -> Any:
        return self.pin.aba(self.model, self.data, *self.one)

    def inverse_one(self) -> Any:
        return self.pin.rnea(self.model, self.data, *self.one)

    def mass_matrix_one(self) -> Any:
        return self.pin.crba(self.model, self.data, self.one[0])

    def derivatives_one(self) -> Any:
        return self.pin.computeABADerivatives(self.model, self.data, *self.one)


class MuJoCo:
    """A fixed-base robot in MuJoCo without contacts, limits and damping: the same equations of motion as ours."""

    def __init__(self, robot: Robot, dt: float) -> None:
        import mujoco

        self.mujoco = mujoco
        self.model = mujoco_model(robot, dt)
        self.data = mujoco.MjData(self.model)

    def rollout(self, q: np.ndarray, v: np.ndarray, steps: int) -> np.ndarray:
        """States (batch, steps, nq + nv) after each step, joints unforced, one thread."""
        from mujoco import rollout

        start = np.concatenate([np.zeros((len(q), 1)), q, v], axis=1)
        states, _ = rollout.rollout(self.model, self.data, start, nstep=steps)
        return states[:, :, 1:]


def mujoco_model(robot: Robot, dt: float) -> Any:
    """MuJoCo's model of a robot without contacts, limits and damping."""
    import mujoco

    spec = mujoco.MjSpec.from_string(_without_meshes(robot.path))
    spec.compiler.balanceinertia = True
    spec.compiler.boundmass = 0
    spec.option.timestep = dt
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.disableflags = int(
        mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    )
    for joint in spec.joints:
        joint.damping = np.zeros_like(joint.damping)
        joint.frictionloss = 0
    if robot.base == "free":
        spec.worldbody.first_body().add_freejoint()
    return spec.compile()


def _without_meshes(path: Path) -> str:
    """The URDF's text without geometry: no mesh files are needed, and nothing can touch."""
    text = re.sub(r"<(visual|collision)\b.*?</\1>", "", path.read_text(), flags=re.DOTALL)
    return re.sub(r"<(visual|collision)\b[^>]*/>", "", text)


def tied_feet(model: Any, feet: Iterable[str], kind: str) -> tuple[Any, Any]:
    """Pinocchio's models and data of feet that are welded to the ground, or tied to it at a point."""
    import pinocchio as pin

    contacts, memory = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    how = pin.ContactType.CONTACT_6D if kind == "weld" else pin.ContactType.CONTACT_3D
    for foot in feet:
        frame = model.frames[model.getFrameId(foot)]
        contact = pin.RigidConstraintModel(how, model, frame.parentJoint, frame.placement, pin.ReferenceFrame.LOCAL)
        contacts.append(contact)
        memory.append(contact.createData())
    return contacts, memory


class FrictionProblem:
    """A contact problem as Pinocchio's solvers take it; its normal comes last, so numbers change their ``order``."""

    def __init__(self, problem: ContactProblem) -> None:
        import pinocchio as pin

        k = problem.blocks
        model = pin.Model()
        model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "joint")
        self.constraints, self.memory = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
        for mu in problem.friction:
            contact = pin.PointContactConstraintModel(model, 1)
            contact.setFriction(float(mu))
            self.constraints.append(pin.ConstraintModel(contact))
            self.memory.append(self.constraints[-1].createData())
        self._order = (3 * np.arange(k)[:, None] + [1, 2, 0]).ravel()
        self.G = as_array(problem.matrix)[np.ix_(self._order, self._order)]
        self.g = problem.g.ravel()[self._order]

    def impulses(self, result: Any) -> Any:
        """What a solver has found, (k, 3), normals first."""
        found = np.zeros(len(self._order))
        found[self._order] = np.asarray(result.retrieveConstraintImpulses()).ravel()
        return found.reshape(-1, 3)


def steps_of_mujoco(model: Any, data: Any, steps: int) -> None:
    """Steps of a scene, with the integrator that its model names."""
    import mujoco

    for _ in range(steps):
        mujoco.mj_step(model, data)
