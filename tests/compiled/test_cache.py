"""The cache of object code: found again, never trusted when damaged, shared by processes, bounded in size."""

import os
import re
import stat
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree.arithmetic.trace import Straight, Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.llvm import jit, kernel
from whippletree.compiler.llvm.kernel import STAGES, Interface, Recipe, digest, source_digest
from whippletree.compiler.program import Address, Block, Buffer, Index, Lookup, Loop, Program, straight_program
from whippletree.compiler.program.check import ProgramError
from whippletree.errors import UnsupportedError
from whippletree.files.cache import CodeCache, default_cache


def program(constant=1.0):
    trace = Trace()
    x = trace.inputs(3)
    return straight_program(
        "f", finish(trace, list(x * x + constant)), [Buffer("x", "input", (3,))], [Buffer("y", "output", (3,))]
    )


def with_tables():
    """y[i] = c[p[i]] x: everything that an interface can hold."""
    buffers = (
        Buffer("x", "input", ()),
        Buffer("y", "output", (3,)),
        Buffer("c", "table", (4,), np.array([0.1, 0.2, 0.3, 0.4])),
        Buffer("p", "index", (3,), np.array([2, 0, 3]), integer=True),
    )
    block = Block(
        Straight([("input", 0), ("input", 1), ("mul", 0, 1)], [2]),
        (Address("c", (Index("p"),)), Address("x", ())),
        (Address("y", (Index("i"),)),),
    )
    return Program("g", buffers, (Loop("i", 3, (Lookup("p", Address("p", (Index("i"),))), block)),))


@pytest.fixture(scope="module", autouse=True)
def shared_functions():
    """What all functions share is loaded before anything is counted."""
    use(program(), CodeCache(None))


@pytest.fixture
def cache(tmp_path):
    return CodeCache(tmp_path / "cache")


@pytest.fixture
def compiled(monkeypatch):
    """Counts how often LLVM compiles a loop."""
    calls = []
    original = jit.object_code

    def count(text, machine, **options):
        if kernel.LOOP_SYMBOL in text:
            calls.append(1)
        return original(text, machine, **options)

    monkeypatch.setattr(jit, "object_code", count)
    return calls


def use(source, cache, **options):
    f = compile_function(source, cache=cache, threads=1, **options)
    return f(np.array([[1.0, 2.0, 3.0]] * 5)), f(np.array([1.0, 2.0, 3.0]))


def test_a_second_use_neither_builds_nor_compiles(cache, compiled):
    builds = []

    def build():
        builds.append(1)
        return program()

    first = use(Recipe(b"key", build), cache)
    assert (len(builds), len(compiled)) == (1, 2)
    second = use(Recipe(b"key", build), cache)
    assert (len(builds), len(compiled)) == (1, 2)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_tables_come_back(cache):
    x = np.array([1.0, 2.0])
    first = compile_function(Recipe(b"g", with_tables), cache=cache)(x)
    second = compile_function(Recipe(b"g", None), cache=cache)(x)
    np.testing.assert_array_equal(first, second)
    single = compile_function(with_tables(), cache=cache, dtype=np.float32)(x)
    np.testing.assert_allclose(single, first, rtol=1e-6)


def test_an_interface_survives_packing():
    interface = Interface.of(with_tables())
    again = Interface.unpack(interface.pack())
    assert again == interface
    for a, b in zip(again.buffers, interface.buffers, strict=True):
        assert (a.data is None) == (b.data is None)
        if a.data is not None:
            np.testing.assert_array_equal(a.data, b.data)


def test_everything_that_matters_is_in_the_key(cache, compiled, monkeypatch):
    use(program(), cache)
    for source, options in [
        (program(2.0), {}),
        (program(), {"dtype": np.float32}),
        (program(), {"width": 2}),
        (program(), {"level": 0}),
    ]:
        before = len(compiled)
        use(source, cache, **options)
        assert len(compiled) > before
    for name, value in [
        ("whippletree.compiler.llvm.kernel.source_digest", lambda: b"other source"),
        ("whippletree.compiler.llvm.jit.llvm_version", lambda: "other LLVM"),
    ]:
        before = len(compiled)
        with monkeypatch.context() as patch:
            patch.setattr(name, value)
            use(program(), cache)
        assert len(compiled) > before
    before = len(compiled)
    use(program(), cache)
    assert len(compiled) == before


def test_the_content_of_tables_is_in_the_key():
    changed = with_tables()
    changed.buffer("c").data[1] = 7.0
    assert digest(changed) != digest(with_tables())
    assert digest(with_tables()) == digest(with_tables())
    assert len(source_digest()) == 20


def damage_cut(data):
    return data[: len(data) // 2]


def damage_empty(data):
    return b""


def damage_bit(data):
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


def damage_head(data):
    return b"X" + data[1:]


@pytest.mark.parametrize("damage", [damage_cut, damage_empty, damage_bit, damage_head])
def test_a_damaged_entry_is_rebuilt(cache, compiled, damage):
    first = use(program(), cache)
    for path in cache.folder.iterdir():
        path.write_bytes(damage(path.read_bytes()))
    before = len(compiled)
    for a, b in zip(use(program(), cache), first, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(compiled) == before + 2
    use(program(), cache)
    assert len(compiled) == before + 2


def test_an_entry_of_another_key_is_not_used(cache):
    cache.store("a" * 40, b"content")
    (path,) = cache.folder.iterdir()
    path.rename(path.with_name("b" * 40 + path.suffix))
    assert cache.load("b" * 40) is None
    assert cache.load("c" * 40) is None


def test_a_folder_that_cannot_be_written_costs_one_warning(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = CodeCache(blocked / "cache")
    with pytest.warns(RuntimeWarning, match="compiled code cannot be kept in") as caught:
        use(program(), cache)
    assert len(caught) == 1
    use(program(3.0), cache)


def test_the_least_recently_used_entries_leave(tmp_path):
    cache = CodeCache(tmp_path, limit=3500)
    for number in range(3):
        cache.store(f"{number:040}", bytes(1000))
        os.utime(cache.folder / f"{number:040}.wto", (number, number))
    assert cache.load(f"{0:040}") == bytes(1000)  # now it is the most recently used
    cache.store(f"{3:040}", bytes(1000))
    kept = [cache.load(f"{number:040}") is not None for number in range(4)]
    assert kept == [True, False, True, True]
    assert cache.info().entries == 3
    assert 3000 < cache.info().bytes <= 3500


def test_show_and_clear(cache):
    assert cache.info().entries == 0
    assert cache.clear() == 0
    use(program(), cache)
    info = cache.info()
    assert info.entries == 3  # the interface and two variants
    assert info.folder == cache.folder
    assert 0 < info.bytes < info.limit
    assert cache.clear() == 3
    assert cache.info().entries == 0


def test_abandoned_temporary_files_are_removed(cache):
    cache.store("a" * 40, b"content")
    old, new = cache.folder / "old.tmp", cache.folder / "new.tmp"
    for path in (old, new):
        path.write_bytes(b"half an entry")
    os.utime(old, (0, 0))
    cache.clear()
    assert not old.exists()
    assert new.exists()


def test_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("WHIPPLETREE_CACHE", str(tmp_path / "here"))
    assert default_cache().folder == tmp_path / "here"
    monkeypatch.setenv("WHIPPLETREE_CACHE_LIMIT", "2")
    assert default_cache().limit == 2 << 20
    monkeypatch.delenv("WHIPPLETREE_CACHE_LIMIT")
    assert default_cache().limit == 512 << 20
    for word in ("off", "", "none"):
        monkeypatch.setenv("WHIPPLETREE_CACHE", word)
        assert default_cache().folder is None
    monkeypatch.delenv("WHIPPLETREE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform != "win32":
        assert default_cache().folder == tmp_path / "whippletree"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_nobody_else_can_write_to_it(cache):
    cache.store("a" * 40, b"content")
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["much", "-1", "0", "nan", "inf", "1e400"])
def test_a_bad_limit_is_an_error(tmp_path, monkeypatch, text):
    monkeypatch.setenv("WHIPPLETREE_CACHE", str(tmp_path))
    monkeypatch.setenv("WHIPPLETREE_CACHE_LIMIT", text)
    with pytest.raises(UnsupportedError) as raised:
        default_cache()
    assert str(raised.value) == (
        f"WHIPPLETREE_CACHE_LIMIT is {text!r}, expected a number of megabytes above 0, such as 512. To keep nothing, "
        f"set WHIPPLETREE_CACHE to 'off'"
    )


posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX owners, modes and pipes")


def refusal(cache):
    """What is said of a folder in which code lies that must not run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert cache.load("a" * 40) is None
        cache.store("b" * 40, b"content")
        assert cache.load("b" * 40) is None
    assert [warning.category for warning in caught] == [RuntimeWarning]
    return str(caught[0].message)


@posix
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o707])
def test_a_folder_that_others_can_write_is_not_trusted(cache, mode, compiled):
    cache.store("a" * 40, b"forged")
    cache.folder.chmod(mode)
    assert refusal(cache) == (
        f"compiled code in {cache.folder} is not used: it can be written by others (mode {mode:o}), and whoever can "
        f"write there can have any code run as you. Make it yours alone (chmod go-w {cache.folder}), or set "
        f"WHIPPLETREE_CACHE to a folder of your own, or to 'off'. Until then every process compiles anew."
    )
    use(program(), cache)  # no second warning, and an answer all the same
    assert len(compiled) == 2
    cache.folder.chmod(0o755)
    assert cache.load("a" * 40) == b"forged"  # the cure that the message names


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_root_does_not_trust_a_folder_of_somebody_else(cache):
    cache.store("a" * 40, b"forged")
    os.chown(cache.folder, 12345, -1)
    text = refusal(cache)
    assert "it belongs to user 12345, and this process runs as user 0" in text
    assert f"(chown 0 {cache.folder})" in text


@posix
def test_an_owner_is_compared_with_the_user(cache, monkeypatch):
    cache.store("a" * 40, b"content")
    owner = os.geteuid()
    monkeypatch.setattr("whippletree.files.cache.os.geteuid", lambda: owner + 1)
    if owner != 0:
        assert f"it belongs to user {owner}, and this process runs as user {owner + 1}" in refusal(cache)
    else:
        assert cache.load("a" * 40) == b"content"  # root can write everywhere anyway


@posix
def test_a_file_that_others_can_write_is_written_anew(cache):
    cache.store("a" * 40, b"forged")
    path = cache.folder / f"{'a' * 40}.wto"
    path.chmod(0o666)
    assert cache.load("a" * 40) is None
    cache.store("a" * 40, b"content")
    assert cache.load("a" * 40) == b"content"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
def test_links_pipes_devices_and_folders_are_no_entries(cache, tmp_path):
    cache.store("a" * 40, b"content")
    real = cache.folder / f"{'a' * 40}.wto"
    real.rename(tmp_path / "elsewhere")
    real.symlink_to(tmp_path / "elsewhere")
    assert cache.load("a" * 40) is None
    os.mkfifo(cache.folder / f"{'b' * 40}.wto")
    (cache.folder / f"{'c' * 40}.wto").symlink_to("/dev/zero")
    (cache.folder / f"{'d' * 40}.wto").mkdir()
    assert [cache.load(letter * 40) for letter in "bcd"] == [None, None, None]
    for letter in "abc":
        cache.store(letter * 40, b"content")
        assert cache.load(letter * 40) == b"content"
    assert (tmp_path / "elsewhere").read_bytes().endswith(b"content")
    assert cache.clear() == 3


def test_on_windows_only_the_users_profile_is_trusted(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setattr("whippletree.files.cache.Path.home", lambda: home)
    monkeypatch.setattr("whippletree.files.cache.sys.platform", "win32")
    inside, outside = CodeCache(home / "AppData" / "cache"), CodeCache(tmp_path / "shared")
    inside.store("a" * 40, b"content")
    assert inside.load("a" * 40) == b"content"
    assert f"it is outside your profile {home}, where others may write" in refusal(outside)


WORKER = """
import sys
import numpy as np
sys.path[:0] = sys.argv[1:2]
import test_cache
for _ in range(3):
    for constant in (1.0, 2.0):
        batch, one = test_cache.use(test_cache.program(constant), test_cache.CodeCache(sys.argv[2]))
        assert np.array_equal(one, np.array([1.0, 4.0, 9.0]) + constant)
        assert np.array_equal(batch[3], one)
"""


@pytest.mark.slow
def test_processes_share_it(tmp_path):
    here = os.path.dirname(__file__)
    path = os.pathsep.join([os.path.join(os.getcwd(), "src"), *sys.path])
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, here, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": path},
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for worker in workers:
        _, problems = worker.communicate(timeout=300)
        assert worker.returncode == 0, problems
    names = sorted(p.name for p in tmp_path.iterdir())
    assert len(names) == 8  # two functions with an interface and two variants each, and what all functions share
    assert all(name.endswith(".wto") for name in names)


def test_no_warning_without_a_cache():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use(program(), CodeCache(None))


def test_loading_is_fast(cache):
    """A cached function is ready in milliseconds; the bound leaves room for a busy machine."""
    use(program(), cache)
    start = time.perf_counter()
    use(Recipe(digest(program()), None), cache)
    assert time.perf_counter() - start < 0.5


@pytest.mark.parametrize("first", [0, 1])
def test_one_key_for_two_programs_is_refused(first, cache):
    """Code must never run with the tables of another program, whichever of the two the cache has seen first."""
    twins = [with_tables(), replace(with_tables(), buffers=(*with_tables().buffers, Buffer("z", "table", (1,), [0.5])))]
    recipes = [Recipe(b"one key", lambda twin=twin: twin) for twin in twins]
    f = compile_function(recipes[first], cache=cache, threads=1)
    assert np.array_equal(f(2.0), [0.6, 0.2, 0.8])
    with pytest.raises(ProgramError, match=r"'g': .* two programs"):
        compile_function(recipes[1 - first], cache=cache, threads=1)(np.ones(7))


def test_every_chapter_that_writes_programs_decides_the_key():
    """A program outside the catalogue is known to the cache by its name alone: its source must count."""
    package = Path(wt.__file__).parent
    writers = [path for path in package.rglob("*.py") if re.search(r"\.program\(\(", path.read_text(encoding="utf-8"))]
    assert {path.relative_to(package).parts[0] for path in writers} >= {"analysis", "simulation"}
    assert not [path for path in writers if not any(path.is_relative_to(package / stage) for stage in STAGES)]
