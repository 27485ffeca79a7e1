"""A run kept on disk while it is computed, so that a killed process loses little and the same call takes it up again.

A checkpoint is a folder: ``run.json`` says which run it is, and each numbered part holds the output since the part
before, with all that the method needs to go on (:class:`~whippletree.simulation.method.Chunk`). A part is written
as a whole or not at all, so that a reader never sees half of one; ``finished.json`` comes
last. One process at a time computes a run: ``lock`` is locked as long as it lives.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.compiler.compiled import Compiled
from whippletree.compiler.fingerprint import fingerprint
from whippletree.errors import FileError
from whippletree.simulation.method import Chunk, Memo, Task, preview
from whippletree.whole_files import DRAFTS, write_whole

if TYPE_CHECKING:
    import xarray

Array = np.ndarray[Any, Any]

FORMAT = 2
_HEADER, _FINISHED, _LOCK = "run.json", "finished.json", "lock"
_TALLY = "tally"


class CheckpointWarning(UserWarning):
    """A checkpoint that could not be written; the run goes on without it."""


class Finished(NamedTuple):
    """What is left to say of a run that has come to its end."""

    failures: Mapping[int, str]
    """Of a batch: which runs have failed, and why."""
    account: Mapping[str, Any]


class Checkpoint:
    """The folder of one run, held against other processes until it is closed."""

    def __init__(self, folder: str | os.PathLike[str], every: float, identity: Mapping[str, str]) -> None:
        """``every``: seconds of computing between parts; ``identity``: what makes this run the one that it is."""
        self.folder = Path(folder)
        self.every = every
        self._waiting: list[Chunk] = []
        self._parts = 0
        self._last = time.monotonic()
        self._broken = False
        self.finished: Finished | None = None
        if self.folder.is_file():
            raise FileError(str(self.folder), ["a checkpoint is a folder, and this is a file: choose another name"])
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder)
        try:
            if (self.folder / _HEADER).exists():
                self._compare(identity)
            else:
                header = {"whippletree_checkpoint": FORMAT, **identity}
                write_whole(self.folder / _HEADER, json.dumps(header, indent=1).encode())
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.close()

    def _compare(self, identity: Mapping[str, str]) -> None:
        found = header(self.folder)
        other = [word for word, value in identity.items() if found.get(word) != value]
        if other:
            reason = f"the checkpoint is that of another run: {', '.join(other)} differ"
            raise FileError(str(self.folder), [f"{reason}; remove it or choose another folder"])

    def recalled(self) -> tuple[list[Chunk], dict[str, Any]]:
        """What was kept, in order, and the tally at its end.

        What comes behind a damaged part is removed, since it follows nothing, and so are drafts of a killed process.
        """
        found = list(read_parts(self.folder))
        self._parts = len(found)
        for stray in [*part_files(self.folder)[len(found) :], *self.folder.glob(DRAFTS)]:
            stray.unlink()
        self.finished = _finished(self.folder, len(found))
        if not found:
            return [], {}
        memo = dict(found[-1].memo)
        tally: dict[str, Any] = json.loads(str(memo.pop(_TALLY)))
        return [*found[:-1], replace(found[-1], memo=memo)], tally

    def add(self, chunk: Chunk, tally: Mapping[str, Any]) -> None:
        """Take a chunk, and what the method has counted up to it; written when it is time."""
        self._waiting.append(replace(chunk, memo=chunk.memo | {_TALLY: np.array(json.dumps(tally))}))
        if time.monotonic() - self._last >= self.every:
            self.write()

    def write(self) -> None:
        """Write what is waiting as one part; a disk that refuses costs a warning, not the run."""
        if not self._waiting or self._broken:
            return
        try:
            _write_part(self.folder / f"{self._parts:06d}.npz", self._waiting)
        except OSError as error:
            self._refused(error)
        else:
            self._parts += 1
        self._waiting = []
        self._last = time.monotonic()

    def finish(self, end: Finished) -> None:
        """Note that the run has come to its end."""
        if self._broken:
            return
        text = json.dumps({"parts": self._parts, "failures": dict(end.failures), "account": dict(end.account)})
        try:
            write_whole(self.folder / _FINISHED, text.encode())
        except OSError as error:
            self._refused(error)

    def _refused(self, error: OSError) -> None:
        self._broken = True
        warnings.warn(
            f"checkpoint {self.folder}: {error.strerror or error}; the run goes on without further checkpoints, "
            f"and can be taken up from the {self._parts} parts before",
            CheckpointWarning,
            stacklevel=2,
        )


def identity(dyn: Compiled, task: Task, controller: object, settings: object) -> dict[str, str]:
    """What makes a run the one that it is, in words that a message can use; all but the controller's own code."""
    model = dyn.model
    content = fingerprint(model).hex()
    return {
        "model": model.name,
        "nq": str(model.nq),
        # a model with a user's function in it has no content to go by
        "content of the model": content if content == fingerprint(model).hex() else "",
        "start": hashlib.sha256(task.start.tobytes()).hexdigest(),
        "output times": hashlib.sha256(task.times.tobytes()).hexdigest(),
        "controller": "none" if controller is None else getattr(controller, "__qualname__", type(controller).__name__),
        "events": ", ".join(event.name for event in task.events),
        "settings": repr(settings),
    }


def _locked(folder: Path) -> IO[str]:
    """The folder's lock file, locked until it is closed or the process ends, however it ends.

    Raises:
        FileError: another process computes this run.
    """
    file = (folder / _LOCK).open("w")
    try:
        import fcntl
    except ImportError:  # no such locks on this system: two processes write the same bits to the same parts
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        reason = "another process is computing this run: wait for it, stop it, or choose another folder"
        raise FileError(str(folder), [reason]) from None
    except OSError:  # a file system without locks
        return file
    return file


def _finished(folder: Path, parts: int) -> Finished | None:
    """What a run has left at its end; None if it has not come there, or if parts are lost since."""
    try:
        found = json.loads((folder / _FINISHED).read_text())
        failures = {int(run): why for run, why in found["failures"].items()}
        return Finished(failures, found["account"]) if found["parts"] == parts else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def header(folder: Path) -> dict[str, Any]:
    """Which run a folder keeps.

    Raises:
        FileError: if it keeps none.
    """
    try:
        found = json.loads((folder / _HEADER).read_text())
    except FileNotFoundError:
        raise FileError(str(folder), [f"there is no {_HEADER}: not a checkpoint"]) from None
    except ValueError as error:
        raise FileError(str(folder), [f"{_HEADER} is damaged ({error}): remove the folder"]) from None
    if not isinstance(found, dict) or found.get("whippletree_checkpoint") != FORMAT:
        raise FileError(str(folder), [f"{_HEADER} is not that of a checkpoint of format {FORMAT}"])
    return found


def part_files(folder: Path) -> list[Path]:
    """The parts, in order, up to the first gap."""
    found: list[Path] = []
    while (part := folder / f"{len(found):06d}.npz").exists():
        found.append(part)
    return found


def read_parts(folder: Path) -> Iterator[Chunk]:
    """The chunks of all parts; a damaged part ends them."""
    for path in part_files(folder):
        try:
            with path.open("rb") as file, np.load(file) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return
        yield _chunk(arrays)


def read_checkpoint(folder: str | os.PathLike[str]) -> xarray.Dataset:
    """What a run has left in its checkpoint so far: time and states, and what its method has worked out beside them.

    Raises:
        FileError: if there is no checkpoint, or nothing in it yet.
    """
    import xarray

    place = Path(folder)
    about = header(place)
    chunks = list(read_parts(place))
    if not chunks:
        raise FileError(str(place), ["nothing has been kept yet"])
    if not any(len(chunk.times) for chunk in chunks):  # a batch, run by run: its rows are handed out at the end
        chunks = [preview(chunks[-1].memo) or chunks[-1]]
    states = np.concatenate([chunk.states for chunk in chunks])
    across = ("time",) if states.ndim == 2 else ("time", "run")
    nq = int(about["nq"])
    variables: dict[str, Any] = {
        "q": ((*across, "coordinate"), states[..., :nq]),
        "v": ((*across, "velocity"), states[..., nq:]),
    }
    for name in chunks[0].variables:
        values = np.concatenate([chunk.variables[name] for chunk in chunks])
        variables[name] = ((*across, *(f"{name}_{i}" for i in range(values.ndim - len(across)))), values)
    times = np.concatenate([chunk.times for chunk in chunks])
    events = [event for chunk in chunks for event in chunk.events]
    attributes = {"model": about["model"], "event_names": [n for n, _ in events], "event_times": [t for _, t in events]}
    return xarray.Dataset(variables, coords={"time": ("time", times, {"units": "s"})}, attrs=attributes)


def _write_part(path: Path, chunks: Sequence[Chunk]) -> None:
    """Several chunks as one: all their rows, and the memo of the last."""
    arrays: dict[str, Any] = {
        "times": np.concatenate([chunk.times for chunk in chunks]),
        "states": np.concatenate([chunk.states for chunk in chunks]),
        "events": np.array(json.dumps([event for chunk in chunks for event in chunk.events])),
    }
    for name in chunks[-1].variables:
        arrays[f"variable {name}"] = np.concatenate([chunk.variables[name] for chunk in chunks])
    for name, value in chunks[-1].memo.items():
        arrays[f"memo {name}"] = value
    file = io.BytesIO()
    np.savez(file, **arrays)
    write_whole(path, file.getbuffer())


def _chunk(arrays: Mapping[str, Array]) -> Chunk:
    memo: Memo = {name[5:]: value for name, value in arrays.items() if name.startswith("memo ")}
    variables = {name[9:]: value for name, value in arrays.items() if name.startswith("variable ")}
    events = tuple((str(name), float(when)) for name, when in json.loads(str(arrays["events"])))
    return Chunk(arrays["times"], arrays["states"], memo, events, variables)
