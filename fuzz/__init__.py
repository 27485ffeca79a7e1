"""Fuzzers of the project: seeded attacks, one loop, one table of outcomes. ``make fuzz`` runs them all.

    trial       what one trial may come to, one loop over seeds with a limit of time, and the table
    files       damaged model and mesh files through every reader
    calls       anything for arguments of any function, compiled and in the reference
    cache       damaged entries of the cache of compiled code
    kills       runs that are killed and taken up again
    hostile     mechanisms that lose digits: predicted errors against the truth of 120 digits
    answers     every function of such mechanisms, and of others: bounds hold, and no loss of digits is silent
    scenes      shapes thrown onto the ground: no energy out of nothing, nothing through the floor
    routes      random closed mechanisms through every route

A trial is a function of a seed and a folder, ``try_one(seed, folder)``, that answers with what came of it. It is
faultless if that was an answer or an error of this library that names its cause. Generators and oracles are those of
``tests/``. Every fuzzer runs in a process of its own, so that a crash is an outcome too.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
