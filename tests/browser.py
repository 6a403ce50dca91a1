"""A headless Chromium, driven by its DevTools protocol over two pipes: no port, no driver, no package of Python's.

`with Browser() as browser: page = browser.open(path)`; `page.problems` are the console's errors and warnings,
exceptions, and requests for anything but the page itself.
"""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip

SILENT_S = 60
"""How long it may say nothing while it is waited for."""


def program() -> str | None:
    """Chromium's program; None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@dataclass
class Page:
    """A page that has loaded."""

    browser: "Browser"
    session: str
    problems: list[str] = field(default_factory=list)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives in the page, as JSON can hold it."""
        answer = self.browser.ask(
            "Runtime.evaluate", self.session, expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def show(self, *, width: int, height: int, dark: bool = False) -> None:
        """Take a window's size, as a phone's, and a colour scheme."""
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.ask("Emulation.setDeviceMetricsOverride", self.session, **sizes)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.browser.ask("Emulation.setEmulatedMedia", self.session, features=[scheme])

    def screenshot(self, path: Path) -> None:
        """Keep what is shown as PNG, the whole page."""
        answer = self.browser.ask("Page.captureScreenshot", self.session, captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))


class Browser:
    """One Chromium with a profile of its own."""

    def __init__(self) -> None:
        found = program()
        assert found is not None
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Chromium reads descriptor 3 and writes 4.
        words = [found, *OPTIONS, f"--user-data-dir={self._profile.name}", "about:blank"]
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "chromium", *words],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers = itertools.count(1)
        self._events: list[dict[str, Any]] = []
        self._messages = self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.ask("Browser.close")
            self._process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def open(self, path: Path) -> Page:
        """Load a file and wait until all of it is there."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable", session)
        self._events.clear()
        address = path.resolve().as_uri()
        answer = self.ask("Page.navigate", session, url=address)
        assert "errorText" not in answer, answer
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(next(self._messages))
        page = Page(self, session)
        page.value("new Promise(done => setTimeout(done, 0))")  # what the load itself set off has been told by now
        page.problems += [told for event in self._events if (told := problem(event, address))]
        return page

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come meanwhile are kept."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._out, json.dumps(command).encode() + b"\0")
        for message in self._messages:
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            if "method" in message:
                self._events.append(message)
        raise AssertionError("Chromium has gone")

    def _read(self) -> Iterator[dict[str, Any]]:
        rest = b""
        while select.select([self._in], [], [], SILENT_S)[0] and (more := os.read(self._in, 2**16)):
            *whole, rest = (rest + more).split(b"\0")
            yield from map(json.loads, whole)
        raise AssertionError("Chromium has gone, or says nothing any more")


def problem(event: dict[str, Any], address: str) -> str:
    """What an event says is wrong with a page; empty for all others."""
    method, said = event["method"], event["params"]
    if method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
        return f"console: {said['args']}"
    if method == "Runtime.exceptionThrown":
        return f"exception: {said['exceptionDetails']}"
    if method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
        return f"log: {said['entry']['text']}"
    if method == "Network.requestWillBeSent" and said["request"]["url"] != address:
        return f"request: {said['request']['url']:.200}"
    return ""
