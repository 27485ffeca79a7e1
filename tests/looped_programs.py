"""Loops over bodies for tests: models of every shape, and an interpreter that notices reads before writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from strategies import make_model, make_motion
from whippletree import functions, mechanisms
from whippletree.arithmetic.trace import evaluate
from whippletree.compiler.frontend.loops import loop_program
from whippletree.compiler.program import Address, Block, Lookup, Loop, Program, Statement, Switch
from whippletree.model import Model
from whippletree.spatial.joints import KINDS
from whippletree.tree.skeleton import skeleton

LOOPING = sorted(
    n for n, entry in functions.CATALOGUE.items() if entry.loops and entry.constraints != "needs" and not entry.names
)
MOVING = [kind for kind in KINDS if kind != "weld"]


class Interpreter:
    def __init__(self, program: Program, inputs: dict[str, np.ndarray]) -> None:
        self.program = program
        self.memory: dict[str, Any] = {}
        for b in program.buffers:
            if b.role in ("input", "table", "index"):
                self.memory[b.name] = np.asarray(inputs[b.name] if b.role == "input" else b.data)
            else:
                self.memory[b.name] = np.full(b.shape, None, dtype=object)
        self.run(program.body, {})

    def outputs(self) -> list[np.ndarray]:
        return [np.asarray(self.memory[b.name], dtype=float) for b in self.program.of_role("output")]

    def run(self, statements: tuple[Statement, ...], registers: dict[str, int]) -> None:
        registers = dict(registers)
        for statement in statements:
            match statement:
                case Block(code, loads, stores):
                    values = evaluate(code, [float(self.read(a, registers)) for a in loads])
                    for address, value in zip(stores, values, strict=True):
                        buffer, place = self.place(address, registers)
                        self.memory[buffer][place] = value
                case Lookup(register, address):
                    registers[register] = int(self.read(address, registers))
                case Switch(register, cases):
                    self.run(cases[registers[register]], registers)
                case Loop(counter, count, body, backwards):
                    rounds = range(int(count))
                    for k in reversed(rounds) if backwards else rounds:
                        self.run(body, {**registers, counter: k})

    def read(self, address: Address, registers: dict[str, int]) -> Any:
        buffer, place = self.place(address, registers)
        value = self.memory[buffer][place]
        assert value is not None, f"{address} is read before it is written"
        return value

    def place(self, address: Address, registers: dict[str, int]) -> tuple[str, tuple[int, ...]]:
        place = tuple((registers[i.register] if i.register else 0) + i.offset for i in address.indices)
        shape = self.memory[address.buffer].shape
        assert len(place) == len(shape)
        assert all(0 <= i < n for i, n in zip(place, shape, strict=True))
        return address.buffer, place


def inputs_of(model: Model, name: str, seed: int) -> dict[str, np.ndarray]:
    motion = make_motion(model, seed)
    other = make_motion(model, seed + 1)
    known = {"q": motion.q, "v": motion.v, "a": motion.a, "tau": motion.tau, "b": motion.tau}
    known |= {"d": motion.v, "r": other.q}
    return {word: known[word] for word in functions.find(name, model).inputs}


def looped(model: Model, name: str) -> Program:
    return loop_program(functions.find(name, model), skeleton(model))


def assert_equal(found: np.ndarray, expected: np.ndarray) -> None:
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * scale)


def alternating_chain(n: int, kinds: tuple[str, ...] = ("revolute", "prismatic")) -> Model:
    return make_model(range(-1, n - 1), [kinds[k % len(kinds)] for k in range(n)], seed=n)


MODELS = {
    "one body": mechanisms.pendulum(),
    "planar chain": mechanisms.chain(6, length=0.7),
    "alternating chain": alternating_chain(7),
    "every joint in a chain": alternating_chain(2 * len(MOVING), tuple(MOVING)),
    "free bodies": make_model([-1] * 5, ["free"] * 5, seed=3),
    "star": make_model([-1, 0, 0, 0, 0, 0], ["free", "spherical", "revolute", "revolute", "revolute", "universal"], 4),
    "forest of any joints": mechanisms.tree(25, seed=5),
}
