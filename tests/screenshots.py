#!/usr/bin/env python3
"""Takes pictures of every page, light and dark, on a laptop and on a phone, to be looked at.

usage: target/test-venv/bin/python tests/screenshots.py [folder]     (target/screenshots without one)

The program is target/debug/ct, or what CT names. The runs are made up, and of the logs in CT_SHARED_DIR where there are
any. CT_SCREENSHOTS names the pages wanted, between commas.
"""

import os
import sys
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "browser"))

import demo  # noqa: E402
import pages  # noqa: E402
import transcripts  # noqa: E402
from harness import Reader, browser, served  # noqa: E402

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WINDOWS = [
    ("laptop-light", (1440, 900), "light"), ("laptop-dark", (1440, 900), "dark"),
    ("phone-light", (390, 844), "light"), ("phone-dark", (390, 844), "dark"),
]


def fill(server) -> None:
    shared = Path(os.environ.get("CT_SHARED_DIR", ROOT.parent / "shared")) / "data"
    logs = [*shared.glob("generated/*.eval"), *shared.glob("control-tower/*.eval")]
    for log in sorted(logs):
        try:
            server.make(log)
        except AssertionError:
            pass  # A log that is broken on purpose.
    hostile = server.folder / "hostile.eval"
    pages.hostile(hostile)
    server.make(hostile, *demo.logs(server.folder / "logs"))
    server.make(transcripts.full(server.folder / "transcripts.eval", 3))
    server.make(transcripts.hostile(server.folder / "hostile-transcript.eval"))
    server.add_user("ana")


def prepare(reader: Reader) -> dict[str, str]:
    """Does what leaves something to see, and says which pages there are."""
    page = reader.page
    reader.go("/runs?policy=honest&name=trusted")
    page.check("[data-choose-all]")
    page.fill("#actions input[name=dataset]", "honest-pilot")
    page.fill("input[name=count]", "30")
    page.click("button[value=sample]")
    page.wait_for_load_state()
    reader.go("/runs?policy=attack-sneaky")
    run = page.locator("[data-open]").first.get_attribute("href")
    reader.go(run)
    page.fill(".comment-form textarea", "The monitor misses the slow exfiltration in the last third.\nSee crawl_depth-0031.")
    page.click(".comment-form button")
    page.wait_for_load_state()
    page.click("summary:has-text('Edit') >> nth=0")
    page.fill("#edit-description", "Second batch with the new monitor prompt; compare with the honest baseline.")
    page.click("button[value=save]")
    page.wait_for_load_state()
    reader.go(run)
    trajectory = page.locator("[data-open]").first.get_attribute("href")
    reader.go("/runs")
    hostile = page.locator("tr[data-row]", has_text="<script>").first.locator("[data-open]").get_attribute("href")
    of_run = {}
    for name in ("attack vs trusted monitoring", "window.__ran='hostile-transcript'"):
        reader.go("/runs")
        reader.go(page.locator("tr[data-row]", has_text=name).first.locator("[data-open]").get_attribute("href"))
        of_run[name] = page.locator("table.trajectories [data-open]").first.get_attribute("href")
    transcript, hostile_transcript = of_run.values()
    return {
        "transcript": transcript, "transcript-print": transcript.partition("?")[0] + "?print=steps", "transcript-hostile": hostile_transcript,
        "home": "/", "runs": "/runs", "runs-filtered": "/runs?policy=attack&tags=nightly&sort=cost",
        "runs-none": "/runs?name=nothing", "run": run, "run-hostile": hostile, "trajectories": "/trajectories",
        "trajectories-filtered": "/trajectories?main_outcome=pass&side_outcome=pass", "trajectory": trajectory,
        "datasets": "/datasets", "dataset": "/datasets/honest-pilot?version=1", "tokens": "/settings/tokens",
        "error": "/runs/0123456789", "login": "/login",
    }


def shoot(web, server, state, name: str, path: str, folder: Path) -> None:
    for window, (width, height), scheme in WINDOWS:
        options = {} if name == "login" else {"storage_state": state}
        reader = Reader(web, server.url, viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        reader.page.goto(server.url + path)
        reader.page.wait_for_load_state("networkidle")
        reader.page.screenshot(path=folder / f"{name}-{window}.png")
        if window == "laptop-light":
            if not name.endswith("-print"):  # It is as long as everything in it.
                reader.page.screenshot(path=folder / f"{name}-whole.png", full_page=True)
            for extra, does in EXTRA.get(name, {}).items():
                does(reader.page)
                reader.page.screenshot(path=folder / f"{name}-{extra}.png")
        reader.close()


def keys(*pressed: str):
    def press(page) -> None:
        for key in pressed:
            page.keyboard.press(key)
            page.wait_for_timeout(500)
    return press


EXTRA = {
    "transcript": {
        "suspicious": keys("n"), "raw": keys("r"), "comment": keys("c"), "folded": keys("Escape", "Escape", "E"), "end": keys("E", "G"),
        "keys": keys("?"),
    },
    "runs": {
        "filters": lambda page: page.click("details.filter-panel summary"),
        "chosen": lambda page: (page.keyboard.press("Escape"), page.locator("[data-choose]").nth(1).check(),
                                page.locator("[data-choose]").nth(3).check()),
        "keys": lambda page: page.keyboard.press("?"),
    },
    "run": {"edit": lambda page: page.click("summary:has-text('Edit') >> nth=0")},
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "target" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = os.environ.get("CT_SCREENSHOTS")
    with served(os.environ.get("CT", str(TARGET / "debug" / "ct"))) as server, browser() as web:
        fill(server)
        server.start()
        reader = pages.signed_in(web, server)
        for name, path in prepare(reader).items():
            if wanted is None or name in wanted.split(","):
                print(f"{name}: {urllib.parse.unquote(path)}", flush=True)
                shoot(web, server, reader.context.storage_state(), name, path, folder)
        reader.close()
    print(f"pictures are in {folder}")


if __name__ == "__main__":
    main()
