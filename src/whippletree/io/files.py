"""Opening files: what a path names is checked before it is read."""

from __future__ import annotations

import os
from pathlib import Path

from whippletree.errors import FileError, did_you_mean

LARGEST_FILE = 64 * 2**20
"""Bytes. The largest real model files have a few megabytes; a larger one is a mistake or an attack."""


def read_bytes(path: Path) -> bytes:
    """The content of a model file.

    Raises:
        FileNotFoundError: there is nothing at ``path``; suggests a neighbour with a similar name.
        FileError: it is a folder, a device or a pipe, it is empty, or larger than ``LARGEST_FILE``.
    """
    if path.is_dir():
        raise FileError(str(path), ["this is a folder: name the model file inside it"])
    if not path.exists():
        neighbours = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise FileNotFoundError(f"there is no file {str(path)!r}{did_you_mean(path.name, neighbours)}")
    if not path.is_file():
        raise FileError(str(path), ["this is not a regular file (a device or a pipe): name a model file"])
    with path.open("rb") as stream:
        data = stream.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise FileError(str(path), [f"the file is larger than {LARGEST_FILE // 2**20} MiB, the most that is read"])
    if not data.strip():
        raise FileError(str(path), ["the file is empty"])
    return data


def inside(folder: Path, path: Path) -> bool:
    """Whether a path stays inside a folder after every link and ``..`` is followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def package_folder(path: Path) -> Path:
    """The folder that a model file may refer to: the nearest one above it with a ``package.xml``, else its own."""
    own = Path(os.path.realpath(path)).parent
    return next((folder for folder in [own, *own.parents] if (folder / "package.xml").is_file()), own)


def find_mesh(name: str, path: Path) -> Path | None:
    """Where the mesh that a model file names lies, if it exists inside the model's package; it is not opened.

    ``package://NAME/rest`` needs the package folder, or the one above the model's own, to be called NAME.
    """
    package = package_folder(path)
    scheme, mark, rest = name.partition("://")
    candidate: Path | None = None
    if not mark:
        candidate = path.parent / name
    elif scheme == "file":
        candidate = Path(rest)
    elif scheme == "package":
        first, _, rest = rest.partition("/")
        for folder in (package, Path(os.path.realpath(path)).parent.parent):
            if folder.name == first:
                package, candidate = folder, folder / rest
                break
    try:
        if candidate is not None and inside(package, candidate) and candidate.is_file():
            return Path(os.path.realpath(candidate))
    except (OSError, ValueError):  # a name too long for the file system, or with a NUL in it
        return None
    return None
