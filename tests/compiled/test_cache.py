"""The cache of object code: found again, never trusted when damaged, shared by processes, bounded in size."""

import os
import stat
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from whippletree.compiler import jit, kernel
from whippletree.compiler.cache import Cache, default_cache
from whippletree.compiler.functions import compile_function
from whippletree.compiler.kernel import Interface, Recipe, digest, source_digest
from whippletree.compiler.program import Address, Block, Buffer, Index, Lookup, Loop, Program, straight_program
from whippletree.expression import Straight, Trace, finish


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
    use(program(), Cache(None))


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture
def compiled(monkeypatch):
    """Counts how often LLVM compiles a loop."""
    calls = []
    original = jit.object_code

    def count(text, machine, **options):
        if kernel.SYMBOL in text:
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
        ("whippletree.compiler.kernel.source_digest", lambda: b"other source"),
        ("whippletree.compiler.jit.llvm_version", lambda: "other LLVM"),
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
    cache = Cache(blocked / "cache")
    with pytest.warns(RuntimeWarning, match="compiled code cannot be kept in") as caught:
        use(program(), cache)
    assert len(caught) == 1
    use(program(3.0), cache)


def test_the_least_recently_used_entries_leave(tmp_path):
    cache = Cache(tmp_path, limit=3500)
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
    monkeypatch.setenv("WHIPPLETREE_CACHE_LIMIT", "much")
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


WORKER = """
import sys
import numpy as np
sys.path[:0] = sys.argv[1:2]
import test_cache
for _ in range(3):
    for constant in (1.0, 2.0):
        batch, one = test_cache.use(test_cache.program(constant), test_cache.Cache(sys.argv[2]))
        assert np.array_equal(one, np.array([1.0, 4.0, 9.0]) + constant)
        assert np.array_equal(batch[3], one)
"""


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
        use(program(), Cache(None))


def test_loading_is_fast(cache):
    """A cached function is ready in milliseconds; the bound leaves room for a busy machine."""
    use(program(), cache)
    start = time.perf_counter()
    use(Recipe(digest(program()), None), cache)
    assert time.perf_counter() - start < 0.5
