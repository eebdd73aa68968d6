"""Downloads: verification, error messages, and recovery after interruptions."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_data import CONTENT, PACKED, Host, digest, toy, urls

import optsmith.data._http
from optsmith import data
from optsmith._errors import DataError
from optsmith.data import Download, Urls, gunzip
from optsmith.data._provide import provide

ASK = """
import sys
sys.path.insert(0, sys.argv[1])
from toy_data import CONTENT, toy, urls
from optsmith.data._provide import provide
dataset = toy(urls(sys.argv[2]))
print("asking", flush=True)
sys.exit(dataset.read(provide(dataset)) != CONTENT)
"""


def ask(host: Host) -> subprocess.Popen[str]:
    """Start a process that loads the toy dataset, and wait until it begins."""
    process = subprocess.Popen(
        [sys.executable, "-c", ASK, str(Path(__file__).parent), host.base],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asking\n"
    return process


def files(directory: Path) -> set[str]:
    """Return the files in a cache, without lock and record of verified files."""
    found = {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}
    return found - {".lock", ".verified.json"}


def get(*sources, **options):
    dataset = toy(*sources)
    return dataset.read(provide(dataset, **options))


def test_what_is_fetched_is_right_and_fetched_once(host, cache):
    assert get(urls(host.base)) == CONTENT
    assert get(urls(host.base)) == CONTENT
    assert host.asked == {"/a.bin.gz": 1, "/folder/b.txt.gz": 1}
    assert files(cache / "toy") == set(CONTENT)


def test_a_truncated_download_is_named(host, cache):
    host.cut.add("/a.bin.gz")
    with pytest.raises(DataError, match=rf"{host.base}a\.bin\.gz is truncated: .* of 2,000,\d+"):
        get(urls(host.base))
    assert files(cache / "toy") == set()


def test_a_tampered_download_is_named_with_both_checksums(host, cache):
    content = bytearray(PACKED["a.bin"])
    content[1000] ^= 1
    host.files["/a.bin.gz"] = bytes(content)
    expected = digest("md5", PACKED["a.bin"])[4:16]
    actual = digest("md5", bytes(content))[4:16]
    with pytest.raises(DataError, match=f"a.bin.gz in {host.base} .* {actual}… .* {expected}…"):
        get(urls(host.base))
    assert files(cache / "toy") == set()


def test_a_file_with_the_published_checksum_must_still_have_the_right_content(host, cache):
    """The source declares the checksum of the archive, the dataset that of the file."""
    wrong = Download("b", digest("md5", PACKED["folder/b.txt"]), ("a.bin",), gunzip)
    host.files["/b"] = PACKED["folder/b.txt"]
    with pytest.raises(DataError, match=r"a\.bin is truncated: 15 bytes instead of 2,000,000"):
        get(Urls(host.base, (wrong,)))
    assert files(cache / "toy") == set()


def test_a_missing_file_is_named_and_the_host_is_asked_no_further(host):
    del host.files["/a.bin.gz"]
    with pytest.raises(DataError, match=r"a\.bin\.gz: 404 Not Found"):
        get(urls(host.base))
    assert host.asked == {"/a.bin.gz": 1}


def test_the_next_source_gets_only_what_is_missing(host):
    second = Host()
    try:
        host.cut.add("/folder/b.txt.gz")
        assert get(urls(host.base), urls(second.base)) == CONTENT
        assert second.asked == {"/folder/b.txt.gz": 1}
    finally:
        second.close()


def test_a_host_that_refuses(host):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        with pytest.raises(DataError, match="Connection refused"):
            get(urls(base))
        assert get(urls(base), urls(host.base)) == CONTENT


def test_a_host_that_is_silent(monkeypatch):
    monkeypatch.setattr(optsmith.data._http, "TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(DataError, match=r"no answer within 0\.2 s"):
            get(urls(f"http://127.0.0.1:{silent.getsockname()[1]}/"))


def test_an_archive_is_downloaded_once_for_all_its_files(host, cache, tmp_path):
    import tarfile

    with tarfile.open(tmp_path / "both.tar.gz", "w:gz") as archive:
        for name, content in CONTENT.items():
            (tmp_path / "file").write_bytes(content)
            archive.add(tmp_path / "file", f"top/{name}")
    host.files["/both.tar.gz"] = packed = (tmp_path / "both.tar.gz").read_bytes()
    unpack = data.from_archive("top/")
    both = Download("both.tar.gz", digest("sha256", packed), tuple(CONTENT), unpack)
    assert get(Urls(host.base, (both,))) == CONTENT
    assert host.asked == {"/both.tar.gz": 1}
    assert files(cache / "toy") == set(CONTENT)


def test_two_processes_at_once_download_once(host):
    host.held.add("/a.bin.gz")
    first = ask(host)
    assert host.holding.wait(60)
    second = ask(host)
    time.sleep(0.5)  # usually enough for it to find the lock taken
    host.release.set()
    assert [p.communicate(timeout=60)[1] for p in (first, second)] == ["", ""]
    assert [first.returncode, second.returncode] == [0, 0]
    assert host.asked == {"/a.bin.gz": 1, "/folder/b.txt.gz": 1}


def test_after_a_kill_what_was_done_stays_done(host, cache):
    host.held.add("/folder/b.txt.gz")
    process = ask(host)
    assert host.holding.wait(60)
    process.kill()
    process.communicate(timeout=60)
    assert (cache / "toy" / "a.bin").exists()
    assert list((cache / "toy").glob(".fetch-*")), "it was not killed in the middle"
    host.release.set()
    assert get(urls(host.base)) == CONTENT
    assert host.asked == {"/a.bin.gz": 1, "/folder/b.txt.gz": 2}
    assert files(cache / "toy") == set(CONTENT)
    assert not list((cache / "toy").glob(".fetch-*"))


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_nothing_half_written(host, cache):
    host.held.add("/folder/b.txt.gz")
    process = ask(host)
    assert host.holding.wait(60)
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]
    assert files(cache / "toy") == {"a.bin"}
    assert not list((cache / "toy").glob(".fetch-*"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:1000]),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
        lambda path: path.unlink(),
    ],
    ids=["truncated", "tampered", "gone"],
)
def test_a_damaged_file_in_the_cache_is_fetched_again(host, cache, damage):
    get(urls(host.base))
    damage(cache / "toy" / "a.bin")
    assert get(urls(host.base)) == CONTENT
    assert host.asked == {"/a.bin.gz": 2, "/folder/b.txt.gz": 1}


def test_a_damaged_file_in_the_cache_without_network_is_named(host, cache):
    get(urls(host.base))
    (cache / "toy" / "a.bin").write_bytes(CONTENT["a.bin"][:1000])
    with pytest.raises(DataError, match=rf"a\.bin in {cache}/toy is truncated: 1,000 bytes"):
        get(urls(host.base), download=False)
    assert host.asked == {"/a.bin.gz": 1, "/folder/b.txt.gz": 1}


def test_a_stamp_spares_hashing_but_not_in_a_thorough_check(host, cache):
    get(urls(host.base))
    path = cache / "toy" / "a.bin"
    times = path.stat()
    path.write_bytes(CONTENT["a.bin"][:-1] + b"?")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert get(urls(host.base)) != CONTENT, "the file was hashed although its stamp is right"
    assert get(urls(host.base), thorough=True) == CONTENT


def test_a_damaged_record_of_stamps_is_no_harm(host, cache):
    get(urls(host.base))
    for text in ("", "{", "[1]", '{"x": 3}'):
        (cache / "toy" / ".verified.json").write_text(text)
        assert get(urls(host.base)) == CONTENT
    assert host.asked["/a.bin.gz"] == 1


def test_without_network_the_ways_to_provide_the_data_are_named(cache):
    with pytest.raises(DataError) as caught:
        get(Urls("http://nowhere.invalid/", urls("").downloads))
    message = str(caught.value)
    for part in ("a.bin, folder/b.txt", "--data-dir", "OPTSMITH_DATA", "optsmith data fetch toy"):
        assert part in message
    assert "nowhere.invalid: the host name cannot be resolved" in message
    assert "\n" not in message


def test_a_cache_that_cannot_be_written(host, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPTSMITH_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        DataError, match=r"cannot be written to .*: Not a directory; set OPTSMITH_CACHE"
    ):
        get(urls(host.base))


def test_a_full_disk(host, cache, monkeypatch):
    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DataError, match=r"cannot be written to .*: No space left on device"):
        get(urls(host.base))
    assert files(cache / "toy") == set()
