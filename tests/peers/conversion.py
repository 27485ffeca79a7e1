"""Other libraries' answers in our conventions: the one place of the tests where conventions are converted.

A peer is asked about one of our models (its tree) and answers for our q, v, a and tau, so that a test compares numbers
and nothing else. What differs, and where it is converted:

=====================  =================================  ================================  ===========================
                       ours                               Pinocchio                         MuJoCo
=====================  =================================  ================================  ===========================
quaternion             w, x, y, z                         x, y, z, w                        w, x, y, z
spatial vector         angular, linear                    linear, angular                   linear, angular apart
free joint, v          body axes                          body axes                         linear in world axes
continuous joint, q    angle                              cosine, sine                      angle
planar joint           q = (x, y, angle), v = q̇           q = (x, y, cos, sin), v in body   not asked
Jacobian               frame's axes                       LOCAL                             world axes
order of joints        depth first, as declared           depth first, by name              depth first, as declared
=====================  =================================  ================================  ===========================

All of it is two functions of the state: the peer's coordinates, and the matrix T(q) with v_peer = T v. Then

    a_peer = T a + Ṫ v        J = J_peer T        M = Tᵀ M_peer T        tau = Tᵀ tau_peer
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
from lxml import etree

from whippletree.model import Joint, Model
from whippletree.spatial.joints import plane_directions

mujoco.set_mju_user_warning(lambda text: None)  # or it writes a log file into the current folder


class Refused(Exception):
    """A peer cannot load a robot, in its own words."""


class Peer(ABC):
    """A peer's version of a model. All arguments and results are in our conventions."""

    def __init__(self, model: Model, nq: int, nv: int, links: int) -> None:
        self.model, self.nq, self.nv, self.links = model, nq, nv, links

    # -- what each peer supplies: answers in its own conventions ---

    @abstractmethod
    def coordinates(self, q: np.ndarray) -> np.ndarray:
        """The peer's coordinates of our q."""

    @abstractmethod
    def velocity_map(self, q: np.ndarray) -> np.ndarray:
        """T (nv_peer, nv)."""

    @abstractmethod
    def velocity_map_rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Ṫ v (nv_peer,)."""

    @abstractmethod
    def _kinematics(self, x: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Pose (4, 4) and Jacobian (6, nv_peer), angular rows first and in the body's axes, of every body by name."""

    @abstractmethod
    def _mass_matrix(self, x: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _inverse_dynamics(self, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray: ...

    # -- what a test asks ---

    def poses(self, q: np.ndarray) -> dict[str, np.ndarray]:
        """Pose (4, 4) of every body in the world."""
        return {name: pose for name, (pose, _) in self._kinematics(self.coordinates(q)).items()}

    def jacobians(self, q: np.ndarray) -> dict[str, np.ndarray]:
        """Jacobian (6, nv) of every body."""
        T = self.velocity_map(q)
        return {name: J @ T for name, (_, J) in self._kinematics(self.coordinates(q)).items()}

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        T = self.velocity_map(q)
        return T.T @ self._mass_matrix(self.coordinates(q)) @ T

    def inverse_dynamics(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        T = self.velocity_map(q)
        return T.T @ self._inverse_dynamics(self.coordinates(q), T @ v, T @ a + self.velocity_map_rate(q, v))

    def bias(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self.inverse_dynamics(q, v, np.zeros(self.model.nv))


# --- Pinocchio --------------------------------------------------------------------------------------------------------


class Pinocchio(Peer):
    """A Pinocchio model and our model of the same tree, matched by the names of joints and bodies."""

    def __init__(self, model: Model, built: pin.Model, names: dict[str, str] | None = None) -> None:
        """``names``: Pinocchio's frame of each of our bodies; of the same name if None."""
        super().__init__(model, built.nq, built.nv, sum(f.type == pin.FrameType.BODY for f in built.frames))
        built.gravity.linear = np.array(model.gravity, dtype=float)
        self.built, self.data = built, built.createData()
        self.frames = {body.name: (names or {}).get(body.name, body.name) for body in model.bodies}

    @staticmethod
    def from_urdf(model: Model, path: Path, base: str) -> Pinocchio:
        """The robot as Pinocchio's own URDF reader sees it; it leaves mimic joints free, as ``model.tree`` does."""
        roots = (pin.JointModelFreeFlyer(),) if base == "free" else ()
        try:
            return Pinocchio(model, pin.buildModelFromUrdf(str(path), *roots), _renamed(model))
        except ValueError as error:
            raise Refused(str(error).replace(str(path), path.name)) from None

    @staticmethod
    def from_model(model: Model) -> Pinocchio:
        """Our model rebuilt joint by joint, so that joints which no URDF has are compared too.

        A rotor on a planar joint has no counterpart: it would resist the rates of other coordinates.
        """
        built, numbers = pin.Model(), {"world": 0}
        offsets = {"world": pin.SE3.Identity()}
        for body, joint in zip(model.bodies, model.joints):
            placement = offsets[joint.parent] * pin.SE3(np.array(joint.pose))
            number, offset = numbers[joint.parent], placement
            if joint.kind != "weld":
                kind, turn = _pinocchio_joint(joint)
                number = built.addJoint(number, kind, placement * turn, joint.name)
                part = slice(built.idx_vs[number], built.idx_vs[number] + built.nvs[number])
                armature = built.armature.copy()
                armature[part] = joint.armature
                built.armature = armature
                offset = turn.inverse()
            numbers[body.name], offsets[body.name] = number, offset
            inertia = pin.Inertia(body.mass, np.array(body.center), np.array(body.inertia))
            built.appendBodyToJoint(number, inertia, offset)
            built.addFrame(pin.Frame(body.name, number, offset, pin.FrameType.BODY))
        return Pinocchio(model, built)

    def _parts(self):
        """Our joint, and our and Pinocchio's parts of q and v, for every joint that moves."""
        for joint, kind, ours_q, ours_v in zip(
            self.model.joints, self.model.joint_types, self.model.q_slices, self.model.v_slices
        ):
            if kind.nv:
                number = self.built.getJointId(joint.name)
                at_q, at_v = self.built.idx_qs[number], self.built.idx_vs[number]
                theirs_q = slice(at_q, at_q + self.built.nqs[number])
                yield joint, ours_q, ours_v, theirs_q, slice(at_v, at_v + self.built.nvs[number])

    def coordinates(self, q: np.ndarray) -> np.ndarray:
        x = np.zeros(self.nq)
        for joint, ours, _, theirs, _ in self._parts():
            own = q[ours]
            if joint.kind == "free":
                own = np.concatenate([own[:3], own[4:], own[3:4]])
            elif joint.kind == "spherical":
                own = np.concatenate([own[1:], own[:1]])
            elif joint.kind == "planar":
                own = np.array([own[0], own[1], np.cos(own[2]), np.sin(own[2])])
            elif theirs.stop - theirs.start == 2 and len(own) == 1:
                own = np.array([np.cos(own[0]), np.sin(own[0])])
            x[theirs] = own
        return x

    def velocity_map(self, q: np.ndarray) -> np.ndarray:
        T = np.zeros((self.nv, self.model.nv))
        for joint, at, ours, _, theirs in self._parts():
            block = np.eye(ours.stop - ours.start)
            if joint.kind == "free":
                block = np.roll(block, 3, axis=0)
            elif joint.kind == "planar":
                block[:2, :2] = _turn(q[at][2]).T
            T[theirs, ours] = block
        return T

    def velocity_map_rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        rate = np.zeros(self.nv)
        for joint, at, ours, _, theirs in self._parts():
            if joint.kind == "planar":
                x, y = _turn(q[at][2]).T @ v[ours][:2]
                rate[theirs] = np.array([y, -x, 0]) * v[ours][2]
        return rate

    def _kinematics(self, x: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        pin.computeJointJacobians(self.built, self.data, x)
        pin.updateFramePlacements(self.built, self.data)
        found = {}
        for body, frame in self.frames.items():
            number = self.built.getFrameId(frame, pin.FrameType.BODY)
            J = np.zeros((6, 0))
            if self.nv:  # Pinocchio crashes on a Jacobian without columns
                J = pin.getFrameJacobian(self.built, self.data, number, pin.ReferenceFrame.LOCAL)
            found[body] = self.data.oMf[number].homogeneous.copy(), np.roll(J.reshape(6, self.nv), 3, axis=0)
        return found

    def _mass_matrix(self, x: np.ndarray) -> np.ndarray:
        upper = np.triu(pin.crba(self.built, self.data, x).reshape(self.nv, self.nv))
        return upper + np.triu(upper, 1).T

    def _inverse_dynamics(self, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        return pin.rnea(self.built, self.data, x, v, a).copy()

    # -- more that only Pinocchio is asked for; see the catalogue for what each means ---

    def jacobian_bias(self, body: str, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        rates = self.velocity_map(q) @ v, self.velocity_map_rate(q, v)
        pin.forwardKinematics(self.built, self.data, self.coordinates(q), *rates)
        number = self.built.getFrameId(self.frames[body], pin.FrameType.BODY)
        bias = pin.getFrameAcceleration(self.built, self.data, number, pin.ReferenceFrame.LOCAL)
        return np.concatenate([bias.angular, bias.linear])

    def center_of_mass(self, q: np.ndarray) -> np.ndarray:
        return pin.centerOfMass(self.built, self.data, self.coordinates(q)).copy()

    def centroidal_momentum_matrix(self, q: np.ndarray) -> np.ndarray:
        T = self.velocity_map(q)
        matrix = pin.ccrba(self.built, self.data, self.coordinates(q), np.zeros(self.nv))
        return np.roll(matrix.reshape(6, self.nv), 3, axis=0) @ T

    def kinetic_energy(self, q: np.ndarray, v: np.ndarray) -> float:
        """Not for joints with rotors: Pinocchio counts some of them and not others."""
        return pin.computeKineticEnergy(self.built, self.data, self.coordinates(q), self.velocity_map(q) @ v)

    def potential_energy(self, q: np.ndarray) -> float:
        return pin.computePotentialEnergy(self.built, self.data, self.coordinates(q))

    def mass_matrix_inverse(self, q: np.ndarray) -> np.ndarray:
        upper = np.triu(pin.computeMinverse(self.built, self.data, self.coordinates(q)).reshape(self.nv, self.nv))
        back = np.linalg.inv(self.velocity_map(q))
        return back @ (upper + np.triu(upper, 1).T) @ back.T

    def integrate(self, q: np.ndarray, d: np.ndarray) -> np.ndarray:
        """Pinocchio's coordinates of q ⊕ d; a planar joint moves along an arc there, and along a line with us."""
        return pin.integrate(self.built, self.coordinates(q), self.velocity_map(q) @ d)


def _pinocchio_joint(joint: Joint) -> tuple[pin.JointModel, pin.SE3]:
    """Pinocchio's joint of one of ours, and the turn of the joint frame that it needs."""
    axis = np.array(joint.axis, dtype=float)
    match joint.kind:
        case "revolute":
            return pin.JointModelRevoluteUnaligned(axis), pin.SE3.Identity()
        case "prismatic":
            return pin.JointModelPrismaticUnaligned(axis), pin.SE3.Identity()
        case "helical":
            return pin.JointModelHelicalUnaligned(axis, float(joint.pitch)), pin.SE3.Identity()
        case "cylindrical":
            both = pin.JointModelComposite(pin.JointModelRevoluteUnaligned(axis))
            both.addJoint(pin.JointModelPrismaticUnaligned(axis))
            return both, pin.SE3.Identity()
        case "universal":
            both = pin.JointModelComposite(pin.JointModelRevoluteUnaligned(axis))
            both.addJoint(pin.JointModelRevoluteUnaligned(np.array(joint.second_axis, dtype=float)))
            return both, pin.SE3.Identity()
        case "planar":
            x, y = (np.array(direction, dtype=float) for direction in plane_directions(joint.axis.astype(object)))
            return pin.JointModelPlanar(), pin.SE3(np.stack([x, y, axis], axis=1), np.zeros(3))
        case "spherical":
            return pin.JointModelSpherical(), pin.SE3.Identity()
        case _:
            return pin.JointModelFreeFlyer(), pin.SE3.Identity()


def _turn(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


# --- MuJoCo -----------------------------------------------------------------------------------------------------------


class MuJoCo(Peer):
    """A MuJoCo model and our model of the same tree: nothing fused, bounded or balanced, no forces of its own."""

    OFF = ("CONSTRAINT", "EQUALITY", "FRICTIONLOSS", "LIMIT", "CONTACT", "SPRING", "DAMPER", "ACTUATION")

    def __init__(self, model: Model, built: mujoco.MjModel) -> None:
        super().__init__(model, built.nq, built.nv, built.nbody - 1)
        built.opt.gravity[:] = np.array(model.gravity, dtype=float)
        for flag in self.OFF:
            built.opt.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}")
        self.built, self.data = built, mujoco.MjData(built)
        self.bodies = {body.name: built.body(body.name).id for body in model.bodies}

    @staticmethod
    def from_urdf(model: Model, path: Path, base: str) -> MuJoCo:
        """The robot as MuJoCo's own URDF reader sees it, without shapes, so that no mesh is needed."""
        try:
            spec = mujoco.MjSpec.from_string(_bare_urdf(path, base))
            if base == "free":
                spec.worldbody.first_body().add_freejoint(name="root_joint")
            return MuJoCo(model, spec.compile())
        except (ValueError, AttributeError) as error:
            raise Refused(" ".join(str(error).split())) from None

    def _parts(self):
        """Our joint, and our and MuJoCo's parts of q and v, for every joint that moves."""
        for joint, kind, ours_q, ours_v in zip(
            self.model.joints, self.model.joint_types, self.model.q_slices, self.model.v_slices
        ):
            if kind.nv:
                number = self.built.joint(joint.name).id
                at_q, at_v = self.built.jnt_qposadr[number], self.built.jnt_dofadr[number]
                yield joint, ours_q, ours_v, slice(at_q, at_q + kind.nq), slice(at_v, at_v + kind.nv)

    def coordinates(self, q: np.ndarray) -> np.ndarray:
        x = np.zeros(self.nq)
        for _, ours, _, theirs, _ in self._parts():
            x[theirs] = q[ours]
        return x

    def velocity_map(self, q: np.ndarray) -> np.ndarray:
        T = np.zeros((self.nv, self.model.nv))
        for joint, at, ours, _, theirs in self._parts():
            block = np.eye(ours.stop - ours.start)
            if joint.kind == "free":
                block = np.roll(block, 3, axis=0)
                block[:3, 3:] = _rotation(q[at][3:])
            T[theirs, ours] = block
        return T

    def velocity_map_rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        rate = np.zeros(self.nv)
        for joint, at, ours, _, theirs in self._parts():
            if joint.kind == "free":
                angular, linear = v[ours][:3], v[ours][3:]
                rate[theirs] = np.concatenate([_rotation(q[at][3:]) @ np.cross(angular, linear), np.zeros(3)])
        return rate

    def _kinematics(self, x: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        self._put(x)
        found = {}
        for name, number in self.bodies.items():
            pose, linear, angular = np.eye(4), np.zeros((3, self.nv)), np.zeros((3, self.nv))
            pose[:3, :3], pose[:3, 3] = self.data.xmat[number].reshape(3, 3), self.data.xpos[number]
            mujoco.mj_jacBody(self.built, self.data, linear, angular, number)
            found[name] = pose, np.concatenate([pose[:3, :3].T @ angular, pose[:3, :3].T @ linear])
        return found

    def _mass_matrix(self, x: np.ndarray) -> np.ndarray:
        self._put(x)
        M = np.zeros((self.nv, self.nv))
        if self.nv:
            mujoco.mj_fullM(self.built, self.data, M)
        return M

    def _inverse_dynamics(self, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        self._put(x, v)
        self.data.qacc[:] = a
        mujoco.mj_inverse(self.built, self.data)
        return self.data.qfrc_inverse.copy()

    def _put(self, x: np.ndarray, v: np.ndarray | float = 0) -> None:
        self.data.qpos[:], self.data.qvel[:] = x, v
        mujoco.mj_forward(self.built, self.data)


def _bare_urdf(path: Path, base: str) -> str:
    """A URDF's text with links and joints only, and with MuJoCo's compiler told to change nothing."""
    root = etree.parse(str(path), etree.XMLParser(remove_comments=True)).getroot()
    for element in list(root):
        if element.tag not in ("link", "joint"):
            root.remove(element)
    for shape in root.xpath("link/visual | link/collision"):
        shape.getparent().remove(shape)
    if base == "free":
        # MuJoCo takes a link called world for the world itself, which can never float
        for name in root.xpath("link[@name='world']/@name | joint/*[@link='world']/@link"):
            name.getparent().set(name.attrname, "world_link")
    options = {"fusestatic": "false", "balanceinertia": "false", "boundmass": "0", "boundinertia": "0"}
    etree.SubElement(etree.SubElement(root, "mujoco"), "compiler", options)
    return etree.tostring(root, encoding="unicode")


def _rotation(wxyz: np.ndarray) -> np.ndarray:
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, wxyz / np.linalg.norm(wxyz))
    return R.reshape(3, 3)


def _renamed(model: Model) -> dict[str, str]:
    """A link called world that is a body of its own has another name with us."""
    return {"world_link": "world"} if any(body.name == "world_link" for body in model.bodies) else {}
