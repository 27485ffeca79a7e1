"""Files that mean harm, and paths that name no model: a clear error, quickly, and nothing touched."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import whippletree as wt

LAUGHS = "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 12))
BOMB = f'<!DOCTYPE robot [<!ENTITY a0 "ha">{LAUGHS}]>'


def fault_of(path: Path) -> str:
    started = time.perf_counter()
    with pytest.raises(wt.FileError) as caught:
        wt.load(path)
    assert time.perf_counter() - started < 2
    assert caught.value.subject == str(path)
    return "\n".join(caught.value.faults)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            BOMB + "<robot name='r'>&a11;</robot>",
            "line 1: not well-formed XML: Maximum entity amplification factor exceeded",
        ),
        (BOMB + "<robot name='&a11;'/>", "line 1: not well-formed XML: Maximum entity amplification factor exceeded"),
        (
            "<!DOCTYPE robot [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><robot name='r'>&e;</robot>",
            "declares XML entities",
        ),
        (
            "<!DOCTYPE robot [<!ENTITY % e SYSTEM 'http://localhost:1/x'> %e;]><robot name='r'/>",
            "declares XML entities",
        ),
        ("<!DOCTYPE robot [<!ENTITY e 'arm'>]><robot name='&e;'><link name='a'/></robot>", "declares XML entities"),
        ("<robot>" + "<link>" * 100_000, "line 1: 100,001 XML elements inside each other, the most"),
        ("<mujoco>\n" + "<body>" * 100_000, "line 2: 100,001 XML elements inside each other, the most"),
        (
            "<!DOCTYPE robot><robot>" + "<link>" * 300 + "</link>" * 300 + "</robot>",
            "line 1: not well-formed XML: Excessive depth in document: 256",
        ),
        ("<robot name='r'>\n<link>", "line 2: not well-formed XML: Premature end of data in tag link line 2"),
        ("<html/>", "line 1: the root element is <html>, expected <robot>, <sdf> or <mujoco>"),
        ("  \n ", "the file is empty"),
        ("", "the file is empty"),
        ("\0\1\2\3junk", "line 1: not well-formed XML: Document is empty"),
    ],
)
@pytest.mark.parametrize("suffix", [".urdf", ".xml"])
def test_hostile_xml(tmp_path: Path, suffix: str, text: str, found: str) -> None:
    path = tmp_path / f"robot{suffix}"
    path.write_text(text)
    assert found in fault_of(path)


def test_a_chain_of_many_bodies_is_read(tmp_path: Path) -> None:
    """Deeper than libxml2 reads by itself, with tags in places where they are none."""
    count = 400
    body = "<body pos='0 0 1'><joint axis='0 1 0'/><geom size='0.1'/><!-- <body> -->\n"
    path = tmp_path / "chain.xml"
    path.write_text(f"<mujoco><worldbody>{body * count}{'</body>' * count}</worldbody></mujoco>")
    assert wt.load(path, contacts=False).nv == count


def test_a_plain_document_type_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text("<!DOCTYPE robot SYSTEM 'file:///etc/passwd'><robot name='r'><link name='a'/></robot>")
    assert wt.load(path).name == "r"


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_hostile_native_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_text(("x = " if suffix == ".toml" else "") + "[" * 100_000)
    assert fault_of(path) == "the file is nested too deeply for a model"
    path.write_bytes(b"\xff\xfe\x00")
    assert fault_of(path) == "the file is not UTF-8 text (byte 0)"
    path.write_text(("x = " if suffix == ".toml" else "") + "1" * 100_000)
    assert fault_of(path).startswith("not a model: Exceeds the limit")


def test_bytes_that_are_no_text_in_mjcf(tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    path.write_bytes(b'<?xml version="1.0" encoding="iso-8859-1"?><mujoco model="\xe4"/>')
    assert fault_of(path) == "the file is not UTF-8 text (byte 58)"


# --- xacro ---

EXPAND = "expand it first (xacro FILE > robot.urdf) and load the result"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "<robot name='r' xmlns:xacro='http://www.ros.org/wiki/xacro'>\n<xacro:include filename='a'/></robot>",
            f"line 2: <xacro:include> is xacro, a macro language on top of URDF: {EXPAND}",
        ),
        (
            "<robot name='r'>\n<link name='${prefix}a'/></robot>",
            f"line 2: name='${{prefix}}a' is xacro, a macro language on top of URDF: {EXPAND}",
        ),
        (
            "<robot name='r'>\n<xacro:include filename='a'/></robot>",
            "line 2: not well-formed XML: Namespace prefix xacro on include is not defined\n"
            f"this is a xacro file: {EXPAND}",
        ),
    ],
)
def test_xacro_is_refused_with_a_cure(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    assert fault_of(path) == found


def test_a_xacro_file_by_its_suffix(tmp_path: Path) -> None:
    assert fault_of(tmp_path / "robot.urdf.xacro") == (
        "xacro is a macro language on top of URDF: expand it first (xacro FILE > robot.urdf)"
    )


# --- paths ---


def test_a_missing_file_suggests_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "panda.urdf").write_text("")
    with pytest.raises(FileNotFoundError) as caught:
        wt.load(tmp_path / "pandas.urdf")
    assert str(caught.value) == f"there is no file '{tmp_path}/pandas.urdf'. Did you mean 'panda.urdf'?"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        wt.load(tmp_path / "no" / "folder" / "a.urdf")


def test_a_folder(tmp_path: Path) -> None:
    assert fault_of(tmp_path) == "this is a folder: name the model file inside it"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "robot.urdf")
    assert fault_of(tmp_path / "robot.urdf") == ("this is not a regular file (a device or a pipe): name a model file")


def test_an_endless_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    with path.open("wb") as stream:
        stream.truncate(65 * 2**20)
    assert fault_of(path) == (
        "the file is larger than 64 MiB, the most that is read is 67,108,864. "
        "If this is meant, raise whippletree.files.bounded_files.limits.file_bytes"
    )


def test_an_unknown_suffix(tmp_path: Path) -> None:
    path = tmp_path / "robot.udrf"
    path.write_text("<robot/>")
    assert fault_of(path) == (
        "unknown suffix '.udrf'; known: .urdf, .xml, .mjcf, .sdf, .toml, .json. Did you mean '.urdf'?"
    )


def test_an_unknown_base(tmp_path: Path) -> None:
    with pytest.raises(wt.UnsupportedError) as caught:
        wt.load(tmp_path / "a.urdf", base="fre")
    assert str(caught.value) == "load: base is 'fre', expected 'fixed' or 'free'. Did you mean 'free'?"


# --- files that lead to other files ---


def test_mjcf_includes_stay_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.xml").write_text("<mujocoinclude/>")
    (folder / "link.xml").symlink_to(tmp_path / "secret.xml")
    names = ["../secret.xml", str(tmp_path / "secret.xml"), "link.xml"]
    includes = "\n".join(f"<include file='{name}'/>" for name in names)
    (folder / "robot.xml").write_text(f"<mujoco>\n{includes}</mujoco>")
    assert fault_of(folder / "robot.xml").splitlines() == [
        f"line {line}: <include> names {name!r}, outside the model's folder: it is not opened. "
        "wt.load(…, root=FOLDER) names a wider one"
        for line, name in enumerate(names, start=2)
    ]


def test_mjcf_files_that_include_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<mujocoinclude><include file='b.xml'/></mujocoinclude>")
    (tmp_path / "b.xml").write_text("<mujocoinclude><include file='a.xml'/></mujocoinclude>")
    (tmp_path / "robot.xml").write_text("<mujoco>\n<include file='a.xml'/></mujoco>")
    assert "already included" in fault_of(tmp_path / "robot.xml")


def test_mjcf_includes_are_as_safe_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text(BOMB + "<mujocoinclude>&a11;</mujocoinclude>")
    (tmp_path / "robot.xml").write_text("<mujoco><include file='part.xml'/></mujoco>")
    with pytest.raises(wt.FileError, match="amplification"):
        wt.load(tmp_path / "robot.xml")


def test_import_of_the_package_reads_no_xml() -> None:
    import subprocess
    import sys

    code = (
        "import sys, whippletree, whippletree.io; print([m for m in ('lxml', 'mujoco', 'msgspec') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    assert done.stdout.strip() == "[]"
