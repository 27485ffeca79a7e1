"""Paths of model files and of what they name: checked before anything is read."""

from __future__ import annotations

import os
from pathlib import Path

from whippletree.errors import FileError, did_you_mean, quote
from whippletree.files.bounded_files import read_bounded, resolve_inside

MODEL_ENDINGS = (".urdf", ".sdf", ".xml", ".toml", ".json")
"""Endings of files that hold models."""


def read_bytes(path: Path) -> bytes:
    """The content of a model file.

    Raises:
        FileNotFoundError: there is nothing at ``path``; suggests a neighbour with a similar name.
        FileError: it is a folder, a device or a pipe, it is empty, or too large.
    """
    if "\n" in str(path) or str(path).lstrip().startswith("<"):
        start = quote(str(path))
        raise FileNotFoundError(f"load: {start} is text, not the path of a file: write it to a file and give its path")
    if not path.exists():
        # who misspells a name rarely misspells its ending, too
        found = path.parent.iterdir() if path.parent.is_dir() else ()
        neighbours = [p.name for p in found if not path.suffix or p.suffix in (path.suffix, *MODEL_ENDINGS)]
        raise FileNotFoundError(f"there is no file {str(path)!r}{did_you_mean(path.name, neighbours)}")
    data = read_bounded(path)
    if not data.strip():
        raise FileError(str(path), ["the file is empty"])
    return data


def package_folder(path: Path) -> Path:
    """The folder that a model file may refer to: that of the package it is in, else its own.

    A package is the nearest folder above the file with a ``package.xml`` (ROS), or the outermost of the Python packages
    around it: from the nearest folder with an ``__init__.py``, up as long as each has one.
    """
    own = Path(os.path.realpath(path)).parent
    for folder in (own, *own.parents):
        if (folder / "package.xml").is_file():
            return folder
        if (folder / "__init__.py").is_file():
            return next(f for f in (folder, *folder.parents) if not (f.parent / "__init__.py").is_file())
    return own


def find_mesh(name: str, path: Path, root: Path | None = None) -> Path | None:
    """Where the mesh that a model file names lies, if it exists inside the model's root folder; it is not opened.

    ``package://NAME/rest`` needs the root folder, or the one above the model's own, to be called NAME.

    Args:
        name: As the file writes it: a path beside the file, an absolute path, ``file://…`` or ``package://…``.
        path: The model file.
        root: The folder that the mesh must be in; that of the model's package if None.
    """
    folder = package_folder(path) if root is None else root
    scheme, mark, rest = name.partition("://")
    if not mark:
        return resolve_inside(folder, path.parent / name)
    if scheme == "file":
        return resolve_inside(folder, Path(rest))
    if scheme == "package":
        first, _, rest = rest.partition("/")
        for package in (folder, folder / first, Path(os.path.realpath(path)).parent.parent):
            if package.name == first and package.is_dir():
                return resolve_inside(package, package / rest)
    return None


def exists_elsewhere(name: str, path: Path) -> bool:
    """Whether the mesh that a model file names lies somewhere :func:`find_mesh` does not look; it is not opened.

    ``package://NAME/rest`` is looked for in folders called NAME beside those above the model, as in a ROS workspace.
    """
    scheme, mark, rest = name.partition("://")
    own = Path(os.path.realpath(path)).parent
    if not mark or scheme == "file":
        return resolve_inside(Path(own.anchor), Path(rest) if mark else own / name) is not None
    folders = own.parents if scheme == "package" else ()
    return any(resolve_inside(folder, folder / rest) is not None for folder in folders)
