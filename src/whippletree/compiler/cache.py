"""Object code on disk, so that a second process does not compile again.

One file per entry, named by its key. A file begins with a magic word, the key and a hash of the content: whatever is
truncated, damaged or belongs to another key is treated as missing, never executed, and written anew. Files appear by
renaming a finished temporary file, so processes that run at once cannot see half an entry. When the folder outgrows
its limit, the entries that were not read for longest are removed. A folder that cannot be written costs one warning.

    WHIPPLETREE_CACHE         the folder; an empty value or "off" switches the cache off
    WHIPPLETREE_CACHE_LIMIT   its size limit in megabytes (default 512)
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"whippletree object code 1\n"
_SUFFIX = ".wto"
_MEGABYTE = 1 << 20

UNSEEN_SHARE = 1 / 64
"""Share of the limit that one process may store before it looks again whether the limit is kept."""

_unseen: dict[Path, int] = {}
"""Bytes stored in each folder since this process last looked at all of it."""


@dataclass(frozen=True)
class CacheInfo:
    """What is in a cache."""

    folder: Path | None
    entries: int
    bytes: int
    limit: int


class Cache:
    """A folder of entries; ``folder=None`` is a cache that remembers nothing."""

    def __init__(self, folder: Path | str | None, limit: int = 512 * _MEGABYTE) -> None:
        self.folder = Path(folder) if folder is not None else None
        self.limit = limit
        self._warned = False

    def load(self, key: str) -> bytes | None:
        """The content stored under a key, or nothing if there is none or it is not sound."""
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        content = _unseal(key, data)
        if content is not None:
            with contextlib.suppress(OSError):
                os.utime(path)  # recently used
        return content

    def store(self, key: str, content: bytes) -> None:
        """Keep content under a key; failing to do so is a warning, once."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._write(self._path(key), _seal(key, content))
            if self._is_time_to_look(len(content)):
                self._evict()
        except OSError as error:
            self._warn(error)

    def _write(self, path: Path, data: bytes) -> None:
        """Write a file that appears whole or not at all."""
        temporary = path.with_name(f"{os.urandom(8).hex()}.tmp")
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def info(self) -> CacheInfo:
        """Number and size of the entries."""
        files = self._files()
        return CacheInfo(self.folder, len(files), sum(size for _, size, _ in files), self.limit)

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        files = self._files()
        for _, _, path in files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return len(files)

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{key}{_SUFFIX}"

    def _files(self) -> list[tuple[float, int, str]]:
        """(time of last use, size, path) of every entry, and of temporary files that nobody finished."""
        found: list[tuple[float, int, str]] = []
        if self.folder is None:
            return found
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat()
                    abandoned = entry.name.endswith(".tmp") and status.st_mtime < time.time() - 3600
                    if entry.name.endswith(_SUFFIX) or abandoned:
                        found.append((status.st_mtime, status.st_size, entry.path))
        return found

    def _is_time_to_look(self, size: int) -> bool:
        """Whether enough was stored to look at the whole folder again, which takes time with thousands of entries."""
        assert self.folder is not None
        waiting = _unseen.get(self.folder, self.limit) + size
        due = waiting > self.limit * UNSEEN_SHARE
        _unseen[self.folder] = 0 if due else waiting
        return due

    def _evict(self) -> None:
        """Remove what was used longest ago, until the rest is within the limit."""
        files = self._files()
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"compiled code cannot be kept in {self.folder} ({error.strerror or error}): it will be compiled again "
                f"in the next process. Set WHIPPLETREE_CACHE to a folder that can be written, or to 'off'.",
                RuntimeWarning,
                stacklevel=3,
            )


def default_cache() -> Cache:
    """The cache that the environment asks for; asked anew each time, so that a change of the environment counts."""
    place = os.environ.get("WHIPPLETREE_CACHE")
    limit = _limit_from_environment()
    if place is not None and place.strip().lower() in ("", "off", "0", "none"):
        return _shared(None, limit)
    return _shared(place or str(_user_folder()), limit)


def _limit_from_environment() -> int:
    text = os.environ.get("WHIPPLETREE_CACHE_LIMIT", "")
    try:
        return int(float(text) * _MEGABYTE)
    except ValueError:
        return 512 * _MEGABYTE


_caches: dict[tuple[str | None, int], Cache] = {}


def _shared(place: str | None, limit: int) -> Cache:
    """One object per folder, so that its warning comes once."""
    return _caches.setdefault((place, limit), Cache(place, limit))


def _user_folder() -> Path:
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "whippletree"


def _seal(key: str, content: bytes) -> bytes:
    name = key.encode()
    return _MAGIC + name + b"\n" + _hash(name, content) + content


def _unseal(key: str, data: bytes) -> bytes | None:
    name = key.encode()
    head = _MAGIC + name + b"\n"
    size = hashlib.blake2b().digest_size
    seal, content = data[len(head) : len(head) + size], data[len(head) + size :]
    return content if data.startswith(head) and seal == _hash(name, content) else None


def _hash(name: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(content, key=name[:64]).digest()
