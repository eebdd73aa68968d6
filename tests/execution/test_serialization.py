import importlib.util
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch
import worker_jobs
from torch import nn

from optsmith import OptsmithError
from optsmith.execution._serialization import SMALL, pack, unpack
from optsmith.execution._shared_files import SharedFiles

N = 300


def numbers(dtype=torch.float32):
    return torch.arange(N * N, dtype=torch.float64).reshape(N, N).sin().mul(100).to(dtype)


def sparse():
    places = torch.arange(20_000).repeat(2, 1)
    size = (20_000, 20_000)
    return torch.sparse_coo_tensor(
        places, torch.rand(20_000), size, check_invariants=True
    ).coalesce()


def parameter_of_float64():
    return nn.Parameter(numbers(torch.float64), requires_grad=False)


TENSORS = {
    "float32": numbers,
    "bool": lambda: numbers() > 0,
    "bfloat16": lambda: numbers(torch.bfloat16),
    "float16": lambda: numbers(torch.float16),
    "int64": lambda: numbers(torch.int64),
    "complex": lambda: torch.complex(numbers(), numbers().flip(0)),
    "conjugate": lambda: torch.complex(numbers(), numbers()).conj(),
    "transposed": lambda: numbers().T,
    "sliced": lambda: numbers()[5:, ::3],
    "offset": lambda: numbers()[17],
    "expanded": lambda: numbers()[:, :1].expand(N, 7),
    "channels last": lambda: torch.randn(8, 16, 9, 32).contiguous(
        memory_format=torch.channels_last
    ),
    "requires grad": lambda: numbers().requires_grad_(),
    "parameter": lambda: nn.Parameter(numbers()),
    "frozen parameter": parameter_of_float64,
    "sparse": sparse,
    "empty": lambda: torch.empty(0, 5),
    "scalar": lambda: torch.tensor(2.5),
}

STRUCTURE = np.dtype([("a", "f4"), ("b", "i8")])

ARRAYS = {
    "float64": lambda: np.random.default_rng(0).random((N, N)),
    "fortran": lambda: np.asfortranarray(np.random.default_rng(0).random((N, N))),
    "sliced": lambda: np.random.default_rng(0).random((N, N))[3:, 5::2],
    "backwards": lambda: np.random.default_rng(0).random((N, N))[::-1, ::-2],
    "transposed part": lambda: np.random.default_rng(0).random((N, N, 2))[..., 1].T,
    "bool": lambda: np.random.default_rng(0).random((N, N)) > 0.5,
    "strings": lambda: np.array([f"word {i}" for i in range(9000)]),
    "dates": lambda: np.arange("1900-01", "2900-01", dtype="datetime64[h]")[:20_000],
    "structured": lambda: np.zeros(9000, STRUCTURE),
    "broadcast": lambda: np.broadcast_to(np.arange(500.0), (500, 500)),
    "windows": lambda: np.lib.stride_tricks.sliding_window_view(np.arange(20_000.0), 50),
    "of a tensor": lambda: numbers().numpy()[1:],
    "read-only": lambda: read_only(np.random.default_rng(0).random((N, N))),
    "big-endian": lambda: np.arange(20_000, dtype=">f8"),
    "objects": lambda: np.array([{"i": i} for i in range(20_000)]),
}


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.fixture
def shared(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shared = SharedFiles()
    yield shared
    shared.remove()
    assert list(tmp_path.glob("optsmith-*")) == []


def files(shared):
    return sorted(shared._directory.iterdir()) if shared._directory else []


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_arrives_as_it_was(name, shared):
    tensor = TENSORS[name]()
    packed = pack({"x": tensor, "again": tensor}, shared)
    copy = unpack(packed)
    got = copy["x"]
    assert copy["again"] is got
    assert type(got) is type(tensor)
    assert got.requires_grad == tensor.requires_grad
    assert got.layout == tensor.layout
    assert got.is_conj() == tensor.is_conj()
    assert len(packed) < SMALL
    if tensor.layout == torch.strided:
        assert got.stride() == tensor.stride()
        assert got.storage_offset() == tensor.storage_offset()
        assert len(files(shared)) == (tensor.untyped_storage().nbytes() > SMALL)
        torch.testing.assert_close(got.resolve_conj(), tensor.resolve_conj(), rtol=0, atol=0)
    else:
        assert len(files(shared)) == 2
        assert torch.equal(got.values(), tensor.values())
        assert torch.equal(got.indices(), tensor.indices())


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_arrives_as_it_was(name, shared):
    array = ARRAYS[name]()
    packed = pack([array, array], shared)
    got, again = unpack(packed)
    assert again is got
    assert type(got) is np.ndarray
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(got, array)
    if name == "objects":
        assert files(shared) == []
    else:
        assert got.strides == array.strides
        assert got.flags.writeable == array.flags.writeable
        assert len(files(shared)) == (array.nbytes > SMALL)
        assert len(packed) < SMALL


def test_what_is_small_makes_no_directory(shared):
    tensor, array = torch.ones(SMALL // 4), np.ones(SMALL // 8)
    got = unpack(pack([tensor, array], shared))
    assert torch.equal(got[0], tensor)
    np.testing.assert_array_equal(got[1], array)
    assert shared._directory is None


def test_memory_is_written_once_and_views_of_it_stay_views(shared):
    base = numbers()
    array = np.arange(50_000.0)
    module = nn.Linear(N, N)
    context = [base, base.T, base[10:], array, array[5:20_000], module, module.weight]
    a, b, c, d, e, linear, weight = unpack(pack(context, shared))
    assert len(files(shared)) == 3
    a[20, 30] = -1.0
    assert (b[30, 20], c[10, 30]) == (-1.0, -1.0)
    d[9] = -1.0
    assert e[4] == -1.0
    assert linear.weight is weight


def test_a_tensor_and_an_array_of_one_memory_share_a_file(shared):
    tensor = numbers()
    pack([tensor, tensor.numpy()], shared)
    assert len(files(shared)) == 1


class Fleeting:
    """A list whose items are created during pickling, each in the memory of the one before."""

    def __init__(self, make):
        self.make = make

    def __reduce__(self):
        return list, (), None, (self.make(i) for i in range(10))


@pytest.mark.parametrize(
    "make",
    [
        lambda i: np.full(20_000, i),
        lambda i: torch.full((20_000,), i),
        lambda i: torch.full((20_000,), i).untyped_storage(),
    ],
)
def test_memory_that_is_used_again_while_pickling_is_not_mixed_up(make, shared):
    got = unpack(pack(Fleeting(make), shared))
    assert [int(x[0]) for x in got] == list(range(10))


def test_writes_stay_private(shared):
    packed = pack([numbers(), np.arange(50_000.0)], shared)
    tensor, array = unpack(packed)
    tensor.zero_()
    array[:] = 0.0
    tensor, array = unpack(packed)
    assert torch.equal(tensor, numbers())
    np.testing.assert_array_equal(array, np.arange(50_000.0))


def make_map(path, mode="r"):
    np.save(path, np.arange(40_000.0).reshape(200, 200))
    return np.load(path, mmap_mode=mode)


@pytest.mark.parametrize("part", [np.s_[:], np.s_[20:, ::2]])
def test_a_mapped_file_is_not_written_again(part, shared, tmp_path):
    array = make_map(tmp_path / "data.npy")
    packed = pack([array[part], np.asarray(array)[part]], shared)
    assert files(shared) == []
    assert len(packed) < SMALL
    mapped, plain = unpack(packed)
    assert (type(mapped), type(plain)) == (np.memmap, np.ndarray)
    for got in (mapped, plain):
        np.testing.assert_array_equal(got, array[part])
        assert got.strides == array[part].strides
        assert not got.flags.writeable


def test_a_map_with_private_changes_is_written(shared, tmp_path):
    array = make_map(tmp_path / "data.npy", "c")
    array[0, 0] = -5.0
    got = unpack(pack(array, shared))
    np.testing.assert_array_equal(got, array)
    assert len(files(shared)) == 1


def test_a_map_of_a_file_that_is_gone_is_written(shared, tmp_path):
    array = make_map(tmp_path / "data.npy")
    (tmp_path / "data.npy").unlink()
    np.testing.assert_array_equal(unpack(pack(array, shared)), array)


def test_a_tensor_mapped_from_a_file_is_not_written_again(shared, tmp_path):
    path = str(tmp_path / "data.bin")
    numbers().numpy().tofile(path)
    tensor = torch.from_file(path, shared=True, size=N * N).reshape(N, N)
    got = unpack(pack(tensor, shared))
    assert files(shared) == []
    assert torch.equal(got, numbers())
    got.zero_()
    assert torch.equal(tensor, numbers())


def test_a_full_disk_is_one_clear_error(shared, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    with pytest.raises(OptsmithError, match=r"cannot write .* /nowhere/at/all .*set TMPDIR"):
        pack(numbers(), shared)


def load_by_path(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


SOURCE = """
class Thing:
    size = 3

def measure(thing):
    return thing.size + OFFSET

OFFSET = 4
"""


@pytest.mark.parametrize("package", [False, True])
def test_functions_of_a_file_that_is_not_on_the_path_travel_by_value(package, tmp_path):
    if package:
        (tmp_path / "strange_package").mkdir()
        path = tmp_path / "strange_package" / "__init__.py"
    else:
        path = tmp_path / "strange_task.py"
    path.write_text(SOURCE)
    name = "strange_package" if package else "strange_task"
    module = load_by_path(path, name)
    try:
        packed = pack((module.measure, module.Thing(), module))
    finally:
        del sys.modules[name]
    assert name not in cloudpickle.list_registry_pickle_by_value()
    function, thing, copy = unpack(packed)
    assert function(thing) == copy.measure(copy.Thing()) == 7
    assert function is not module.measure


def test_modules_on_the_path_travel_by_name():
    for thing in (worker_jobs, worker_jobs.call, worker_jobs.Unloadable, nn.Linear, Path):
        assert len(pack(thing)) < 200


def test_a_module_made_by_hand_travels_by_value():
    module = types.ModuleType("made_by_hand")
    exec("def f():\n    return g() + 1\ndef g():\n    return 1\n", module.__dict__)  # noqa: S102
    sys.modules["made_by_hand"] = module
    try:
        packed = pack(module.f)
    finally:
        del sys.modules["made_by_hand"]
    assert unpack(packed)() == 2


def test_the_next_process_removes_what_a_killed_process_left(shared, tmp_path):
    dead = subprocess.Popen(["true"])  # noqa: S607
    dead.wait()
    leftover = tmp_path / f"optsmith-shared-{dead.pid}-abc"
    ours = tmp_path / f"optsmith-shared-{os.getpid()}-abc"
    other = tmp_path / "optsmith-shared-notes"
    for path in (leftover, ours, other):
        path.mkdir()
        (path / "1").write_text("data")
    shared.write(memoryview(b"new"))
    assert not leftover.exists()
    assert ours.exists()
    assert other.exists()
    for path in (ours, other):
        (path / "1").unlink()
        path.rmdir()


def test_a_locked_directory_is_left_alone_whatever_its_number(shared, tmp_path):
    from optsmith.execution._shared_files import _lock

    dead = subprocess.Popen(["true"])  # noqa: S607
    dead.wait()
    path = tmp_path / f"optsmith-shared-{dead.pid}-abc"
    path.mkdir()
    lock = _lock(path)
    shared.write(memoryview(b"new"))
    assert path.exists()
    os.close(lock)
    path.rmdir()


def test_the_directory_is_private_and_its_files_hold_what_was_written(shared):
    path = Path(shared.write(memoryview(b"some data")))
    assert path.read_bytes() == b"some data"
    assert path.parent.stat().st_mode & 0o077 == 0
    shared.remove()
    shared.remove()
    assert not path.parent.exists()
