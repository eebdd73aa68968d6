"""A small dataset of two files, equal in every process, and a server to download it from."""

from __future__ import annotations

import gzip
import hashlib
import random
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from optsmith.data import DataFile, Dataset, Download, Source, Urls, gunzip

CONTENT = {
    "a.bin": random.Random(0).randbytes(2_000_000),  # large enough to be recorded as verified
    "folder/b.txt": b"the second file",
}
PACKED = {name: gzip.compress(content, mtime=0) for name, content in CONTENT.items()}


def digest(algorithm: str, content: bytes) -> str:
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


def read(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in CONTENT}


def toy(*sources: Source, name: str = "toy") -> Dataset:
    files = tuple(DataFile(n, len(c), digest("sha256", c)) for n, c in CONTENT.items())
    return Dataset(name, "a toy", files, read, sources, folders=("toys",))


def urls(base: str) -> Urls:
    downloads = (
        Download(f"{name}.gz", digest("md5", packed), (name,), gunzip)
        for name, packed in PACKED.items()
    )
    return Urls(base, tuple(downloads))


class Host:
    """An HTTP server on loopback.

    Attributes:
        files: Content by path.
        cut: Paths of which only the first half is sent.
        held: Paths of which the second half is sent after `release` is set.
        asked: Number of requests per path.
    """

    def __init__(self) -> None:
        self.files = {f"/{name}.gz": packed for name, packed in PACKED.items()}
        self.cut: set[str] = set()
        self.held: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.holding, self.release = threading.Event(), threading.Event()
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked[request.path] += 1
        if request.path not in self.files:
            request.send_error(404)
            return
        content = self.files[request.path]
        half = len(content) // 2
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        try:
            request.wfile.write(content[:half])
            request.wfile.flush()
            if request.path in self.held:
                self.holding.set()
                self.release.wait(60)
            if request.path not in self.cut:
                request.wfile.write(content[half:])
        except OSError:
            pass  # the client was killed

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
