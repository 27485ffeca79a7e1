"""Side-by-side measurements: us, Pinocchio and MuJoCo in one run, alternating, medians, one thread."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported: its threads would count as one
