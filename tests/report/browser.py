"""Headless Chromium driven through its DevTools pipe: nothing to install but the browser."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60.0
"""Seconds to wait for an answer: generous, since a busy machine is not a fault of the page."""

# Chromium reads commands from descriptor 3 and answers on 4. A launcher puts them there, since
# subprocess hands descriptors on under the numbers they have.
LAUNCH = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find() -> str | None:
    """Return the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One headless Chromium with one page.

    Args:
        executable: Path of the browser.
        profile: Directory for its files; nothing outside it is read or written.
    """

    def __init__(self, executable: str, profile: Path) -> None:
        command_read, self._write = os.pipe()
        self._read, answer_write = os.pipe()
        arguments = [
            executable,
            "--headless",
            "--remote-debugging-pipe",
            "--no-sandbox",  # it needs kernel features that containers lack; the page is ours
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--force-color-profile=srgb",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, (command_read, answer_write)), *arguments],
            pass_fds=(command_read, answer_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(command_read)
        os.close(answer_write)
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        answer = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and everything it started."""
        with contextlib.suppress(OSError):
            os.close(self._write)  # it ends when nobody can give it commands
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._read)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self._read, 1 << 16)
            if not chunk:
                raise ConnectionError("the browser has ended")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and return its result; events that come meanwhile are kept."""
        self._count += 1
        command: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._write, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self._message(deadline)
            if message.get("id") == self._count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def wait(self, event: str) -> None:
        """Return when `event` has come since the last `open`."""
        deadline = time.monotonic() + PATIENCE
        while not any(message.get("method") == event for message in self.events):
            self.events.append(self._message(deadline))

    def open(self, path: Path, width: int = 1280, scheme: str = "light") -> None:
        """Load a file in a window of this width, as a light or dark reader sees it."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        self.wait("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; promises are awaited."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Return what the console says and every request for another file."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        found = []
        for message in self.events:
            method, parameters = message.get("method"), message.get("params", {})
            if method == "Runtime.consoleAPICalled":
                found.append(f"console.{parameters['type']}")
            elif method == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"]["exception"]["description"])
            elif method == "Log.entryAdded":
                found.append(parameters["entry"]["text"])
            elif method == "Network.requestWillBeSent" and parameters["type"] != "Document":
                url = parameters["request"]["url"]
                found += [] if url.startswith("data:") else [f"asked for {url}"]
        return found

    def move(self, x: float, y: float) -> None:
        """Move the mouse to a place in the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        """Click at a place in the window."""
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press and release one key, named as in JavaScript."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39}
        codes |= {"ArrowDown": 40, "Escape": 27, "Home": 36, "End": 35}
        shared = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        self.send("Input.dispatchKeyEvent", type="keyDown", **shared)
        self.send("Input.dispatchKeyEvent", type="keyUp", **shared)

    def screenshot(self, path: Path) -> None:
        """Save the whole page as a PNG."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.send(
            "Page.captureScreenshot",
            captureBeyondViewport=True,
            clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
        )
        path.write_bytes(base64.b64decode(shot["data"]))
