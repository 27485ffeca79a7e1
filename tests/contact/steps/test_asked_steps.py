"""Controllers in plain Python in time steps: the kernel asks them, once a step, whatever becomes of it."""

import threading

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.cpu.python_call import PythonCall
from whippletree.model import Activation
from whippletree.simulation.time_stepping import stepping_method
from whippletree.simulation.time_stepping.impulse_kernel import AskedSteps, asked_steps
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep

H = 1e-3
RUN = {"method": "time_stepping", "step": H}


class Regulator:
    """A law that remembers when it was asked, so that it cannot be traced."""

    def __init__(self, model, stiffness=5.0, raises_at=None, answer=None):
        self.model, self.stiffness = model, stiffness
        self.raises_at, self.answer = raises_at, answer
        self.asked = []

    def __call__(self, t, q, v):
        self.asked.append(round(float(t) / H))
        if self.asked[-1] == self.raises_at:
            if self.answer is None:
                raise ZeroDivisionError("by design")
            return np.full(len(v), self.answer)
        return self.law(q, v)

    def law(self, q, v):
        tau = -0.5 * v
        tau[6:] -= self.stiffness * (q[7:] - self.model.home.q[7:])
        return tau


def thrown():
    model = wt.mechanisms.quadruped()
    return model, 0.3 * np.random.default_rng(1).normal(size=model.nv)


@pytest.mark.parametrize("together", [1, 7, 40])
def test_bits_do_not_depend_on_how_many_rows_a_call_takes(together, monkeypatch):
    model, v0 = thrown()

    def run():
        return wt.simulate(model, v0=v0, duration=0.2, output_dt=0.005, controller=Regulator(model), **RUN)

    whole, calls = run(), []
    monkeypatch.setattr(stepping_method, "STEPS_OF_CALL", together)
    monkeypatch.setattr(stepping_method, "UNNOTICED", np.inf)
    monkeypatch.setattr(
        stepping_method, "asked_steps", lambda *given: calls.append(len(given[-1])) or asked_steps(*given)
    )
    parts = run()
    assert max(calls, default=0) == together // 5 * 5
    assert whole.contact_force.values[-1].any()
    for name in ("q", "v", "contact_force", "sweeps", "joint_work"):
        assert parts[name].values.tobytes() == whole[name].values.tobytes()


def test_it_is_asked_once_in_every_step_of_any_row():
    model, v0 = thrown()
    law = Regulator(model)
    run = wt.simulate(model, v0=v0, duration=0.2, output_dt=0.01, controller=law, **RUN)
    assert run.attrs["steps"] == 200
    # rows of output ask at their own times, too
    assert [k for k in law.asked if k % 10] == [k for k in range(200) if k % 10]


def test_a_step_that_the_kernel_leaves_is_not_asked_for_again(monkeypatch):
    """Every seventh step is taken for unsolved, and goes to Python; those behind it, in later rows, to the kernel."""
    model, v0 = thrown()
    whole = wt.simulate(model, v0=v0, duration=0.1, output_dt=0.002, controller=Regulator(model), **RUN)
    taken, step = [], ImpulseStep.step
    monkeypatch.setattr(ImpulseStep, "step", lambda self, t, *given: taken.append(t) or step(self, t, *given))

    def impatient(stepper, y, impulses, h, clock):
        made = asked_steps(stepper, y, impulses, h[:7], clock[:7])
        if made.steps.number < 7:
            return made
        last = stepper.asking_kernel.tau.copy(), stepper.asking_kernel.ctrl.copy()
        return AskedSteps(made.steps.part(slice(6)), last)

    monkeypatch.setattr(stepping_method, "asked_steps", impatient)
    monkeypatch.setattr("whippletree.simulation.time_stepping.impulse_batch.asked_steps", impatient)
    law = Regulator(model)
    parts = wt.simulate(model, v0=v0, duration=0.1, output_dt=0.002, controller=law, **RUN)
    assert len(taken) > 10
    assert [k for k in law.asked if k % 2] == [k for k in range(100) if k % 2]
    np.testing.assert_allclose(parts.q.values, whole.q.values, rtol=0, atol=1e-7)


@pytest.mark.parametrize("answer", [None, np.nan])
def test_rows_before_a_failure_are_kept_and_say_when(answer):
    model, v0 = thrown()
    law = Regulator(model, raises_at=137, answer=answer)
    seen = []

    def run():
        return wt.simulate(model, v0=v0, duration=0.3, output_dt=0.01, controller=law, progress=seen.append, **RUN)

    if answer is None:
        with pytest.raises(ZeroDivisionError) as told:
            run()
        assert any("0.137" in note for note in told.value.__notes__)
    else:
        result = run()
        assert "t = 0.137 s" in result.attrs["failure"]
        assert np.isclose(result.time.values[-1], 0.13)
        whole = wt.simulate(model, v0=v0, duration=0.13, output_dt=0.01, controller=Regulator(model), **RUN)
        assert result.q.values.tobytes() == whole.q.values.tobytes()
    assert law.asked.count(137) == 1
    assert max(law.asked) == 137


def test_threads_ask_each_its_own():
    model, v0 = thrown()
    laws = [Regulator(model, stiffness) for stiffness in (0.0, 20.0)]
    alone = [wt.simulate(model, v0=v0, duration=0.1, controller=law, **RUN).q.values.tobytes() for law in laws]
    found = [None, None]

    def work(i):
        for _ in range(3):
            found[i] = wt.simulate(model, v0=v0, duration=0.1, controller=laws[i], **RUN).q.values.tobytes()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == alone
    assert alone[0] != alone[1]


def test_commands_in_python_beside_a_servo_at_the_end_of_its_range():
    arm = wt.Builder("arm").body("link", 1.0, center=(0.25, 0, 0), inertia=(0.01, 0.03, 0.03))
    arm.joint("hinge", "revolute", "world", "link", axis=(0, -1, 0)).geometry(
        "tip", "link", "sphere", radius=0.05, position=(0.5, 0, 0)
    )
    arm.actuator("servo", "hinge", gain=(1e4, 0, 0), bias=(0, -1e4, -50), force_range=(-20, 20))
    arm.actuator("motor", "hinge", gain=(1.0, 0, 0))
    model, asked = wt.on_ground(arm.build(), height=-0.3, friction=0.5), []

    def law(t, q, v):
        return np.array([-1.0 + 0 * t, -0.1 * v[0]])

    def in_python(t, q, v):
        asked.append(float(t))
        return law(t, q, v)

    runs = [wt.simulate(model, duration=0.5, output_dt=0.1, ctrl=ctrl, **RUN) for ctrl in (law, in_python)]
    assert len(asked) >= 500
    assert runs[0].contact_force.values[-1, 0, 0] > 20
    np.testing.assert_allclose(runs[1].q.values, runs[0].q.values, rtol=0, atol=1e-12)


def test_an_arm_that_touches_nothing_is_asked_by_its_kernel_too(monkeypatch):
    model, calls = wt.mechanisms.double_pendulum(), []
    monkeypatch.setattr(
        stepping_method, "asked_steps", lambda *given: calls.append(len(given[-1])) or asked_steps(*given)
    )

    def traced(t, q, v):
        return -0.3 * v - 2.0 * (q - model.home.q) + 0 * t

    def in_python(t, q, v):
        return traced(float(t), q, v)

    run = wt.simulate(model, duration=0.5, output_dt=0.02, controller=in_python, **RUN)
    assert sum(calls) > 400
    fine = wt.simulate(model, duration=0.5, output_dt=0.02, controller=traced)
    errors = [
        np.abs(wt.simulate(model, duration=0.5, output_dt=0.02, controller=in_python, **RUN | {"step": h}).q - fine.q)
        for h in (H, H / 2)
    ]
    assert run.contact_force.size == 0
    assert float(errors[0].max()) < 20 * H
    assert np.isclose(float(errors[0].max() / errors[1].max()), 2, rtol=0.2)  # first order


def on_a_table():
    """A box at the end of an arm that falls on a table."""
    b = wt.Builder("box on a table").geometry("table", "world", "box", size=(2, 2, 0.1), position=(0, 0, -0.05))
    b.body("cart", 1.0).joint("up", "prismatic", "world", "cart", axis=(0, 0, 1), start=0.12)
    b.body("box", 1.0, inertia=(0.01, 0.01, 0.01))
    b.joint("hinge", "revolute", "cart", "box", axis=(0, 1, 0))
    b.geometry("skin", "box", "box", size=(0.2, 0.2, 0.2)).contact("touch", "skin", "table", friction=0.5)
    return b.build()


def test_faces_that_begin_to_press_are_left_to_python_and_not_asked_for_again(monkeypatch):
    model, asked, taken, step = on_a_table(), [], [], ImpulseStep.step
    monkeypatch.setattr(ImpulseStep, "step", lambda self, t, *given: taken.append(t) or step(self, t, *given))

    def nothing(t, q, v):
        asked.append(round(float(t) / H))
        return np.zeros(2)

    still = wt.simulate(model, duration=0.2, output_dt=0.01, **RUN)
    of_python = len(taken)
    run = wt.simulate(model, duration=0.2, output_dt=0.01, controller=nothing, **RUN)
    assert len(taken) == 2 * of_python > 0  # it falls, and lands once
    assert run.contact_force.values[-1, :, 0].sum() == pytest.approx(2 * 9.81, rel=1e-6)
    assert [k for k in asked if k % 10] == [k for k in range(200) if k % 10]
    for name in ("q", "v", "contact_force"):
        assert run[name].values.tobytes() == still[name].values.tobytes()


def test_activations_follow_commands_in_python():
    b = wt.Builder("slow arm").body("link", 1.0, center=(0.25, 0, 0), inertia=(0.01, 0.03, 0.03))
    b.joint("hinge", "revolute", "world", "link", axis=(0, -1, 0), damping=0.1)
    b.geometry("tip", "link", "sphere", radius=0.05, position=(0.5, 0, 0))
    b.actuator("muscle", "hinge", gain=(8.0, 0, 0), activation=Activation("filter", (0.05,)))
    model, asked = wt.on_ground(b.build(), height=-0.3, friction=0.5), []

    def law(t, q, v):
        return np.array([0.5 - q[0] - 0.1 * v[0] + 0 * t])

    def in_python(t, q, v):
        asked.append(float(t))
        return law(t, q, v)

    runs = [wt.simulate(model, duration=0.4, output_dt=0.02, ctrl=ctrl, **RUN) for ctrl in (law, in_python)]
    assert 400 <= len(asked) <= 450
    assert np.abs(runs[0].act.values).max() > 0.3
    for name in ("q", "v", "act"):
        np.testing.assert_allclose(runs[1][name].values, runs[0][name].values, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", ["time_stepping", "adaptive"])
def test_an_interrupt_before_the_function_is_asked_is_not_lost(method, monkeypatch):
    """Where a signal is answered that came while machine code ran: ctypes would go on as if nothing were."""
    model, v0 = thrown() if method == "time_stepping" else (wt.mechanisms.double_pendulum(), np.ones(2))
    options = {"method": method, "output_dt": 0.005} | ({"step": H} if method == "time_stepping" else {})

    def in_python(t, q, v):
        return -0.1 * v + 0 * float(t)

    whole = wt.simulate(model, v0=v0, duration=1.0, controller=in_python, **options)
    places, arrays = [], PythonCall._arrays

    def interrupted(self, *given):
        places.append(given)
        if len(places) == 60:
            raise KeyboardInterrupt
        return arrays(self, *given)

    monkeypatch.setattr(PythonCall, "_arrays", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        run = wt.simulate(model, v0=v0, duration=1.0, controller=in_python, **options)
    assert "interrupted" in run.attrs["failure"]
    assert len(places) <= 61  # machine code may call once more before it hears of it; the function is not asked
    rows = run.sizes["time"]
    assert 1 <= rows < whole.sizes["time"]
    assert run.q.values.tobytes() == whole.q.values[:rows].tobytes()
