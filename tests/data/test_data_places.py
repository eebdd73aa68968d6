"""The places that are searched for data, and the treatment of users' files."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_data import CONTENT, PACKED, toy, urls

from optsmith import data
from optsmith._errors import DataError, OptsmithError
from optsmith.data import locate
from optsmith.data._provide import provide


def put(directory: Path, packed: tuple[str, ...] = ()) -> Path:
    for name, content in CONTENT.items():
        path = directory / (f"{name}.gz" if name in packed else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(PACKED[name] if name in packed else content)
    return directory


@pytest.mark.parametrize("folder", ["", "toy", "toys"])
def test_a_users_files_are_used_where_they_lie(tmp_path, cache, folder):
    directory = put(tmp_path / "mine" / folder)
    assert provide(toy(), tmp_path / "mine") == directory
    assert not (cache / "toy" / "a.bin").exists()


@pytest.mark.parametrize("packed", [("a.bin",), tuple(CONTENT)])
def test_packed_files_are_unpacked_into_the_cache(tmp_path, cache, packed):
    put(tmp_path / "mine", packed)
    dataset = toy()
    for _ in range(2):
        directory = provide(dataset, tmp_path / "mine")
        assert directory == cache / "toy"
        assert dataset.read(directory) == CONTENT


def test_files_that_were_packed_otherwise_are_as_good(tmp_path):
    import gzip

    put(tmp_path / "mine")
    (tmp_path / "mine" / "a.bin").unlink()
    (tmp_path / "mine" / "a.bin.gz").write_bytes(gzip.compress(CONTENT["a.bin"], 1, mtime=7))
    dataset = toy()
    assert dataset.read(provide(dataset, tmp_path / "mine")) == CONTENT


@pytest.mark.parametrize(
    ("packed", "content", "says"),
    [
        ((), CONTENT["a.bin"][:1000], "a.bin in {} is truncated: 1,000 bytes instead of 2,000,000"),
        ((), CONTENT["a.bin"][:-1] + b"?", "a.bin in {} is not the right file: sha256 "),
        ((), CONTENT["a.bin"] + b"?", "a.bin in {} is not the right file: 2,000,001 bytes"),
        (("a.bin",), PACKED["a.bin"][:1000], "a.bin.gz in {} is truncated or damaged"),
        (("a.bin",), PACKED["folder/b.txt"], "a.bin.gz in {} is truncated: 15 bytes"),
        (("a.bin",), b"no gzip at all", "a.bin.gz in {} is truncated or damaged"),
    ],
)
def test_a_bad_file_of_the_user_is_an_error_and_left_alone(
    tmp_path, host, cache, packed, content, says
):
    dataset = toy(urls(host.base))
    provide(dataset)  # a valid copy in the cache does not matter
    directory = put(tmp_path / "mine", packed)
    bad = directory / ("a.bin.gz" if packed else "a.bin")
    bad.write_bytes(content)
    before = host.asked.copy()
    with pytest.raises(DataError) as caught:
        provide(dataset, directory)
    assert says.format(directory) in str(caught.value)
    assert bad.read_bytes() == content
    assert host.asked == before


def test_a_packed_file_that_is_changed_later_is_noticed(tmp_path):
    directory = put(tmp_path / "mine", ("a.bin",))
    provide(toy(), directory)
    (directory / "a.bin.gz").write_bytes(PACKED["a.bin"][:-100])
    with pytest.raises(DataError, match=r"a\.bin\.gz in .* is truncated"):
        provide(toy(), directory)


def test_a_directory_with_only_some_of_the_files(tmp_path, host):
    (put(tmp_path / "mine" / "toy") / "a.bin").unlink()
    with pytest.raises(DataError, match=r"mine/toy has 1 of the 2 files of toy: a\.bin is missing"):
        provide(toy(urls(host.base)), tmp_path / "mine")
    assert not host.asked


def test_a_directory_without_the_dataset_is_passed_over(tmp_path, host, cache):
    (tmp_path / "mine").mkdir()
    assert provide(toy(urls(host.base)), tmp_path / "mine") == cache / "toy"


@pytest.mark.parametrize("way", ["data_dir", "OPTSMITH_DATA"])
def test_a_directory_that_is_not_there(tmp_path, monkeypatch, way):
    if way == "OPTSMITH_DATA":
        monkeypatch.setenv(way, str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=f"{way} is .*nowhere, which is not a directory"):
        provide(toy(), tmp_path / "nowhere" if way == "data_dir" else None)


def test_the_order_of_places(tmp_path, monkeypatch, cache):
    dataset = toy()
    put(cache / "toy")
    put(tmp_path / "environment")
    put(tmp_path / "argument")
    assert provide(dataset) == cache / "toy"
    monkeypatch.setenv("OPTSMITH_DATA", str(tmp_path / "environment"))
    assert provide(dataset) == tmp_path / "environment"
    assert provide(dataset, tmp_path / "argument") == tmp_path / "argument"
    place = locate(dataset, tmp_path / "argument")
    assert place is not None
    assert (place.directory, place.kind) == (tmp_path / "argument", "data_dir")
    assert locate(dataset).kind == "OPTSMITH_DATA"


def test_a_users_files_need_no_cache(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPTSMITH_CACHE", str(tmp_path / "file"))
    directory = put(tmp_path / "mine")
    assert provide(toy(), directory) == directory


def test_a_cache_that_is_complete_is_not_written_to(tmp_path, monkeypatch):
    """It may be read-only, and worker processes need not wait for each other."""
    directory = put(tmp_path / "mine", ("a.bin",))
    provide(toy(), directory)
    monkeypatch.setattr("optsmith.data._provide._fill", pytest.fail)
    dataset = toy()
    assert dataset.read(provide(dataset, directory)) == CONTENT


def test_an_unpacked_copy_that_is_damaged_is_unpacked_again(tmp_path, cache):
    directory = put(tmp_path / "mine", ("a.bin",))
    provide(toy(), directory)
    (cache / "toy" / "a.bin").write_bytes(b"damaged")
    dataset = toy()
    assert dataset.read(provide(dataset, directory)) == CONTENT


def test_an_unknown_name_gets_the_nearest():
    for ask in (data.load, data.where, data.fetch):
        with pytest.raises(OptsmithError, match='no dataset named "mnits"; did you mean "mnist"'):
            ask("mnits")


def test_a_dataset_of_ones_own(host, cache):
    data.datasets.add("toy", toy(urls(host.base)))
    try:
        assert data.where("toy") is None
        with pytest.raises(DataError, match="toy is not on this machine"):
            data.load("toy", download=False)
        assert not host.asked
        assert data.load("toy") == CONTENT
        assert data.where("toy") == data.fetch("toy") == cache / "toy"
    finally:
        data.datasets.remove("toy")
