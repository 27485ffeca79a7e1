"""Stubs of the table of functions: what editors, mypy and pyright know of ``wt.reference`` and ``wt.compile``.

``make stubs`` writes them anew after a function was added or changed; a test compares them with the table.
"""

from __future__ import annotations

from pathlib import Path

from whippletree.functions import CATALOGUE
from whippletree.functions.registry import OPTIONAL, Function, shape_text, type_name

STUB_HEAD = """# Generated from the table of functions by `make stubs`. Do not edit.
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from whippletree.arithmetic.arrays import Array
"""

COMPILED_FUNCTION = '''class _Function:
    name: str
    status: Any
    """Status of each state of the last call: 0 where all is well; None if the function cannot fail."""
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def fails(self) -> bool: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ufunc(self) -> np.ufunc:
        """The NumPy ufunc behind a function on the CPU."""
'''

NAME_TYPES = {
    "frame": "str",
    "joints": "str | tuple[str, ...] | list[str]",
    "task": "str | tuple[str, ...] | list[str]",
}


def reference_stub() -> str:
    """The stub of :mod:`whippletree.functions.reference_table`: methods, and the types of several results."""
    entries = list(CATALOGUE.values())
    lines = [STUB_HEAD]
    for entry in entries:
        if len(entry.outputs) > 1:
            lines.append(_result_class(entry))
    lines.append("class ReferenceTable:")
    for entry in entries:
        numbers, result = _numbers(entry, "Any"), _result(entry)
        if entry.names:
            lines.append(f"    def {entry.name}(self, {_names(entry)}) -> _{type_name(entry.name)}:")
        else:
            lines.append(f"    def {entry.name}(self, {numbers}) -> {result}:")
        lines.append(_docstring(entry, 8))
    for entry in entries:
        if entry.names:
            lines.append(f"\nclass _{type_name(entry.name)}:")
            lines.append(f"    def __call__(self, {_numbers(entry, 'Any')}) -> {_result(entry)}: ...")
    return "\n".join(lines).rstrip() + "\n"


def compiled_stub() -> str:
    """The stub of :mod:`whippletree.compiler.compiled_table`: functions to call, each with its ufunc and its status."""
    several = sorted(type_name(entry.name) for entry in CATALOGUE.values() if len(entry.outputs) > 1)
    imports = "".join(f"    {name},\n" for name in several)
    head = STUB_HEAD.replace("from typing import Any, NamedTuple\n", "from typing import Any\n\nimport numpy as np")
    lines = [f"{head}from whippletree.functions.reference_table import (\n{imports})\n", COMPILED_FUNCTION]
    for entry in CATALOGUE.values():
        lines.append(f"class _{type_name(entry.name)}(_Function):")
        lines.append(f"    def __call__(self, {_numbers(entry, 'ArrayLike')}, *, out: Any = None) -> {_result(entry)}:")
        lines.append(_docstring(entry, 8))
        lines.append("")
    lines.append("class CompiledTable:")
    for entry in CATALOGUE.values():
        if entry.names:
            lines.append(f"    def {entry.name}(self, {_names(entry)}) -> _{type_name(entry.name)}:")
        else:
            lines.append(f"    @property\n    def {entry.name}(self) -> _{type_name(entry.name)}:")
        lines.append(_docstring(entry, 8))
    return "\n".join(lines).rstrip() + "\n"


def _names(entry: Function) -> str:
    return ", ".join(f"{name}: {NAME_TYPES[name]}" for name in entry.names)


def _numbers(entry: Function, kind: str) -> str:
    return ", ".join(f"{name}: {kind}" + (" = ..." if name in OPTIONAL else "") for name in entry.inputs)


def _result(entry: Function) -> str:
    if len(entry.outputs) > 1:
        return type_name(entry.name)
    (shape,) = entry.outputs.values()
    return _array(shape)


def _array(shape: tuple[int | str, ...]) -> str:
    """A single number per state is a float, or an array of them for a batch."""
    return "Array" if shape else "Any"


def _result_class(entry: Function) -> str:
    fields = "".join(
        f"    {name}: {_array(shape)}\n" + (f'    """{shape_text(shape)}."""\n' if shape else "")
        for name, shape in entry.outputs.items()
    )
    return f"class {type_name(entry.name)}(NamedTuple):\n{fields}"


def _docstring(entry: Function, indent: int) -> str:
    space = " " * indent
    lines = entry.explanation.split("\n")
    body = "\n".join((space + line).rstrip() for line in lines)
    return f'{space}"""{body.lstrip()}\n{space}"""'


def write_stubs() -> list[Path]:
    """Write both stubs beside the modules that they describe."""
    package = Path(__file__).parent.parent
    texts = {
        package / "functions" / "reference_table.pyi": reference_stub(),
        package / "compiler" / "compiled_table.pyi": compiled_stub(),
    }
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


if __name__ == "__main__":
    for written in write_stubs():
        print(written.name)
