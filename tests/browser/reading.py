"""What someone does who reads a transcript, for the tests of its page."""

import time

from harness import Reader


def evaluated(page, script: str, arg):
    """What a script gives; nothing while the page is on its way to another."""
    try:
        return page.evaluate(script, arg)
    except Exception as error:
        if "context was destroyed" not in str(error):
            raise
        return None


def until(page, script: str, arg=None, timeout: float = 30_000) -> None:
    """Waits for a script to be true. The page's own policy forbids the way that the browser's driver has for it."""
    end = time.monotonic() + timeout / 1000
    while not evaluated(page, script, arg):
        if time.monotonic() > end:
            raise AssertionError(f"not so after {timeout / 1000:.0f} s: {script} ({arg}) at {page.url}")
        page.wait_for_timeout(30)


def ids(reader: Reader) -> list[str]:
    return reader.page.evaluate("fetch('/api/trajectories?ids_only=true&page_size=1000').then(answer => answer.json())")["items"]


def open_(reader: Reader, trajectory: str, rest: str = "") -> None:
    reader.go(f"/trajectories/{trajectory}{rest}")
    ready(reader)


def ready(reader: Reader) -> None:
    reader.page.wait_for_selector("[data-ready]")
    reader.page.wait_for_selector("#reading", state="hidden", timeout=120_000)


def here(reader: Reader) -> str | None:
    return reader.page.evaluate("document.querySelector('.is-here')?.id ?? null")


def press(reader: Reader, key: str, at: str | None = None) -> None:
    reader.page.keyboard.press(key)
    if at is not None:
        until(reader.page, "id => document.querySelector('.is-here')?.id === id", arg=at)


def in_view(reader: Reader, selector: str) -> bool:
    return reader.page.evaluate("""selector => {
        const box = document.querySelector(selector)?.getBoundingClientRect();
        return Boolean(box) && box.bottom > 0 && box.top < innerHeight;
    }""", selector)
