"""Object code, and convex pieces of meshes, on disk, so that a second process does not make them again.

One file per entry, named by its key. A file begins with a magic word, the key and a hash of the content: whatever is
truncated, damaged or belongs to another key is treated as missing, never executed, and written anew. Files appear by
renaming a finished temporary file, so processes that run at once cannot see half an entry. When the folder outgrows
its limit, the entries that were not read for longest are removed. A folder that cannot be written costs one warning.

The hash guards against damage, not against people: who can write an entry can have his code run by whoever loads it. So
entries are used only from a folder that belongs to the user (or to root) and that nobody else can write to, and the
same holds for each file in it. Any other folder costs one warning, and functions are compiled without a cache. A
process of root does not trust a folder of somebody else: that user could have root run his code. Windows has no such
modes; there only folders inside the user's profile are used, which nobody else can write to unless he was let in.

    WHIPPLETREE_CACHE         the folder; an empty value or "off" switches the cache off
    WHIPPLETREE_CACHE_LIMIT   its size limit in megabytes (default 512)
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import stat
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whippletree.errors import UnsupportedError
from whippletree.files.bounded_files import is_inside

_MAGIC = b"whippletree object code 1\n"
_SUFFIX = ".wto"
_MEGABYTE = 1 << 20
_USUAL_LIMIT = 512
"""Megabytes."""
_ROOT = 0
"""The user who can write everywhere anyway."""

UNSEEN_SHARE = 1 / 64
"""Share of the limit that one process may store before it looks again whether the limit is kept."""

_unseen: dict[Path, int] = {}
"""Bytes stored in each folder since this process last looked at all of it."""


@dataclass(frozen=True)
class CacheInfo:
    """Contents of a cache."""

    folder: Path | None
    entries: int
    bytes: int
    limit: int


class CodeCache:
    """A folder of entries; ``folder=None`` is a cache that remembers nothing."""

    def __init__(self, folder: Path | str | None, limit: int = _USUAL_LIMIT * _MEGABYTE) -> None:
        self.folder = Path(folder) if folder is not None else None
        self.limit = limit
        self._warned = False

    def load(self, key: str) -> bytes | None:
        """The content stored under a key, or nothing if there is none, it is not sound, or somebody else wrote it."""
        if self.folder is None:
            return None
        try:
            with self._open_folder() as folder:
                data = _read(folder, _name(key), self.limit)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None
        return None if data is None else _unseal(key, data)

    def store(self, key: str, content: bytes) -> None:
        """Keep content under a key; failing to do so is a warning, once."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._open_folder() as folder:
                _write(folder, _name(key), _seal(key, content))
            if self._is_time_to_look(len(content)):
                self._evict()
        except OSError as error:
            self._warn(error)

    @contextlib.contextmanager
    def _open_folder(self) -> Iterator[_Folder]:
        """The folder, if nobody else can write to it; what was looked at is what is used, whatever is renamed since.

        Raises:
            OSError: it is not there, no folder, or not the user's own.
        """
        assert self.folder is not None
        if sys.platform == "win32":
            if not is_inside(Path.home(), self.folder):
                raise _ForeignFolderError(f"it is outside your profile {Path.home()}, where others may write", "")
            yield _Folder(self.folder, None)
            return
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            reason, cure = _why_foreign(os.fstat(descriptor))
            if reason:
                raise _ForeignFolderError(f"it {reason}", f"{cure} {self.folder}")
            yield _Folder(self.folder, descriptor)
        finally:
            os.close(descriptor)

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

    def _files(self) -> list[tuple[float, int, str]]:
        """(time of last use, size, path) of every entry, and of temporary files that nobody finished."""
        found: list[tuple[float, int, str]] = []
        if self.folder is None:
            return found
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        continue
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
        if self._warned:
            return
        self._warned = True
        if isinstance(error, _ForeignFolderError):
            cure = f"Make it yours alone ({error.cure}), or set" if error.cure else "Set"
            text = (
                f"compiled code in {self.folder} is not used: {error}, and whoever can write there can have any code "
                f"run as you. {cure} WHIPPLETREE_CACHE to a folder of your own, or to 'off'. Until then every process "
                f"compiles anew."
            )
        else:
            text = (
                f"compiled code cannot be kept in {self.folder} ({error.strerror or error}): it will be compiled again "
                f"in the next process. Set WHIPPLETREE_CACHE to a folder that can be written, or to 'off'."
            )
        warnings.warn(text, RuntimeWarning, stacklevel=3)


# --- what may be trusted ---


class _ForeignFolderError(OSError):
    """A folder in which somebody else may have written."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(reason)
        self.cure = cure


@dataclass(frozen=True)
class _Folder:
    """An open folder; names are looked up in it and not along its path, except on Windows."""

    path: Path
    descriptor: int | None

    def at(self, name: str) -> str:
        """Name to give to a function of ``os`` together with ``dir_fd=descriptor``."""
        return str(self.path / name) if self.descriptor is None else name


def _why_foreign(status: os.stat_result) -> tuple[str, str]:
    """Why a file or folder may not be the user's own work, and the command that makes it so; empty if it is."""
    user = os.geteuid()
    if status.st_uid not in (user, _ROOT):
        return f"belongs to user {status.st_uid}, and this process runs as user {user}", f"chown {user}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})", "chmod go-w"
    return "", ""


def _read(folder: _Folder, name: str, limit: int) -> bytes | None:
    """The content of a file that is the user's own; None for one of somebody else, a link, a pipe or a device."""
    # a link is not followed, and a pipe is not waited for
    flags = os.O_RDONLY | sum(getattr(os, word, 0) for word in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
    try:
        descriptor = os.open(folder.at(name), flags, dir_fd=folder.descriptor)
    except OSError:
        return None
    status = os.fstat(descriptor)
    foreign = folder.descriptor is not None and _why_foreign(status)[0]
    if foreign or not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as file:
        data = file.read()
        with contextlib.suppress(OSError):
            os.utime(descriptor if os.utime in os.supports_fd else folder.at(name))  # recently used
    return data


def _write(folder: _Folder, name: str, data: bytes) -> None:
    """Write a file that appears whole or not at all."""
    draft = folder.at(f"{os.urandom(8).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(draft, flags, 0o600, dir_fd=folder.descriptor), "wb") as file:
            file.write(data)
        os.replace(draft, folder.at(name), src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder.descriptor)
        raise


# --- what the environment asks for ---


def default_cache() -> CodeCache:
    """The cache that the environment asks for; asked anew each time, so that a change of the environment counts."""
    place = os.environ.get("WHIPPLETREE_CACHE")
    limit = _limit_from_environment()
    if place is not None and place.strip().lower() in ("", "off", "0", "none"):
        return _shared_cache(None, limit)
    return _shared_cache(place or str(_user_folder()), limit)


def _limit_from_environment() -> int:
    text = os.environ.get("WHIPPLETREE_CACHE_LIMIT", "").strip()
    try:
        megabytes = float(text) if text else _USUAL_LIMIT
    except ValueError:
        megabytes = math.nan
    if not 0 < megabytes < math.inf:
        raise UnsupportedError(
            f"WHIPPLETREE_CACHE_LIMIT is {text!r}, expected a number of megabytes above 0, such as {_USUAL_LIMIT}. To "
            f"keep nothing, set WHIPPLETREE_CACHE to 'off'"
        )
    return int(megabytes * _MEGABYTE)


_caches: dict[tuple[str | None, int], CodeCache] = {}


def _shared_cache(place: str | None, limit: int) -> CodeCache:
    """One object per folder, so that its warning comes once."""
    return _caches.setdefault((place, limit), CodeCache(place, limit))


def _user_folder() -> Path:
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "whippletree"


def _name(key: str) -> str:
    return f"{key}{_SUFFIX}"


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
