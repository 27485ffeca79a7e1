"""Files that are written as a whole or not at all: a full disk, a crash or a kill leaves what was there before."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

DRAFTS = ".*.part"
"""The pattern of names under which files are written before they take their place; a killed process may leave one."""


def write_whole(path: str | os.PathLike[str], data: bytes | memoryview) -> Path:
    """Write a file in place of what was there, and return its path; the folder around it is made.

    A link keeps pointing where it did. What cannot be replaced, a device or a pipe, is written to.

    Raises:
        OSError: the disk is full, or the place cannot be written; names ``path`` whatever step failed.
    """
    place = Path(path)
    try:
        if place.is_char_device() or place.is_block_device() or place.is_fifo():
            place.write_bytes(data)
        else:
            _replace(Path(os.path.realpath(place)), data)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(place)) from error
    return place


def _replace(target: Path, data: bytes | memoryview) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with draft.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
