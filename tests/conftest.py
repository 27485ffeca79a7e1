"""Hypothesis profiles for all tests (``strategies.py`` beside this file is found through pytest's ``pythonpath``)."""

from hypothesis import HealthCheck, settings

# "ci" is the profile that pyproject.toml asks for: the same examples every time, few enough for a busy machine
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
# by hand, when a change deserves it: pytest --hypothesis-profile=thorough tests/identities
settings.register_profile("thorough", settings.get_profile("ci"), derandomize=False, max_examples=500)
