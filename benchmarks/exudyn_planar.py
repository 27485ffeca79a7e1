"""Planar linkages of ours in Exudyn: rigid bodies in absolute coordinates, revolute joints, rotational springs.

Exudyn integrates them by its generalised-alpha method with steps of one length; the last state comes back in our joint
angles, so that both can be compared. ``pip install exudyn``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import whippletree as wt
from whippletree.arithmetic.arrays import Array

MOVED = 1e-6
"""Time, s, over which velocities of bodies are differences of their poses."""


class PlanarSystem(NamedTuple):
    """A model in Exudyn."""

    system: Any
    parents: list[int]
    """Of each moving body; -1 for the world."""
    places: list[int]
    """Of the joints of these bodies in q."""
    start: Array
    """q at the start."""

    def solve(self, duration: float, steps: int) -> Array:
        """The last state (q, v) after so many steps."""
        import exudyn

        settings = exudyn.SimulationSettings()
        time = settings.timeIntegration
        time.numberOfSteps, time.endTime, time.verboseMode = steps, duration, 0
        time.newton.useModifiedNewton = True
        time.generalizedAlpha.spectralRadius = 0.9
        settings.solutionSettings.writeSolutionToFile = False
        settings.solutionSettings.sensorsWritePeriod = duration
        settings.linearSolverType = exudyn.LinearSolverType.EigenSparse
        self.system.SolveDynamic(settings)
        data = self.system.systemData
        found = []
        for numbers, base in ((data.GetODE2Coordinates(), self.start), (data.GetODE2Coordinates_t(), 0 * self.start)):
            turned = np.append(np.asarray(numbers).reshape(-1, 3)[:, 2], 0.0)
            found.append(base.copy())
            found[-1][self.places] += turned[:-1] - turned[self.parents]
        return np.concatenate(found)


def body_poses(model: wt.Model, q: Array) -> dict[str, Array]:
    """Poses (4, 4) of all bodies whose joints are hinges about z."""
    found = {"world": np.eye(4)}
    waiting = list(model.joints)
    while waiting:
        joint = next(joint for joint in waiting if joint.parent in found)
        waiting.remove(joint)
        angle = float(q[model.slice(joint.name)][0])
        turn = np.eye(4)
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        found[joint.child] = found[joint.parent] @ np.asarray(joint.pose, dtype=float) @ turn
    return found


def planar_system(model: wt.Model, q: Array, v: Array) -> PlanarSystem:
    """A model of hinges about z, with springs and dampers in them, closed by pins."""
    import exudyn
    from exudyn import itemInterface as items

    system = exudyn.SystemContainer().AddSystem()
    bodies = {body.name: body for body in model.bodies}
    numbers = {joint.child: k for k, joint in enumerate(model.joints)}
    ground = system.AddObject(items.ObjectGround())
    fixed = system.AddNode(items.NodePointGround())
    objects, nodes = [], []
    gravity = [float(x) for x in model.gravity]
    here, before, after = (body_poses(model, own) for own in (q, q - MOVED * v, q + MOVED * v))

    for joint in model.joints:
        body = bodies[joint.child]
        center = np.append(np.asarray(body.center, dtype=float), 1.0)

        at, last, then = (
            np.array([*(X[body.name] @ center)[:2], np.arctan2(X[body.name][1, 0], X[body.name][0, 0])])
            for X in (here, before, after)
        )
        rate = (then - last) / (2 * MOVED)
        node = system.AddNode(items.NodeRigidBody2D(referenceCoordinates=at, initialVelocities=rate))
        inertia = float(np.asarray(body.inertia, dtype=float).reshape(-1)[-1])
        own = system.AddObject(
            items.ObjectRigidBody2D(physicsMass=float(body.mass), physicsInertia=inertia, nodeNumber=node)
        )
        mass = system.AddMarker(items.MarkerBodyMass(bodyNumber=own))
        system.AddLoad(items.LoadMassProportional(markerNumber=mass, loadVector=gravity))
        nodes.append(node)
        objects.append(own)

    def marker(body: str, point: Array) -> int:
        """A point of the world, fixed to a body."""
        if body not in numbers:
            return system.AddMarker(items.MarkerBodyPosition(bodyNumber=ground, localPosition=[*point[:2], 0.0]))
        k = numbers[body]
        X, center = here[body], np.asarray(bodies[body].center, dtype=float)
        local = X[:3, :3].T @ (point - X[:3, 3]) - center
        return system.AddMarker(items.MarkerBodyPosition(bodyNumber=objects[k], localPosition=[*local[:2], 0.0]))

    def pin(first: str, second: str, point: Array) -> None:
        system.AddObject(items.ObjectJointRevolute2D(markerNumbers=[marker(first, point), marker(second, point)]))

    for k, joint in enumerate(model.joints):
        pin(joint.parent, joint.child, here[joint.child][:3, 3])
        if joint.stiffness or joint.damping:
            ends = [nodes[numbers[joint.parent]] if joint.parent in numbers else fixed, nodes[k]]
            turns = [
                system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=n, coordinate=0 if n == fixed else 2))
                for n in ends
            ]
            system.AddObject(
                items.CoordinateSpringDamper(
                    markerNumbers=turns,
                    stiffness=float(np.ravel(joint.stiffness)[0]),
                    damping=float(np.ravel(joint.damping)[0]),
                    offset=float(np.ravel(joint.rest)[0]) - float(q[model.slice(joint.name)][0]),
                )
            )
    for closure in model.constraints:
        first, second = (model.frame(name).body for name in closure.on)
        pin(first, second, (here[first] @ np.asarray(model.frame(closure.on[0]).pose, dtype=float))[:3, 3])
    system.Assemble()
    parents = [numbers.get(joint.parent, -1) for joint in model.joints]
    places = [model.slice(joint.name).start for joint in model.joints]
    return PlanarSystem(system, parents, places, np.array(q, dtype=float))
