"""The folder of a sweep: a manifest, and parts that workers write themselves, each whole or not at all.

    manifest.json                        what the sweep is: design, parameters, what is kept, versions
    parts/00000017-3f2a….parquet         a row for each run of task 17: parameters, failure, final state, metrics
    series/00000017-3f2a….zarr           its time series, where they are kept
    events/00000017-3f2a….parquet        its events, where they are kept

A part carries the digest of its content in its name: one that is computed again, by whomever, has the same name or is
wrong. The table of a task is written last, so a task is there if its table is.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.campaigns.run_blocks import RunBlock
from whippletree.errors import FileError, MissingExtraError
from whippletree.files.whole_files import DRAFTS, write_whole

if TYPE_CHECKING:
    import pyarrow
    import xarray

SWEEP_VERSION = 1
MANIFEST = "manifest.json"


class Receipt(NamedTuple):
    """Report of a worker on a task that is done; the data stays where the worker wrote it."""

    task: int
    digest: str
    runs: int
    failures: int
    seconds: float


@dataclass(frozen=True)
class Store:
    """The folder of one sweep."""

    folder: Path

    # --- what the sweep is --------------------------------------------------------------------------------------------

    @property
    def manifest(self) -> dict[str, Any]:
        """The record written when the sweep began.

        Raises:
            FileError: there is none, or it cannot be read.
        """
        path = self.folder / MANIFEST
        if not path.is_file():
            raise FileError(str(self.folder), [f"is not the folder of a sweep: it has no {MANIFEST}"])
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise FileError(str(path), [f"is damaged: {error}"]) from None
        if found.get("whippletree_sweep") != SWEEP_VERSION:
            raise FileError(
                str(path), [f"has format {found.get('whippletree_sweep')}; this version reads {SWEEP_VERSION}"]
            )
        return found

    def begin(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest, or see that the one that is there says the same.

        Raises:
            FileError: the folder belongs to another sweep; names what differs.
        """
        text = json.dumps(manifest, indent=1, sort_keys=True)
        if (self.folder / MANIFEST).exists():
            self._compare(self.manifest, json.loads(text))
            self._tidy()
            return
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise FileError(str(self.folder), ["is not empty and holds no sweep: name a new folder"])
        write_whole(self.folder / MANIFEST, text.encode())

    def _compare(self, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        flat = [_flat(x) for x in (kept, asked)]
        differ = [word for word in {**flat[0], **flat[1]} if flat[0].get(word) != flat[1].get(word)]
        if differ:
            differences = [f"{w} was {_short(flat[0].get(w))}, is {_short(flat[1].get(w))}" for w in sorted(differ)[:5]]
            more = f", and {len(differ) - 5} more" if len(differ) > 5 else ""
            raise FileError(
                str(self.folder), [f"belongs to another sweep: {'; '.join(differences)}{more}. Name a new folder"]
            )

    def _tidy(self) -> None:
        """Remove drafts that a killed writer has left."""
        for place in ("parts", "series", "events"):
            for draft in (self.folder / place).glob(DRAFTS):
                shutil.rmtree(draft) if draft.is_dir() else draft.unlink(missing_ok=True)

    # --- parts --------------------------------------------------------------------------------------------------------

    def parts(self) -> dict[int, Path]:
        """Tables of the tasks that are done, by task.

        Raises:
            FileError: two different results of one task.
        """
        found: dict[int, Path] = {}
        for path in sorted((self.folder / "parts").glob("*-*.parquet")):
            task = int(path.stem.partition("-")[0])
            if task in found:
                raise FileError(str(path), [f"task {task} has two results: delete the one that is wrong"])
            found[task] = path
        return found

    def write(self, task: int, block: RunBlock) -> str:
        """Keep what was computed, and return the digest of its content."""
        import pyarrow as pa

        table = pa.table({name: pa.array(values) for name, values in block.columns.items()})
        digest = block_digest(block)
        name = f"{task:08d}-{digest}"
        if block.series is not None:
            _write_series(self.folder / "series" / f"{name}.zarr", block.series)
        if block.events["run"]:
            write_whole(self.folder / "events" / f"{name}.parquet", _parquet(pa.table(block.events)))
        write_whole(self.folder / "parts" / f"{name}.parquet", _parquet(table))
        return digest

    def tables(self) -> Iterator[pyarrow.Table]:
        """The tables of all tasks that are done, in order."""
        pq = parquet()
        for _, path in sorted(self.parts().items()):
            try:
                yield pq.read_table(path)
            except (OSError, ValueError) as error:
                raise FileError(str(path), [f"is damaged ({error}): delete it, and sweep again"]) from None

    def events(self) -> list[dict[str, Any]]:
        """Run, name and time of all events that were kept."""
        pq = parquet()
        return [
            row
            for path in sorted((self.folder / "events").glob("*.parquet"))
            for row in pq.read_table(path).to_pylist()
        ]

    def series_paths(self) -> list[Path]:
        """Time series of the tasks that are done, in order."""
        found = (self.folder / "series" / f"{path.stem}.zarr" for _, path in sorted(self.parts().items()))
        return [path for path in found if path.is_dir()]

    def digest(self) -> str:
        """Hash of all parts: equal for equal sweeps, however they were computed."""
        names = ",".join(path.stem for _, path in sorted(self.parts().items()))
        return hashlib.sha256(names.encode()).hexdigest()


def block_digest(block: RunBlock) -> str:
    """Hash of the content of a block, whatever the files look like."""
    mixed = hashlib.sha256()
    for name, values in block.columns.items():
        array = np.asarray(values)
        mixed.update(f"{name}:{array.dtype.kind}:".encode())
        mixed.update(array.tobytes() if array.dtype.kind in "fiub" else "\0".join(map(str, values)).encode())
    if block.series is not None:
        for name in sorted(map(str, block.series.variables)):
            array = block.series[name].values
            mixed.update(
                name.encode() + (array.tobytes() if array.dtype.kind in "fiub" else repr(array.tolist()).encode())
            )
    mixed.update(repr(block.events).encode())
    return mixed.hexdigest()[:16]


def parquet() -> Any:
    """pyarrow's reader and writer of tables.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("wt.sweep", "pyarrow", "sweep") from error
    return pyarrow.parquet


def _parquet(table: pyarrow.Table) -> bytes:
    stream = io.BytesIO()
    parquet().write_table(table, stream)
    return stream.getvalue()


def _write_series(place: Path, series: xarray.Dataset) -> None:
    """A zarr folder that appears as a whole."""
    if place.is_dir():
        return  # its name says that it holds the same
    try:
        import zarr  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("wt.sweep with keep='series'", "zarr", "sweep") from error
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    draft.parent.mkdir(parents=True, exist_ok=True)
    try:
        plain = series.copy()
        for name in list(plain.coords):  # names as attributes: zarr has no fixed form for text
            if plain[name].dtype.kind in "OUT":
                plain.attrs[f"names of {name}"] = [str(x) for x in plain[name].values]
                plain = plain.drop_vars([name])
        for variable in plain.variables.values():
            variable.encoding = {"chunks": variable.shape} if variable.ndim else {}
            variable.attrs.pop("names", None)
        plain.to_zarr(draft, mode="w", consolidated=False, zarr_format=3)
        os.replace(draft, place)
    except OSError as error:
        if not place.is_dir():  # another worker may have been first
            raise OSError(error.errno, error.strerror or str(error), str(place)) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _flat(value: Any, word: str = "") -> dict[str, Any]:
    """Nested tables as one, with joined words."""
    if not isinstance(value, Mapping):
        return {word: value}
    return {k: x for key, inner in value.items() for k, x in _flat(inner, f"{word}.{key}" if word else key).items()}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
