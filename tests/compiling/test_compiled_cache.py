"""Compiled code is kept between processes; two that write it at once must not get each other's."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skyband.compiling import cache, dispatcher, jit
from skyband.compiling.jit import kernel

SOURCE = Path(__file__).resolve().parents[2] / "src"

KERNELS = """
from skyband.compiling.jit import kernel

@kernel
def total(values):
    out = 0.0
    for value in values:
        out += value
    return out
"""

# A process that compiles the kernel for one type. It dawdles where numba has chosen a name for its file and not
# written it yet, long enough for the other process to come to the same place.
PROCESS = """
import sys, time
import numpy as np
from numba.core.caching import IndexDataCacheFile
from kernels import total

if len(sys.argv) > 2:
    load, save = IndexDataCacheFile._load_index, IndexDataCacheFile._save_index

    def slow_load(self):
        found = load(self)
        time.sleep(0.5)
        return found

    def slow_save(self, overloads):
        save(self, overloads)
        time.sleep(float(sys.argv[2]))

    IndexDataCacheFile._load_index, IndexDataCacheFile._save_index = slow_load, slow_save

values = np.arange(10).astype(sys.argv[1])
total.compiled()
print("ready", flush=True)
sys.stdin.readline()
print(total(values), total.compiled().stats.cache_hits[total.compiled().signatures[0]], flush=True)
"""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    (folder / "kernels.py").write_text(KERNELS)
    (folder / "process.py").write_text(PROCESS)
    paths = [str(SOURCE), str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "process.py", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "SKYBAND_CACHE": str(folder / "cache"),
            "NUMBA_DISABLE_JIT": "0",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def totals(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Let all of them compile at the same moment; what each finds, and whether it had been compiled before."""
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [process.communicate()[0].strip() for process in processes]


def test_two_processes_at_once(tmp_path: Path) -> None:
    # The one that is first to choose a name is the last to write its file.
    assert totals([start(tmp_path, "float64", "2"), start(tmp_path, "int64", "0")]) == ["45.0 0", "45.0 0"]
    assert totals([start(tmp_path, "float64"), start(tmp_path, "int64")]) == ["45.0 1", "45.0 1"]


def test_of_two_processes_one_compiles(tmp_path: Path) -> None:
    assert sorted(totals([start(tmp_path, "float64"), start(tmp_path, "float64")])) == ["45.0 0", "45.0 1"]


# A package whose kernel calls a helper that lies two folders deep.
OUTER = """
from skyband.compiling.jit import kernel
from skyband.algorithms.toy.deep.helper import step

@kernel
def total(values):
    out = 0.0
    for value in values:
        out += step(value)
    return out
"""
HELPER = """
from skyband.compiling.jit import kernel

@kernel
def step(value):
    return {factor} * value
"""


def test_code_of_a_changed_kernel_in_a_sub_package_is_not_used_again(tmp_path: Path) -> None:
    """numba sees only the file of the kernel that is called; the digest has to see what it calls, however deep."""
    package = tmp_path / "src" / "skyband"
    shutil.copytree(SOURCE / "skyband", package, ignore=shutil.ignore_patterns("__pycache__"))
    toy = package / "algorithms" / "toy"
    (toy / "deep").mkdir(parents=True)
    (toy / "outer.py").write_text(OUTER)
    code = "import numpy as np; from skyband.algorithms.toy.outer import total; print(total(np.arange(4.0)))"
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "src"),
        "SKYBAND_CACHE": str(tmp_path / "cache"),
        "NUMBA_DISABLE_JIT": "0",
    }
    for factor, found in ((1, "6.0"), (1, "6.0"), (3, "18.0")):
        (toy / "deep" / "helper.py").write_text(HELPER.format(factor=factor))
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == found


def test_every_file_with_kernels_is_in_the_digest() -> None:
    package = SOURCE / "skyband"
    marks = re.compile(r"^(@kernel|@inlined|@native\b)|= generated\(|return generated\(", re.MULTILINE)
    with_kernels = {
        path for path in package.rglob("*.py") if "bench" not in path.parts and marks.search(path.read_text())
    }
    assert [path for path in with_kernels if not cache.counts(path)] == []


def test_a_folder_of_compiled_code_knows_all_that_its_kernels_use() -> None:
    """What a kernel reaches through its globals is among the files that its folder's name is made of."""
    package = SOURCE / "skyband"
    looked_at = 0
    for path in filter(cache.counts, package.rglob("*.py")):
        module = importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
        imported = cache.imported(path.read_text())
        for value in vars(module).values():
            if isinstance(value, jit.Kernel):
                for name in value.function.__code__.co_names:
                    used = value.function.__globals__.get(name)
                    if isinstance(used, jit.Kernel):
                        looked_at += 1
                        assert Path(used.function.__code__.co_filename) in {path, *imported}
    assert looked_at > 100
    ra, pairs = (package / "algorithms" / part for part in ("skyband/ra.py", "pairs/pair_skyband.py"))
    assert package / "algorithms/kernels/candidate_lists.py" in cache.imported(ra.read_text())
    assert pairs not in cache.imported(ra.read_text())  # a change there compiles no `ra` again


def test_nobody_waits_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(cache, "_folder", tmp_path)
    monkeypatch.setattr(cache, "_compiling", None)
    monkeypatch.setattr(cache, "PATIENCE", 0.05)
    asked = 0

    def taken(*_: object) -> None:
        nonlocal asked
        asked += 1
        raise BlockingIOError

    with monkeypatch.context() as another:
        another.setattr(fcntl, "lockf", taken)
        with cache.only_one("a kernel"):
            assert asked > 1


def test_the_lock_is_where_numba_keeps_its_cache() -> None:
    """Another numba may keep it elsewhere, and then two processes could mix it up again."""

    @kernel
    def twice(values: np.ndarray) -> None:
        values *= 2

    if os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0"):
        files = twice.compiled()._cache._cache_file
        assert {files.load.__name__, files.save.__name__} == {"locked_load", "locked_save"}


def test_generated_modules_are_kept_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_folder", tmp_path)
    source = "def twice(x):\n    return 2 * x\n"
    assert jit.generated(source, known=True) is None  # nobody has made it yet
    made = jit.generated(source)
    assert made.twice(3) == 6 and jit.generated(source) is made
    (file,) = tmp_path.rglob("*.py")
    file.write_text("def twice(x):\n    return 3 * x\n")  # not what its name promises
    monkeypatch.delitem(sys.modules, made.__name__)
    assert jit.generated(source, known=True).twice(3) == 6 and file.read_text() == source
    monkeypatch.delitem(sys.modules, made.__name__)


def test_where_each_system_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    kept = {"linux": ".cache", "darwin": "Library/Caches", "win32": "AppData/Local"}
    for system, folder in kept.items():
        monkeypatch.setattr(sys, "platform", system)
        assert cache._user_cache() == Path("/home/me") / folder
    monkeypatch.setenv("LOCALAPPDATA", "/elsewhere")
    assert cache._user_cache() == Path("/elsewhere")


class Compiler:
    def compile(self, fails: bool) -> bool:
        if fails:
            raise ValueError
        return gc.isenabled()


def test_no_garbage_is_looked_for_while_a_kernel_is_compiled() -> None:
    compiler = Compiler()
    dispatcher._compile_undisturbed(compiler, "a kernel")
    assert not compiler.compile(False)
    assert gc.isenabled()
    with pytest.raises(ValueError):
        compiler.compile(True)
    assert gc.isenabled()
    gc.disable()
    try:
        compiler.compile(False)
        assert not gc.isenabled()  # who has switched it off wants it so
    finally:
        gc.enable()


@kernel
def shifted(values: np.ndarray, by: float) -> np.ndarray:
    out = np.empty(values.shape[0])
    for i in range(values.shape[0]):
        out[i] = values[i] + by
    return out


@kernel
def shifted_sum(values: np.ndarray, by: float) -> float:
    out = 0.0
    for value in shifted(values, by):
        out += value
    return out


@kernel
def plain_sum(values: np.ndarray) -> float:
    out = 0.0
    for value in values:
        out += value
    return out


@kernel
def halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    middle = values.shape[0] // 2
    return values[:middle], values[middle:]


def test_only_kernels_that_make_arrays_count_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(5.0)
    assert shifted_sum(values, 1.0) == 15.0
    assert plain_sum(shifted(values, 2.0)) == 20.0
    assert shifted.compiled().owns and shifted_sum.compiled().owns
    assert not plain_sum.compiled().owns
    # numba shows no code that an earlier run has left in the cache: compiled here anew.
    monkeypatch.setattr(cache, "_folder", tmp_path)
    own, lent = kernel(shifted.function), kernel(plain_sum.function)
    assert own(values, 1.0).sum() == 15.0 and lent(values) == 10.0
    code = {each: next(iter(each.compiled().inspect_llvm().values())) for each in (own, lent)}
    assert "NRT_decref" in code[own]
    assert code[lent].count("define") and "NRT_decref" not in code[lent]


def test_a_full_disk_keeps_nothing_and_hinders_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caching = pytest.importorskip("numba.core.caching")
    monkeypatch.setattr(cache, "_folder", tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def hits() -> int:
        fresh = kernel(plain_sum.function)
        assert fresh(np.arange(5.0)) == 10.0
        return sum(fresh.compiled().stats.cache_hits.values())

    with monkeypatch.context() as disk:
        disk.setattr(caching.IndexDataCacheFile, "_save_data", full)
        assert hits() == 0
    assert [hits(), hits()] == [0, 1]  # with room again it is kept


def test_a_kernel_that_borrows_may_not_return_an_array() -> None:
    with pytest.raises(TypeError, match=r"halves returns an array that it borrowed: let it write into one"):
        halves(np.arange(4.0))


@kernel
def raised(value: float, by: int, squared: bool) -> float:
    return value * value + by if squared else value + by


@kernel
def raised_twice(value: float, by: int) -> float:
    return raised(value, 1, True) + raised(value, 2, False) + raised(value, by, True)


def test_constants_make_no_kernel_of_their_own() -> None:
    assert raised_twice(3.0, 4) == raised_twice.function(3.0, 4) == 28.0
    if os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0"):
        assert len(raised.compiled().signatures) == 1


def test_numba_resolves_calls_as_it_does_when_no_kernel_is_compiled() -> None:
    functions = pytest.importorskip("numba.core.types.functions")
    own = functions.BaseFunction.get_call_type
    with dispatcher._asked_again():
        assert functions.BaseFunction.get_call_type is dispatcher._call_type
        with dispatcher._asked_again():
            pass
        assert functions.BaseFunction.get_call_type is dispatcher._call_type
    assert functions.BaseFunction.get_call_type is own is dispatcher._searched


def test_a_call_has_the_type_that_numba_finds() -> None:
    """Operators that kernels use, for every two kinds, asked of numba, of our search, and of what that has kept."""
    import operator

    from numba.core import errors, types
    from numba.core.registry import cpu_target

    context = cpu_target.typing_context
    context.refresh()
    kinds = [
        types.int32,
        types.int64,
        types.uint64,
        types.float64,
        types.boolean,
        types.literal(3),
        types.float64[::1],
    ]
    functions = [
        operator.add,
        operator.truediv,
        operator.lt,
        operator.rshift,
        operator.and_,
        operator.getitem,
        min,
        pow,
    ]
    found = 0
    for function in functions:
        known = context.resolve_value_type(function)
        for arguments in [(a, b) for a in kinds for b in kinds]:
            told = []
            for asked in (type(known).get_call_type, dispatcher._call_type, dispatcher._call_type):
                with dispatcher._asked_again():
                    try:
                        told.append(str(asked(known, context, arguments, {})))
                    except errors.TypingError:
                        told.append("none")
            assert len(set(told)) == 1, (function, arguments, told)
            found += told[0] != "none"
    assert found > 100
