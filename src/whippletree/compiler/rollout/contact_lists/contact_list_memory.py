"""The memory of a step over lists of blocks: arguments, what its parts leave for each other, tables of every block.

Every part of the step reads and writes by the names of these buffers; those that only one part uses are its own.
"""

from __future__ import annotations

from whippletree.compiler.frontend.node_wrenches import SCREW, TWIST
from whippletree.compiler.program import Buffer, Dimension, Lookup
from whippletree.compiler.rollout.contact_kinds import TOUCH
from whippletree.compiler.rollout.contact_lists.contact_list_moments import MomentRows
from whippletree.compiler.rollout.contact_lists.contact_list_ranges import ServoRanges
from whippletree.compiler.rollout.contact_lists.contact_list_recursion import left_out_of_recursion
from whippletree.compiler.rollout.contact_lists.contact_list_results import StepResults
from whippletree.compiler.rollout.motion_space import screw_count, screw_rows
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK, Driven, StepSpace
from whippletree.contact.geometry.shape_numbers import POSE
from whippletree.model import Model

CONTACT, LIMIT, TAUT, FRICTION, SERVO = range(5)
"""Kinds of blocks, before those of moments."""


class ListSpace(StepSpace):
    """Space of a program that takes such steps.

    q0, v0, impulses0, tau, ctrl, dt, …   arguments
    now q, now v, pose, twist, screw      the state in hand
    touch, gap, flag, impulse, …          of candidates and blocks
    kind, axis, friction, …               of blocks, known beforehand
    """

    def __init__(self, model: Model, driven: Driven, single: bool = False, world_only: bool = False) -> None:
        """``single``: one step, whose arguments and results have no dimension for steps; ``world_only``: as in
        :func:`~whippletree.compiler.rollout.contact_lists.contact_list_step.contact_lists_program`."""
        super().__init__(model, driven, single)
        self.world_only = world_only
        self.ranges = ServoRanges(self)
        self.moments = MomentRows(self)
        self._arguments()
        self._memory()
        self._tables()

    def _arguments(self) -> None:
        nq, nv, k = self.model.nq, self.model.nv, self.blocks.count
        steps: tuple[Dimension, ...] = () if self.single else ("T",)
        shapes: dict[str, tuple[Dimension, ...]] = {
            "q0": (nq,),
            "v0": (nv,),
            "impulses0": (k, 3),
            **self._drives(steps),
            "dt": steps,
            "tolerance": (),
        }
        if not self.single:
            shapes["patience"] = ()
        if self.asks_clock:
            shapes["clock"] = steps
        if self.driven.held:
            shapes["held"] = (nv,)
        self.add(*[Buffer(name, "input", shape) for name, shape in shapes.items()])
        self.results = StepResults(self, steps)

    def _drives(self, steps: tuple[Dimension, ...]) -> dict[str, tuple[Dimension, ...]]:
        """Inputs of forces and commands, if they are given."""
        if self.driven.in_python:
            return {}
        given = self.actuators.acting and self.driven.commands is None
        commands = {"ctrl": (*steps, len(self.model.actuators))} if given else {}
        return {"tau": (*steps, self.model.nv), **commands}

    def _memory(self) -> None:
        """Memory of a step for its later parts and for the next step."""
        nq, nv, k, nodes = self.model.nq, self.model.nv, self.blocks.count, len(self.tree.nodes)
        self.work(
            now_q=(nq,),
            now_v=(nv,),
            impulse=(k, 3),
            alive=(1,),
            lost=(1,),
            stepping=(1,),  # whether a pass takes a step, or only looks
            through=(1,),
            pose=(nodes + 1, POSE),  # the last row is the world
            twist=(nodes + 1, TWIST),
            screw=(screw_count(self.tree), SCREW),
            free=(nv,),
            end_v=(nv,),
            touch=(self.contacts, TOUCH),
            gap=(k,),
            sign=(len(self.blocks.limited),),
            tendon_row=(len(self.blocks.taut), nv),
            flag=(k,),
            own=(k, 6),  # the block's own part of G, its upper triangle
            mass=(k, 2),  # what makes the block's velocities comparable with its impulses, and its reciprocal
            g=(k, 3),
            shift=(k,),
            approach=(k, 3),
            missed=(len(self.blocks.limited),),  # speed at which a limit is missed that was left out, m/s
            left=(1,),  # the worst of what was left out, m/s
            complete=(1,),
        )
        self.numbers_list(ACTIVE, k)
        if self.tells_forces:
            self.work(drive=(nv,))  # forces that do not depend on the velocity at the end of the step
        if self.actuators.coupling:
            self.work(coupling=(len(self.actuators.coupling), nv))  # their rows G
        if self.blocks.servos:
            self.work(servo_row=(len(self.blocks.servos), nv), soft=(k,), offset=(k,))
            self.ranges.reserve()

    def _tables(self) -> None:
        """Numbers of every block that are known beforehand."""
        blocks = self.blocks
        servos, moments, taut = len(blocks.servos), len(blocks.moments), len(blocks.taut)
        kinds = [CONTACT] * self.contacts + [LIMIT] * len(blocks.limited)
        kinds += [TAUT] * taut + [FRICTION] * len(blocks.rubbing)
        kinds += [1 + SERVO + kind for kind in self.moments.kinds]
        self.index("kind", kinds + [SERVO] * servos)
        axes = [*[None] * self.contacts, *blocks.limited, *[None] * taut, *blocks.rubbing, *[None] * (moments + servos)]
        self.index("axis", [0 if axis is None else axis.v for axis in axes])
        self.index("place", [0 if axis is None else axis.q for axis in axes])
        self.index("tendon", [max(i - blocks.first_tendon, 0) for i in range(blocks.closing)])
        self.index("servo", [0] * blocks.passive + list(range(servos)))
        self.table("passive", [1] * blocks.passive + [0] * servos)
        self.index("limit", [max(i - self.contacts, 0) for i in range(self.contacts + len(blocks.limited))])
        if self.world_only:
            self.table("left out", left_out_of_recursion(self.model, blocks).astype(int).tolist())
        self.table("friction", blocks.friction)
        self.table("restitution", blocks.restitution)
        self.table("cap", blocks.cap(1))
        self.table("lower", [axis.lower for axis in blocks.limited])
        self.table("upper", [axis.upper for axis in blocks.limited])
        world = len(self.tree.nodes)
        nodes = [
            [self.tree.bodies[body].node for body in (c.first_body, c.second_body)] for c in blocks.contacts.candidates
        ]
        for side in (0, 1):
            self.index(f"node {side}", [world if pair[side] < 0 else pair[side] for pair in nodes])

    def index_paths(self) -> list[list[int]]:
        """Velocities that move the bodies of each contact, entered in tables; those that move both move neither against
        the other."""
        nodes = [
            [self.tree.bodies[body].node for body in (c.first_body, c.second_body)]
            for c in self.blocks.contacts.candidates
        ]
        own = screw_rows(self.tree)
        moved = [[{x for k in self.tree.path(node) for x in own[k]} for node in pair] for pair in nodes]
        paths = [[(i, 1) for i in sorted(a - b)] + [(i, -1) for i in sorted(b - a)] for a, b in moved]
        longest = max(map(len, paths), default=0) or 1
        filled = [path + [((0, 0), 0)] * (longest - len(path)) for path in paths]
        self.index("moving", [len(path) for path in paths])
        self.index("path", [[i for (i, _), _ in path] for path in filled])
        if self.model.is_flexible:
            self.index("screw row", [[row for (_, row), _ in path] for path in filled])
        self.table("side", [[s for _, s in path] for path in filled])
        return [[i for (i, _), _ in path] for path in paths]

    def look_up(self, *names: str) -> list[Lookup]:
        """Registers with the names of tables: what these say of the block in hand."""
        return [Lookup(name, self.address(name, BLOCK)) for name in names]
