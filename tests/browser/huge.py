"""20,000 actions in half a gigabyte."""

import sys
import time
from pathlib import Path

from harness import Reader
from reading import here, ids, in_view, open_, press, ready, until

# Bytes of memory that the server may hold while someone reads a sample of half a gigabyte: it holds 40 at rest, an index
# of about 10 (20,000 steps, 20,000 calls, 40,000 events), and the pieces of a few requests.
SERVER_BYTES_MAX = 150 << 20
# Bytes that the browser's process of the page may hold beyond what it holds for a small page of ours. A page has some
# 10,000 elements at most, of about 1 kB with their styles and boxes; the rest is what the collector has not taken yet.
# All pieces together would take about 2 GB.
RENDERER_BYTES_MORE_MAX = 200 << 20
# Bytes of values that script holds.
PAGE_HEAP_BYTES_MAX = 40 << 20
ELEMENTS_MAX = 12_000
# Pixels of one leap on the way to the end: there are 8 million.
LEAP = 60_000


def status_bytes(process: int, name: str) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name} of process {process}")


def renderer_bytes(running) -> int:
    """Resident bytes of the largest renderer: the one with the page."""
    session = running.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    sizes = []
    for process in processes:
        if process["type"] == "renderer":
            try:
                sizes.append(status_bytes(process["id"], "VmRSS"))
            except (OSError, AssertionError):
                pass  # It has ended meanwhile.
    return max(sizes)


def huge(server, running) -> None:
    """20,000 actions in half a gigabyte: read from end to end while neither side grows."""
    before = status_bytes(server.process.pid, "VmHWM")
    reader = Reader(running, server.url)
    page = reader.page
    reader.go("/login")
    reader.sign_in("ana")
    [trajectory] = ids(reader)
    small = renderer_bytes(running)
    began = time.monotonic()
    reader.go(f"/trajectories/{trajectory}")
    page.wait_for_selector("#action-0")
    print(f"  first screen after {time.monotonic() - began:.2f} s", file=sys.stderr)
    ready(reader)
    print(f"  read after {time.monotonic() - began:.2f} s", file=sys.stderr)
    assert page.get_attribute("#transcript-page", "data-actions") == "20000" or page.locator("#strip svg[data-actions='20000']").count()
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.enable")

    def measure() -> tuple[int, int, int]:
        resident = renderer_bytes(running)
        session.send("HeapProfiler.collectGarbage")
        heap = session.send("Runtime.getHeapUsage")["usedSize"]
        return resident, heap, page.evaluate("document.querySelectorAll('*').length")

    sizes = [measure()]
    # Scroll on and on, then in leaps to the end, then jump all over.
    for _ in range(60):
        page.mouse.wheel(0, 2500)
        page.wait_for_timeout(30)
    sizes.append(measure())
    assert page.evaluate("scrollY") > 50_000
    leaps = 0
    while not in_view(reader, "#action-19999"):
        page.evaluate("leap => scrollBy({top: leap, behavior: 'instant'})", LEAP)
        until(page, "[...document.querySelectorAll('.step')].some(step => { const box = step.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; })")
        leaps += 1
        if leaps % 10 == 0:
            sizes.append(measure())
        assert leaps < 2_000, page.evaluate("scrollY")
    sizes.append(measure())
    for share in (0.25, 0.9, 0.5, 0.1, 0.75):
        page.evaluate("share => scrollTo(0, document.documentElement.scrollHeight * share)", share)
        until(page, """share => { const first = document.querySelector('.step'); const box = first?.getBoundingClientRect();
            return [...document.querySelectorAll('.step')].some(step => { const box = step.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; }); }""", arg=share)
        step = page.evaluate("Number([...document.querySelectorAll('.step')].find(step => step.getBoundingClientRect().bottom > 0).dataset.step)")
        assert abs(step / 20_001 - share) < 0.05, (share, step)
    sizes.append(measure())
    press(reader, "G", "action-19999")
    press(reader, "g", "step-0")
    press(reader, "n", "action-4321")
    press(reader, "n", "action-9321")
    assert in_view(reader, "#action-9321")
    # What is above does not move while pieces come and go.
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(300)
    press(reader, "f")
    page.keyboard.type("MAKE part-17777")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#find-count').textContent === '1 of 1'", timeout=60_000)
    until(page, "document.querySelector('.is-here')?.id === 'action-17777'")
    sizes.append(measure())
    peak = status_bytes(server.process.pid, "VmHWM")
    resident = max(size for size, _, _ in sizes)
    print(f"  {leaps} leaps; server {before >> 20} -> {peak >> 20} MiB; renderer {small >> 20} -> {resident >> 20} MiB; "
          f"script {max(heap for _, heap, _ in sizes) >> 20} MiB; elements {max(elements for _, _, elements in sizes)}", file=sys.stderr)
    assert resident < small + RENDERER_BYTES_MORE_MAX, [size >> 20 for size, _, _ in sizes]
    for _, heap, elements in sizes:
        assert heap < PAGE_HEAP_BYTES_MAX and elements < ELEMENTS_MAX, sizes
    assert peak < SERVER_BYTES_MAX, f"the server took {peak >> 20} MiB"
    reader.is_calm()
    reader.close()
