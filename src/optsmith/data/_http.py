"""HTTP downloads with short time-outs; a separate module because its imports are slow."""

from __future__ import annotations

import http.client
import socket
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from optsmith._errors import DataError
from optsmith._version import __version__
from optsmith.data._progress import Progress

TIMEOUT = 10.0
"""Seconds to wait for a connection, and for more data."""


def reason(error: Exception) -> str:
    """Return a short reason why a download failed."""
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        return reason(error.reason)
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT:g} s"
    if isinstance(error, socket.gaierror):
        return "the host name cannot be resolved"
    text = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
    return str(text) or type(error).__name__


def reach(address: str) -> None:
    """Check quickly that a host accepts connections.

    Python would try all addresses of a host in turn, which takes minutes behind a firewall that
    drops packets. This tries one address per family.

    Raises:
        DataError: The host does not accept connections.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        return
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    problem = ""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DataError(reason(error)) from None
    first = {entry[0]: entry for entry in reversed(found)}
    for family, kind, protocol, _, target in first.values():
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.settimeout(TIMEOUT)
                probe.connect(target)
                return
        except OSError as error:
            problem = reason(error)
    raise DataError(problem)


def save(address: str, target: Path, progress: Progress) -> None:
    """Download a file.

    Raises:
        DataError: The network or the host fails.
        OSError: The file cannot be written.
    """
    request = urllib.request.Request(  # noqa: S310 (addresses are declared, content is verified)
        address, headers={"User-Agent": f"optsmith/{__version__}"}
    )
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{address}: {reason(error)}") from None
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{address}: {reason(error)}") from None
    length = answer.headers.get("Content-Length", "")
    total, count = int(length) if length.isdigit() else None, 0
    with answer, target.open("wb") as file, progress.step(target.name, total) as advance:
        while True:
            try:
                chunk = answer.read(1 << 16)
            except (OSError, http.client.HTTPException) as error:
                raise DataError(f"{address}: {reason(error)}") from None
            if not chunk:
                break
            file.write(chunk)
            count += len(chunk)
            advance(len(chunk))
    if total is not None and count < total:
        raise DataError(f"{address} is truncated: it ended after {count:,} of {total:,} bytes")
