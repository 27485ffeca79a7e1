"""Files as a whole or not at all, whatever stands in their way."""

import os
import threading
from pathlib import Path

import pytest

import whippletree as wt
from whippletree import cli
from whippletree.files.whole_files import write_whole


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"all of it")
    reader.join()
    assert read == [b"all of it"]
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full to stand for a full disk")
def test_a_full_disk_is_named(tmp_path):
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_whole("/dev/full", b"x")
    assert Path("/dev/full").is_char_device()


def test_the_folder_is_made_and_an_error_names_the_file_that_was_asked_for(tmp_path):
    place = tmp_path / "new" / "file"
    assert write_whole(place, b"x").read_bytes() == b"x"
    with pytest.raises(OSError, match=r"file/below'$"):
        write_whole(place / "below", b"x")
    assert os.listdir(place.parent) == ["file"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.nc", "run.zarr"])
def test_a_folder_of_something_else_is_not_removed(tmp_path, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr", reason="zarr is not installed: pip install 'whippletree[zarr]'")
    run = wt.simulate(wt.mechanisms.pendulum(), duration=0.1)
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.tex").write_text("years of work")
    with pytest.raises(OSError, match=name):
        wt.save_run(run, tmp_path / name)
    assert (tmp_path / name / "thesis.tex").read_text() == "years of work"


@pytest.mark.slow
def test_a_figure_goes_to_the_file_that_was_named_or_nowhere(tmp_path, capsys):
    run = wt.simulate(wt.mechanisms.pendulum(), duration=0.1)
    model = wt.mechanisms.pendulum()
    from whippletree.scenario.scenario_reader import with_model

    wt.save_run(with_model(run, model), tmp_path / "run.nc")
    assert cli.main(["plot", str(tmp_path / "run.nc"), "--output", str(tmp_path / "picture")]) == 2
    assert "give the file such a suffix" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["run.nc"]
    assert cli.main(["plot", str(tmp_path / "run.nc"), "--output", str(tmp_path / "new" / "picture.svg")]) == 0
    assert (tmp_path / "new" / "picture.svg").read_text().startswith("<?xml")
