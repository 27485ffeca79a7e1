"""Side-by-side measurements: us, Pinocchio and MuJoCo in one run, alternating, medians, one thread."""
