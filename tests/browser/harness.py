"""A served data folder and a browser that looks at it, for the tests of the pages.

The browser is Debian's Chromium. It reaches nothing but the server under test: every other request is refused and
remembered, and so is everything that a page says on its console and every dialog that it opens.
"""

import json
import os
import shutil
import subprocess
import tempfile
import urllib.parse
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "correct horse battery"
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]


def chromium() -> str:
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("chromium is not installed")
    return path


class Served:
    """`ct serve` over a data folder of its own."""

    def __init__(self, ct: str, folder: Path):
        self.ct, self.folder = ct, folder
        self.environment = {
            "HOME": str(folder), "PATH": os.environ["PATH"], "CONTROL_TOWER_DATA_DIR": str(folder / "data"),
        }
        self.process = None
        self.url = ""

    def run(self, *arguments: str, text: str | None = None) -> str:
        done = subprocess.run([self.ct, *arguments], env=self.environment, input=text, text=True, capture_output=True,
                              cwd=self.folder)
        if done.returncode != 0:
            raise AssertionError(f"ct {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def make(self, *logs: Path, **options: str) -> None:
        given = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        self.run("--local", "runs", "make", "--quiet", *map(str, logs), *given)

    def add_user(self, name: str, scope: str = "write") -> None:
        self.run("users", "add", name, "--scope", scope, "--password-stdin", text=PASSWORD + "\n")

    def start(self, mode: str = "private") -> "Served":
        log = open(self.folder / "server.log", "ab")
        self.process = subprocess.Popen(
            [self.ct, "serve", "--bind", "127.0.0.1:0", f"--{mode}", "--format", "json"], env=self.environment,
            stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder)
        self.url = json.loads(self.process.stdout.readline())["listening"]
        return self

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
            self.process = None


@contextmanager
def served(ct: str):
    with tempfile.TemporaryDirectory(prefix="ct-pages-") as folder:
        server = Served(str(Path(ct).resolve()), Path(folder))
        try:
            yield server
        finally:
            server.stop()


class Reader:
    """Someone at a browser window."""

    def __init__(self, browser, url: str, **options):
        self.url = url
        self.outside, self.said, self.dialogs = [], [], []
        self.context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        self.context.route("**/*", self._route)
        # A busy machine may take its time.
        self.context.set_default_timeout(120_000)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self._say(message.type, message.text))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.accepts = False

    def _say(self, kind: str, text: str) -> None:
        # A status of our own is looked at by the test that asks for it.
        if not text.startswith("Failed to load resource: the server responded with a status of"):
            self.said.append(f"{kind}: {text}")

    def _dialog(self, dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.accept() if self.accepts else dialog.dismiss()

    def _route(self, route) -> None:
        asked = urllib.parse.urlsplit(route.request.url)
        if f"{asked.scheme}://{asked.netloc}" == self.url:
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def go(self, path: str, status: int = 200):
        answer = self.page.goto(self.url + path)
        assert answer.status == status, (path, answer.status, self.page.inner_text("main"))
        return answer

    def sign_in(self, name: str, password: str = PASSWORD) -> None:
        self.page.fill("#username", name)
        self.page.fill("#password", password)
        self.lands(lambda: self.page.click("main button.primary"))

    def lands(self, action) -> None:
        """Does what leads to another page, and waits for that."""
        with self.page.expect_navigation():
            action()

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_inner_texts()]

    def path(self) -> str:
        return self.page.url.removeprefix(self.url)

    def is_calm(self) -> None:
        """Nothing ran, nothing was asked for elsewhere."""
        assert not self.outside, self.outside
        assert not self.said, self.said
        assert not self.dialogs, self.dialogs

    def close(self) -> None:
        self.context.close()


@contextmanager
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        try:
            yield running
        finally:
            running.close()
