"""A run kept on disk while it is computed, so that a killed process loses little and the same call takes it up again.

A checkpoint is a folder: ``run.json`` says which run it is (:mod:`whippletree.simulation.run_identity`), and each
numbered part holds the output since the part before, with all that the method needs to go on
(:class:`~whippletree.simulation.method.Chunk`). A part is written as a whole or not at all, so that a reader never sees
half of one; ``finished.json`` comes last. Every file ends with a seal: a digest of its content, by which damage is
found before anything is read, and of the run that it belongs to. One process at a time computes a run: ``lock`` is
locked as long as it lives.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError, warn_caller
from whippletree.files.whole_files import DRAFTS, write_whole
from whippletree.simulation.method import Chunk, Memo, preview
from whippletree.simulation.run_identity import INCOMPARABLE

if TYPE_CHECKING:
    import xarray


CHECKPOINT_FORMAT = 4
_HEADER, _FINISHED, _LOCK = "run.json", "finished.json", "lock"
_SEAL = hashlib.sha256().digest_size
"""Bytes at the end of a part: a digest of all that comes before."""
_TALLY, _RUN = "tally", "run"
"""Entries of a part's memo beside the method's own: what was counted, and which run it belongs to."""


DIFFERENCES_MENTIONED = 4
"""Differences that a message lists."""

CHARACTERS_SHOWN = 64
"""Characters up to which both values of a difference are shown: a digest says nothing."""


class CheckpointWarning(UserWarning):
    """A checkpoint that could not be written; the run goes on without it."""


class ClosingFacts(NamedTuple):
    """Closing facts of a run that has come to its end."""

    failures: Mapping[int, str]
    """Runs of a batch that have failed, and why."""
    account: Mapping[str, Any]


class Checkpoint:
    """The folder of one run, held against other processes until it is closed."""

    def __init__(self, folder: str | os.PathLike[str], every: float, identity: Mapping[str, str]) -> None:
        """``every``: seconds of computing between parts; ``identity``: what makes this run the one that it is."""
        self.folder = Path(folder)
        self.every = every
        self.waiting: list[Chunk] = []
        """Chunks that are not written yet."""
        self._parts = 0
        self._last = time.monotonic()
        self._broken = False
        self.finished: ClosingFacts | None = None
        if self.folder.is_file():
            raise FileError(str(self.folder), ["a checkpoint is a folder, and this is a file: choose another name"])
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(str(self.folder), [f"no folder for a checkpoint can be made here: {error}"]) from error
        self._lock = _lock(self.folder)
        try:
            if (self.folder / _HEADER).exists():
                self.header = read_header(self.folder)
                self._compare(identity)
            else:
                self.header = Header(dict(identity))
                self._warn_of_incomparable()
                write_whole(self.folder / _HEADER, self.header.pack())
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.close()

    def _compare(self, identity: Mapping[str, str]) -> None:
        other = self.header.differences(identity)
        if other:
            reason = f"the checkpoint is that of another run: {_tell_differences(other)}"
            raise FileError(str(self.folder), [f"{reason}; remove it or choose another folder"])
        if unknown := self.header.incomparable:
            raise FileError(
                str(self.folder),
                [
                    f"whether this is the same run cannot be told: {unknown}. wt.read_checkpoint shows what was kept; "
                    f"to compute the run again, remove the checkpoint or choose another folder"
                ],
            )

    def _warn_of_incomparable(self) -> None:
        if self.header.incomparable:
            warn_caller(
                f"checkpoint {self.folder}: {self.header.incomparable}. The run is kept and wt.read_checkpoint reads "
                f"it, but no later call can take it up: it could not tell that it is the same run",
                CheckpointWarning,
            )

    def note_changes(self, identity: Mapping[str, str]) -> None:
        """Note what the run itself has written to, a controller's list of calls say: it is not compared later."""
        changed = set(self.header.changing) | set(self.header.differences(identity))
        if changed == set(self.header.changing) or self._broken:
            return
        self.header = replace(self.header, changing=tuple(sorted(changed)))
        try:
            write_whole(self.folder / _HEADER, self.header.pack())
        except OSError as error:
            self._note_broken(error)

    def recall(self) -> tuple[list[Chunk], dict[str, Any]]:
        """The parts that were kept, in order, and the tally at their end.

        What comes behind a damaged part is removed, since it follows nothing, and so are drafts of a killed process.
        """
        found = list(read_parts(self.folder, self.header))
        self._parts = len(found)
        for stray in [*part_files(self.folder)[len(found) :], *self.folder.glob(DRAFTS)]:
            stray.unlink()
        self.finished = _closing_facts(self.folder, self.header, len(found))
        if not found:
            return [], {}
        memo = dict(found[-1].memo)
        tally: dict[str, Any] = json.loads(str(memo.pop(_TALLY)))
        return [*found[:-1], replace(found[-1], memo=memo)], tally

    def label(self, chunk: Chunk, tally: Mapping[str, Any]) -> Chunk:
        """A chunk with what the method has counted up to it, and the run that it is of: to be put among those that are
        ``waiting``."""
        own = {_TALLY: np.array(json.dumps(tally)), _RUN: np.array(self.header.run)}
        return replace(chunk, memo=chunk.memo | own)

    def write_in_time(self) -> None:
        """Write what is waiting when it is time."""
        if time.monotonic() - self._last >= self.every:
            self.write()

    def write(self) -> None:
        """Write what is waiting as one part; a disk that refuses costs a warning, not the run."""
        if not self.waiting or self._broken:
            return
        try:
            _write_part(self.folder / f"{self._parts:06d}.npz", self.waiting)
        except OSError as error:
            self._note_broken(error)
        else:
            self._parts += 1
        self.waiting = []
        self._last = time.monotonic()

    def finish(self, end: ClosingFacts) -> None:
        """Note that the run has come to its end."""
        if self._broken:
            return
        content = {"parts": self._parts, "failures": dict(end.failures), "account": dict(end.account)}
        try:
            write_whole(self.folder / _FINISHED, _seal_content(content | {"run": self.header.run}))
        except OSError as error:
            self._note_broken(error)

    def _note_broken(self, error: OSError) -> None:
        self._broken = True
        warn_caller(
            f"checkpoint {self.folder}: {error.strerror or error}; the run goes on without further checkpoints, "
            f"and can be taken up from the {self._parts} parts before",
            CheckpointWarning,
        )


def _lock(folder: Path) -> IO[str]:
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


def _closing_facts(folder: Path, about: Header, parts: int) -> ClosingFacts | None:
    """Closing facts that a run has left; None if it has not come there, or if parts are lost since."""
    try:
        found = _unseal_content((folder / _FINISHED).read_bytes())
    except (OSError, ValueError):
        return None
    if found["run"] != about.run:
        raise FileError(str(folder), [f"{_FINISHED} is that of another run: remove the folder or choose another"])
    failures = {int(run): why for run, why in found["failures"].items()}
    return ClosingFacts(failures, found["account"]) if found["parts"] == parts else None


@dataclass(frozen=True)
class Header:
    """Which run a folder keeps."""

    identity: Mapping[str, str]
    """Words and texts that are equal for equal runs."""
    changing: tuple[str, ...] = ()
    """Words whose value the run itself has changed: nothing that it was given."""

    @cached_property
    def run(self) -> str:
        """A short name of the run, which its other files carry."""
        return hashlib.sha256(json.dumps(dict(self.identity)).encode()).hexdigest()

    @property
    def incomparable(self) -> str:
        """Parts without content to compare, in words; empty if there is nothing like that."""
        found = {word: text for word, text in self.identity.items() if text.startswith(INCOMPARABLE)}
        return "; ".join(f"{word} {text}" for word, text in list(found.items())[:DIFFERENCES_MENTIONED])

    def differences(self, identity: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """Words whose texts are not those of another identity, with both texts: here and there; empty for none."""
        words = [*self.identity, *(word for word in identity if word not in self.identity)]
        texts = {word: (self.identity.get(word, ""), identity.get(word, "")) for word in words}
        return {word: both for word, both in texts.items() if both[0] != both[1] and not self._changes(word)}

    def _changes(self, word: str) -> bool:
        """Whether the run writes to a value; where a list grows, new items are a part of it."""
        return word in self.changing or any(word.startswith(f"{known.partition('[')[0]}[") for known in self.changing)

    def pack(self) -> bytes:
        """The header as the text of a file."""
        content = {
            "whippletree_checkpoint": CHECKPOINT_FORMAT,
            "identity": dict(self.identity),
            "changing": list(self.changing),
        }
        return _seal_content(content)


def read_header(folder: Path) -> Header:
    """Which run a folder keeps.

    Raises:
        FileError: if it keeps none, or if its header is damaged.
    """
    try:
        data = (folder / _HEADER).read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        raise FileError(str(folder), [f"there is no {_HEADER}: not a checkpoint"]) from None
    try:
        found = _unseal_content(data)
    except ValueError as error:
        raise FileError(str(folder), [f"{_HEADER} is {error}: remove the folder"]) from None
    return Header(found["identity"], tuple(found["changing"]))


def _tell_differences(differences: Mapping[str, tuple[str, str]]) -> str:
    """Which parts of a run differ, and in what, as far as that can be shown in short."""
    parts = list(dict.fromkeys(re.split(r"[:.\[]", word)[0] for word in differences))
    details = []
    # what is there in both says more than what hangs on it
    for word, (then, now) in sorted(differences.items(), key=lambda item: "" in item[1]):
        if word not in parts:
            shown = then and now and max(len(then), len(now)) < CHARACTERS_SHOWN
            details.append(f"{word} was {then}, is {now}" if shown else word)
    more = f"; and {len(details) - DIFFERENCES_MENTIONED} more" * (len(details) > DIFFERENCES_MENTIONED)
    verb = "differs" if len(parts) == 1 and not parts[0].endswith("s") else "differ"
    listed = "; ".join(details[:DIFFERENCES_MENTIONED])
    return f"{', '.join(parts)} {verb}" + f" ({listed}{more})" * bool(details)


def _seal_content(content: Mapping[str, Any]) -> bytes:
    """Content as JSON, with a digest of itself."""
    return json.dumps({**content, "seal": _seal(content)}, indent=1).encode()


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _unseal_content(data: bytes) -> dict[str, Any]:
    """The content of a sealed text.

    Raises:
        ValueError: if it is damaged, or of another format.
    """
    try:
        found = json.loads(data)
        known = isinstance(found, dict) and found.pop("seal", None) == _seal(found)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"damaged ({type(error).__name__})") from None
    if isinstance(found, dict) and found.get("whippletree_checkpoint", CHECKPOINT_FORMAT) != CHECKPOINT_FORMAT:
        raise ValueError(f"not that of a checkpoint of format {CHECKPOINT_FORMAT}")
    if not known:
        raise ValueError("damaged: it does not match its own seal")
    return dict(found)


def part_files(folder: Path) -> list[Path]:
    """The parts, in order, up to the first gap."""
    found: list[Path] = []
    while (part := folder / f"{len(found):06d}.npz").is_file():
        found.append(part)
    return found


def read_parts(folder: Path, about: Header) -> Iterator[Chunk]:
    """The chunks of all parts; a damaged part ends them.

    Raises:
        FileError: at a part that is whole but belongs to another run.
    """
    for path in part_files(folder):
        try:
            data = path.read_bytes()
        except OSError:
            return
        body, seal = data[:-_SEAL], data[-_SEAL:]
        if seal != _part_seal(path, body):
            return
        with np.load(io.BytesIO(body)) as stored:
            chunk = _chunk({name: stored[name] for name in stored.files})
        if str(chunk.memo.pop(_RUN)) != about.run:
            reason = f"part {path.name} is that of another run: remove it and what follows, or choose another folder"
            raise FileError(str(folder), [reason])
        yield chunk


def _part_seal(path: Path, data: bytes) -> bytes:
    """A digest of a part and of its place in the order."""
    return hashlib.sha256(path.name.encode() + data).digest()


def read_checkpoint(folder: str | os.PathLike[str]) -> xarray.Dataset:
    """Contents of a run's checkpoint so far: time and states, and what its method has worked out beside them.

    Raises:
        FileError: if there is no checkpoint, or nothing in it yet.
    """
    import xarray

    place = Path(folder)
    about = read_header(place)
    chunks = list(read_parts(place, about))
    if not chunks:
        raise FileError(str(place), ["nothing has been kept yet"])
    if not any(len(chunk.times) for chunk in chunks):  # a batch, run by run: its rows are handed out at the end
        chunks = [preview(chunks[-1].memo) or chunks[-1]]
    states = np.concatenate([chunk.states for chunk in chunks])
    across = ("time",) if states.ndim == 2 else ("time", "run")
    nq, nv = int(about.identity["nq"]), int(about.identity["nv"])
    variables: dict[str, Any] = {
        "q": ((*across, "coordinate"), states[..., :nq]),
        "v": ((*across, "velocity"), states[..., nq : nq + nv]),
    }
    if states.shape[-1] > nq + nv:
        variables["act"] = (*across, "activation"), states[..., nq + nv :]
    for name in chunks[0].variables:
        values = np.concatenate([chunk.variables[name] for chunk in chunks])
        variables[name] = ((*across, *(f"{name}_{i}" for i in range(values.ndim - len(across)))), values)
    times = np.concatenate([chunk.times for chunk in chunks])
    events = [event for chunk in chunks for event in chunk.events]
    attributes = {
        "model": about.identity["model"],
        "event_names": [n for n, _ in events],
        "event_times": [t for _, t in events],
    }
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
    # a reader of .npz files takes no notice of what follows the archive
    file.write(_part_seal(path, file.getvalue()))
    write_whole(path, file.getbuffer())


def _chunk(arrays: Mapping[str, Array]) -> Chunk:
    memo: Memo = {name[5:]: value for name, value in arrays.items() if name.startswith("memo ")}
    variables = {name[9:]: value for name, value in arrays.items() if name.startswith("variable ")}
    events = tuple((str(name), float(when)) for name, when in json.loads(str(arrays["events"])))
    return Chunk(arrays["times"], arrays["states"], memo, events, variables)
