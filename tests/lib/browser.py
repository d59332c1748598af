"""A real browser without a window, for pages that husk writes: Chromium, driven by the DevTools protocol over a pipe.

`Browser(directory)` starts one, `page(...)` opens a file in it. The directory is its home: it keeps nothing elsewhere.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PATIENCE = 60.0  # seconds for one answer, on a busy machine
_OPTIONS = (
    "--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--force-color-profile=srgb", "--disable-dev-shm-usage", "--lang=en",
)  # fmt: skip


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    def __init__(self, home: Path) -> None:
        program = chromium()
        assert program is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4. As root it has no sandbox of its own; the pages are ours.
        words = [program, *_OPTIONS, f"--user-data-dir={home}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        wired = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", wired, "bash", *words],
            pass_fds=(theirs_in, theirs_out), env={**os.environ, "HOME": str(home)},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._held = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ask(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """The answer; events that come before it are kept in `events`."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            found = self._message(until)
            if found.get("id") != number:
                self.events.append(found)
            elif "error" in found:
                raise RuntimeError(f"{method}: {found['error']}")
            else:
                result: dict[str, Any] = found["result"]
                return result

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._held:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"Chromium said nothing for {PATIENCE:.0f} s")
            more = os.read(self._in, 1 << 20)
            if not more:
                raise RuntimeError("Chromium is gone")
            self._held += more
        line, _, self._held = self._held.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def page(self, file: Path, *, width: int = 1280, height: int = 900, dark: bool = False, fragment: str = "") -> Page:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Network", "Log", "Runtime"):
            page.ask(f"{domain}.enable")
        page.look(width=width, height=height, dark=dark)
        page.ask("Page.navigate", url=f"{file.as_uri()}{f'#{fragment}' if fragment else ''}")
        page.until("document.readyState === 'complete'")
        return page


class Page:
    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.ask(method, self._session, **parameters)

    def close(self) -> None:
        self._browser.ask("Target.closeTarget", targetId=self._target)

    def look(self, *, width: int, height: int, dark: bool = False, paper: bool = False) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media="print" if paper else "", features=[scheme])

    def run(self, expression: str) -> Any:
        """The value of an expression, waited for where it is a promise."""
        done = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(f"{expression}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def until(self, expression: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.run(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.02)

    def press(self, key: str) -> None:
        codes = {"Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "Enter": 13, "/": 191}
        text = {"Enter": "\r", "/": "/"}.get(key)
        down = {
            "type": "keyDown",
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": codes[key],
            **({"text": text} if text else {}),
        }
        self.ask("Input.dispatchKeyEvent", **down)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=codes[key])

    def type(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def picture(self, *, whole: bool = False) -> bytes:
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=False)["data"])

    def complaints(self) -> list[str]:
        """Errors on the console, and what the page's policy stopped."""
        found = []
        for event in self._browser.events:
            about = event.get("params", {})
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Log.entryAdded":
                found.append(about["entry"]["text"])
            elif event["method"] == "Runtime.exceptionThrown":
                found.append(str(about["exceptionDetails"]))
        return found

    def requests(self) -> list[str]:
        asked = [event for event in self._browser.events if event.get("sessionId") == self._session]
        return [one["params"]["request"]["url"] for one in asked if one["method"] == "Network.requestWillBeSent"]
