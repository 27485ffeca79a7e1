"""Who computes the tasks of a sweep: this process, processes of this machine, or a dask cluster.

An engine takes tasks and gives receipts, in any order; workers write the data themselves. A worker that dies is
replaced and its task given to another: a task is a function of its number, so nothing is lost or counted twice.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Protocol

from whippletree.campaigns.run_blocks import Work, compute_block
from whippletree.campaigns.store import Receipt, Store
from whippletree.errors import MissingExtraError, UnsupportedError

DEATHS = 3
"""Workers that may die over one task before it is taken as the cause."""

FALSE_STARTS = 20
"""Workers that may die one after the other before they have begun."""

READY = "ready\n"
"""Greeting of a worker that waits for its first task."""

TASKS_AHEAD = 3
"""Tasks for each worker of a cluster that are under way or wait there, so that none idles."""


@dataclass(frozen=True, eq=False)
class Job:
    """All that a worker needs: what to compute, where to put it, and which runs make a task."""

    work: Work
    folder: Path
    runs_per_task: int
    version: str
    """Version of whippletree, where the sweep was begun."""

    def do(self, task: int) -> Receipt:
        """Compute a task, keep it, and tell."""
        begun = time.perf_counter()
        first = task * self.runs_per_task
        last = min(first + self.runs_per_task, self.work.design.runs)
        block = compute_block(self.work, first, last)
        digest = Store(self.folder).write(task, block)
        failures = sum(1 for text in block.columns["failure"] if text)
        return Receipt(task, digest, last - first, failures, time.perf_counter() - begun)


class Engine(Protocol):
    """Somebody who does tasks."""

    def receipts(self, job: Job, tasks: Sequence[int]) -> Iterator[Receipt]:
        """A receipt for each task when it is done; stops with the first that cannot be done."""


class Here:
    """This process, one task after the other."""

    def receipts(self, job: Job, tasks: Sequence[int]) -> Iterator[Receipt]:
        for task in tasks:
            yield job.do(task)


# --- processes of this machine ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Processes:
    """Workers on this machine; each runs :mod:`whippletree.campaigns.worker`, so scripts need no main guard."""

    workers: int

    def receipts(self, job: Job, tasks: Sequence[int]) -> Iterator[Receipt]:
        data = pickle_job(job)
        waiting, answers = deque(tasks), SimpleQueue[tuple[_Worker, str]]()
        deaths: Counter[int | None] = Counter()
        workers = [_Worker(data, answers) for _ in range(min(self.workers, len(tasks)))]
        left = len(tasks)
        try:
            while left:
                worker, line = answers.get()
                if not line:
                    workers.remove(worker)
                    worker.end()
                    _count_death(worker, deaths)
                    if worker.task is not None:
                        waiting.append(worker.task)  # at the end: who kills workers at random finds another task
                    workers.append(_Worker(data, answers))
                    continue
                deaths[None] = 0
                if line != READY:
                    left -= 1
                    yield _receipt(line)
                worker.task = None
                if waiting:
                    worker.give(waiting.popleft())
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """One process, and a thread that listens to it."""

    def __init__(self, data: bytes, answers: SimpleQueue[tuple[_Worker, str]]) -> None:
        # as many threads as there are workers would share the cores otherwise
        environment = os.environ | {"WHIPPLETREE_THREADS": "1"}
        command = [sys.executable, "-m", "whippletree.campaigns.worker"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.task: int | None = None
        self._ended = False
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()
        self._write(struct.pack(">Q", len(data)) + data)

    def give(self, task: int) -> None:
        self.task = task
        self._write(f"{task}\n".encode())

    def end(self) -> None:
        self._ended = True
        self.process.terminate()
        self.process.wait()
        with suppress(BrokenPipeError):
            if self.process.stdin is not None:
                self.process.stdin.close()

    def _write(self, data: bytes) -> None:
        stream: Any = self.process.stdin
        with suppress(BrokenPipeError):  # that it has died is told by its silence
            stream.write(data)
            stream.flush()

    def _listen(self, answers: SimpleQueue[tuple[_Worker, str]]) -> None:
        stream: Any = self.process.stdout
        with stream:
            for line in stream:
                answers.put((self, line.decode()))
        if not self._ended:
            answers.put((self, ""))


def _count_death(worker: _Worker, deaths: Counter[int | None]) -> None:
    """Take note of a worker that has died, over a task or, None, before it was ready.

    Raises:
        RuntimeError: too many have died over one task, or one after the other before they were ready.
    """
    task, code = worker.task, worker.process.wait()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    deaths[task] += 1
    if task is None and deaths[task] >= FALSE_STARTS:
        raise RuntimeError(f"sweep: workers do not start ({how}): what they print on standard error says why")
    if task is not None and deaths[task] >= DEATHS:
        raise RuntimeError(
            f"sweep: {DEATHS} workers died over task {task} ({how}): its runs may need more memory than there is "
            f"(fewer runs_per_task), or crash the interpreter. What other tasks have written is kept"
        )


def _receipt(line: str) -> Receipt:
    answer = json.loads(line)
    if "error" in answer:
        raise _errors()[answer["kind"]](*answer["error"])
    return Receipt(**answer)


def _errors() -> dict[str, Any]:
    """The error to raise here for one of a worker: a disk that is full stays an OSError."""
    return {"OSError": OSError, "other": RuntimeError}


def serve(stdin: IO[bytes], tell: Any) -> None:
    """A worker's life: a job, then tasks, until there are no more."""
    size = stdin.read(8)
    if len(size) < 8:
        return
    job = unpickle_job(stdin.read(*struct.unpack(">Q", size)))
    tell(READY)
    for line in stdin:
        try:
            answer: dict[str, Any] = job.do(int(line))._asdict()
        except OSError as error:
            answer = {"kind": "OSError", "error": [error.errno, error.strerror or str(error), error.filename]}
        except Exception as error:
            answer = {"kind": "other", "error": [f"sweep: task {int(line)} failed: {type(error).__name__}: {error}"]}
        tell(json.dumps(answer) + "\n")


def pickle_job(job: Job) -> bytes:
    """A job for other processes; functions of a user's script travel by value."""
    try:
        import cloudpickle
    except ImportError as error:
        raise MissingExtraError("wt.sweep with several workers", "cloudpickle", "sweep") from error
    try:
        return bytes(cloudpickle.dumps(job))
    except (TypeError, AttributeError) as error:
        raise UnsupportedError(
            f"sweep: what runs are made of cannot travel to other processes ({error}): keep open files, locks and "
            f"compiled functions out of controllers and metrics, or use workers=1"
        ) from None


def unpickle_job(data: bytes) -> Job:
    """The job from its bytes, in a worker."""
    import pickle

    job: Job = pickle.loads(data)
    return job


# --- dask -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Dask:
    """Workers of ``dask.distributed``: an address, or a client."""

    where: Any

    def receipts(self, job: Job, tasks: Sequence[int]) -> Iterator[Receipt]:
        try:
            import distributed
        except ImportError as error:
            raise MissingExtraError("engine='dask'", "distributed", "cluster") from error
        library: Any = distributed  # it has no types
        own = not isinstance(self.where, library.Client)
        client = _connect(library.Client, self.where) if own else self.where
        try:
            _require_one_version(client, job.version)
            data = client.scatter(pickle_job(job), broadcast=True)
            waiting = iter(tasks)

            def submit(count: int) -> list[Any]:
                chosen = islice(waiting, count)
                return [client.submit(do_there, data, k, key=_key(job, k), retries=DEATHS, pure=False) for k in chosen]

            done = library.as_completed(submit(TASKS_AHEAD * max(1, sum(client.ncores().values()))))
            for future in done:
                yield Receipt(*future.result())
                done.update(submit(1))
        except (Exception, library.client.FutureCancelledError) as error:
            if client.status == "running" and isinstance(error, Exception):
                raise
            raise OSError(
                f"sweep: the dask scheduler has gone ({type(error).__name__}): what is written is kept, and the call "
                f"again, with a scheduler that answers or with another engine, does the rest"
            ) from None
        finally:
            if own:
                client.close()


def do_there(data: bytes, task: int) -> tuple[Any, ...]:
    """A task on a worker of the cluster."""
    return tuple(_known_job(data).do(task))


_JOBS: dict[int, tuple[bytes, Job]] = {}


def _known_job(data: bytes) -> Job:
    """Unpickled once in a process, so that what it compiles is compiled once."""
    key = hash(data)
    if key not in _JOBS or _JOBS[key][0] != data:
        _JOBS.clear()
        _JOBS[key] = data, unpickle_job(data)
    return _JOBS[key][1]


def _key(job: Job, task: int) -> str:
    return f"sweep-{abs(hash(str(job.folder))):x}-{task}"


def _connect(client: Any, address: str) -> Any:
    try:
        if address == "dask":
            return client(processes=True, threads_per_worker=1)
        return client(address, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        raise OSError(f"sweep: no dask scheduler answers at {address!r}: {error}") from None


def _require_one_version(client: Any, version: str) -> None:
    found = client.run(_version)
    other = {worker: theirs for worker, theirs in found.items() if theirs != version}
    if not found:
        raise UnsupportedError("sweep: the cluster has no workers yet: start some, or wait for them")
    if other:
        worker, theirs = next(iter(other.items()))
        raise UnsupportedError(
            f"sweep: worker {worker} has whippletree {theirs}, this is {version}: install one version everywhere"
        )


def _version() -> str:
    import whippletree

    return whippletree.__version__
