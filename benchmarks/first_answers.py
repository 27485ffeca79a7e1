"""Where the time of a first answer goes: ``wt.simulate`` for 0.1 s in fresh processes, with nothing cached and cached.

    python -m benchmarks.first_answers [--folder GYMNASIUM] [--scenes panda …]

Seconds of processor time. *xarray* is its import with that of pandas, *ours* all other imports, *load* the model,
*expressions* what is traced and checked, *LLVM* what it compiles; *rest* is the run itself, with the loading of code
from the cache. The folder is that of gymnasium's MuJoCo files, for the ant and the humanoid; without one they are left
out, unless gymnasium is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROCESS = """
import json, sys, time
began = time.process_time()
import whippletree as wt
from whippletree.compiler.llvm import jit, kernel
import whippletree.simulation.run, whippletree.compiler.frontend.unrolled
jit.llvm()
imported = time.process_time()
import xarray
drawn = time.process_time()
model = eval(sys.argv[1])
loaded = time.process_time()
spent = {"expressions": 0.0, "LLVM": 0.0}
def timed(owner, name, what):
    inner = getattr(owner, name)
    def outer(*arguments, **options):
        start = time.process_time()
        try:
            return inner(*arguments, **options)
        finally:
            spent[what] += time.process_time() - start
    setattr(owner, name, outer)
timed(kernel.Kernel, "_build", "expressions")
timed(jit, "object_code", "LLVM")
wt.simulate(model, duration=0.1, method=sys.argv[2])
done = time.process_time()
print(json.dumps({"ours": imported - began, "xarray": drawn - imported, "load": loaded - drawn, **spent,
                  "rest": done - loaded - sum(spent.values()), "all": done - began}))
"""

ROBOT = "__import__('benchmarks.robots').robots.model_of(next(r for r in __import__('benchmarks.robots').robots.ROBOTS "
SCENES = {
    "double pendulum": ("wt.mechanisms.double_pendulum()", "adaptive"),
    "four-bar": ("wt.mechanisms.four_bar()", "adaptive"),
    "Panda": (f"{ROBOT} if 'anda' in r.name))", "time_stepping"),
    "hopper by events": ("wt.mechanisms.hopper()", "events"),
    "ant": ("wt.load(r'{folder}/ant.xml')", "time_stepping"),
    "humanoid": ("wt.load(r'{folder}/humanoid.xml')", "time_stepping"),
}
"""How each model is made, and the method of its run."""


def measured(model: str, method: str, cache: str) -> dict[str, float]:
    """Seconds by what they are spent on, in a fresh process."""
    # Python's own cache of bytecode is left as users have it, whatever this shell says
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["WHIPPLETREE_CACHE"] = cache
    arguments = [sys.executable, "-W", "ignore", "-c", PROCESS, model, method]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def gymnasium_folder(given: str | None) -> Path | None:
    """Where gymnasium's files of robots are, if anywhere."""
    found = importlib.util.find_spec("gymnasium")
    if given is not None or found is None or found.origin is None:
        return None if given is None else Path(given)
    return Path(found.origin).parent / "envs" / "mujoco" / "assets"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", help="with ant.xml and humanoid.xml")
    parser.add_argument("--scenes", nargs="*", default=list(SCENES), help="names of scenes")
    arguments = parser.parse_args()
    folder = gymnasium_folder(arguments.folder)
    words = ("all", "ours", "xarray", "load", "expressions", "LLVM", "rest")
    print(f"{'':>28}" + "".join(f"{word:>12}" for word in words))
    for name in arguments.scenes:
        text, method = SCENES[name]
        if "{folder}" in text and folder is None:
            continue
        with tempfile.TemporaryDirectory() as cache:
            for state in ("nothing cached", "cached"):
                found = measured(text.format(folder=folder), method, cache)
                row = "".join(f"{found[word]:12.2f}" for word in words)
                print(f"{name if state != 'cached' else '  cached':>28}{row}", flush=True)


if __name__ == "__main__":
    main()
