"""The GPU target without a GPU: its text, NVIDIA's assembler where there is one, and the absence of a driver."""

import os
from pathlib import Path

import pytest

import whippletree as wt
from elementary import elementary_program
from nvidia_assembler import assemble, needs_assembler
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cuda import driver
from whippletree.compiler.cuda.ptx_target import architecture, kernel_ir, ptx_text
from whippletree.compiler.cuda.tuning import Form
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.program import Buffer, straight_program
from whippletree.compiler.rollout.rollout import rollout_program
from whippletree.functions import find

REALS = ["float", "double"]


def pendulum():
    return wt.mechanisms.chain(1)


def unrolled(model, name):
    return unrolled_program(model, find(name, model))


def text_of(program, real, arch="sm_90"):
    return ptx_text(kernel_ir(program, real, Form()), arch)


def root_program():
    """√x and x / y, the operations whose rounding a GPU likes to skimp on."""
    trace = Trace()
    x, y = trace.inputs(2)
    code = finish(trace, [x.sqrt(), x / y, x * y + x])
    return straight_program("root", code, [Buffer("x", "input", (2,))], [Buffer("y", "output", (3,))])


# ---- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", REALS)
def test_division_and_square_root_are_rounded_and_nothing_is_flushed(real):
    text = text_of(root_program(), real)
    bits = {"float": 32, "double": 64}[real]
    for instruction in ("sqrt.rn", "div.rn", "fma.rn"):
        assert f"{instruction}.f{bits}" in text
    for word in ("approx", "ftz", "full"):
        assert f".{word}" not in text


@pytest.mark.parametrize("real", REALS)
def test_products_are_never_fused_behind_our_back(real):
    """An addition without a rounding mode would be the assembler's to fuse."""
    text = text_of(unrolled(pendulum(), "forward_dynamics"), real)
    bits = {"float": 32, "double": 64}[real]
    for line in text.splitlines():
        word = line.split()[0] if line.split() else ""
        if word.startswith(("mul.f", "add.f", "sub.f", "mad.")) and word.endswith(f"f{bits}"):
            pytest.fail(f"not explicitly rounded: {line.strip()}")


@pytest.mark.parametrize("real", REALS)
def test_elementary_functions_call_nothing_and_skimp_on_nothing(real):
    text = text_of(elementary_program(), real)
    for word in ("approx", "ftz", "full"):
        assert f".{word}" not in text
    assert "call" not in text
    assert ".extern .func" not in text
    for line in text.splitlines():
        word = line.split()[0] if line.split() else ""
        if word.startswith(("mul.f", "add.f", "sub.f", "mad.f", "ex2", "lg2", "tanh")):
            pytest.fail(f"not explicitly rounded: {line.strip()}")


GOLDEN = (Path(__file__).parent / "golden" / "pendulum.ptx").as_posix()


def stable(text):
    """The instructions of the kernel without names of registers: what a change of the emitter shows in."""
    body = text[text.index(".visible .entry") :]
    kept = []
    for line in body.splitlines():
        word = line.split()
        if word and not word[0].startswith((".", "//", "$", "{", "}", "(", ")", "@")):
            kept.append(word[0].rstrip(";"))
    return "\n".join(kept) + "\n"


def test_golden_text_of_a_pendulum():
    """``WHIPPLETREE_GOLDEN=write`` writes it anew after a change that is meant."""
    found = stable(text_of(unrolled(pendulum(), "inverse_dynamics"), "float"))
    if os.environ.get("WHIPPLETREE_GOLDEN") == "write":
        Path(GOLDEN).parent.mkdir(exist_ok=True)
        Path(GOLDEN).write_text(found)
    assert found == Path(GOLDEN).read_text()


def test_architectures():
    assert architecture((9, 0)) == "sm_90"
    assert architecture((8, 9)) == "sm_86"
    assert architecture((12, 0)) == "sm_100"
    with pytest.raises(wt.DeviceError, match=r"this device has compute capability 3\.5; 7\.0 is the least"):
        architecture((3, 5))
    for arch in ("sm_70", "sm_80", "sm_100"):
        assert f".target {arch}" in text_of(root_program(), "float", arch)


@pytest.mark.slow
@needs_assembler
@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("what", ["forward_dynamics", "rollout", "loop"])
def test_nvidias_assembler_accepts_it(what, real, tmp_path):
    if what == "rollout":
        program = rollout_program(wt.mechanisms.chain(3), "rk4")
    elif what == "loop":
        from whippletree.compiler.frontend.loops import loop_program
        from whippletree.tree.skeleton import skeleton

        model = wt.mechanisms.chain(400)
        program = loop_program(find("forward_dynamics", model), skeleton(model))
    else:
        program = unrolled(wt.mechanisms.chain(3), what)
    assemble(text_of(program, real), "sm_90", tmp_path)


# ---- no driver -------------------------------------------------------------------------------------------------------


def test_the_absence_of_a_driver_is_one_clear_error(monkeypatch):
    def absent(name):
        raise OSError("no such file")

    monkeypatch.setattr(driver.ctypes, "CDLL", absent)
    driver.driver.cache_clear()
    with pytest.raises(wt.DeviceError) as caught:
        wt.compile(pendulum(), target="cuda")
    assert str(caught.value) == (
        "target 'cuda' needs NVIDIA's driver, and its library libcuda.so.1 is not here (no such file). Install "
        "NVIDIA's driver and check it with nvidia-smi, or compile for the CPU: wt.compile(model)."
    )


def test_an_unknown_target_is_refused():
    with pytest.raises(wt.NameLookupError, match="there is no target 'gpu'; known: 'cpu', 'cuda'"):
        wt.compile(pendulum(), target="gpu")
