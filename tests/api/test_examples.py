"""Every numbered example runs, with warnings as errors, and leaves a picture that shows something."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
SKIPPED = 77
"""Exit status of an example that needs a package which is not installed."""
COLOURS = 40
"""A picture with fewer is blank or broken; plain curves with smooth edges have hundreds."""


def test_examples_are_numbered_without_gaps():
    assert len(EXAMPLES) >= 12
    assert [int(script.name[:2]) for script in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_says_what_to_learn(script):
    title, _, text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))).partition("\n")
    assert title.endswith((".", "?"))
    assert "What to learn" in " ".join(text.split())


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_runs_and_draws(script, tmp_path):
    from matplotlib.image import imread

    picture = tmp_path / "picture.png"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), str(picture)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "utf-8", "MPLBACKEND": "agg", "EXAMPLE_SECONDS": "2.0"},
        timeout=180,
        check=False,
    )
    if done.returncode == SKIPPED:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"wrote {picture}" in done.stdout
    pixels = imread(picture)
    if script.name >= "19":  # about control and learning: what moves is shown moving
        assert f"wrote {picture.with_suffix('.html')}" in done.stdout
        assert '"times": [0.0, ' in picture.with_suffix(".html").read_text(encoding="utf-8")
    assert len({tuple(pixel) for pixel in pixels[::4, ::4].reshape(-1, pixels.shape[-1])}) > COLOURS
