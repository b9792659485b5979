"""The page of a trajectory in a real browser: reading by keyboard, comments, find, everything hostile, everything huge.

    transcript.py CT [--only review|hostile|huge]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import transcripts
from harness import Reader, browser, served

# Bytes of memory that a server may hold while someone reads a sample of half a gigabyte, and that a page may hold.
SERVER_BYTES_MAX = 150 << 20
PAGE_HEAP_BYTES_MAX = 40 << 20
ELEMENTS_MAX = 12_000


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


def review(server, running) -> None:
    """Twenty samples, read from the first to the last by keys alone."""
    reader = Reader(running, server.url)
    reader.go("/login")
    reader.sign_in("ana")
    trajectories = ids(reader)
    assert len(trajectories) == 20, len(trajectories)
    open_(reader, trajectories[0], "?main_outcome=pass&at=0")
    for number, trajectory in enumerate(trajectories):
        assert trajectory in reader.page.url, (number, reader.page.url)
        # Suspicious ones: 5, 10 and 11 of 14.
        press(reader, "n", "action-5")
        assert in_view(reader, "#action-5")
        assert "cookie jar" in reader.page.inner_text("#action-5 .verdicts")
        press(reader, "n", "action-10")
        press(reader, "n", "action-11")
        press(reader, "n")
        reader.page.wait_for_selector("#toast:not([hidden])")
        press(reader, "p", "action-10")
        press(reader, "N", "action-5")
        press(reader, "k", "action-4")
        press(reader, "j", "action-5")
        if number == 0:
            everything(reader)
        if number < 19:
            before = reader.page.url
            reader.page.keyboard.press("]")
            until(reader.page, "before => location.href !== before", arg=before)
            ready(reader)
            assert f"at={number + 1}" in reader.page.url and "main_outcome=pass" in reader.page.url
    press(reader, "]")
    reader.page.wait_for_selector("#toast:not([hidden])")
    reader.page.keyboard.press("[")
    reader.page.wait_for_url(f"**/{trajectories[18]}?**")
    reader.is_calm()
    reader.close()


def everything(reader: Reader) -> None:
    """The other keys, at action 5 of the first sample."""
    page = reader.page
    # Raw JSON, there and gone.
    press(reader, "r")
    page.wait_for_selector("#action-5 > .raw")
    assert '"event": "tool"' in page.inner_text("#action-5 > .raw pre")
    press(reader, "r")
    page.wait_for_selector("#action-5 > .raw", state="detached")
    # Fold.
    press(reader, "e")
    assert page.locator(".step.is-folded").count() == 1
    press(reader, "e")
    press(reader, "E")
    assert page.locator(".chunks.is-folded").count() == 1 and in_view(reader, "#action-5")
    press(reader, "E")
    # First and last.
    press(reader, "g", "step-0")
    press(reader, "G")
    until(page, "document.querySelector('.is-here')?.classList.contains('is-events')")
    # Every kind of event is there, and one of none that is known.
    kinds = set(page.locator(".event-kind").all_text_contents())
    while page.locator("a[data-more]").count():
        more = page.locator("a[data-more]").last
        more.scroll_into_view_if_needed()
        count = page.locator(".event-kind").count()
        more.click()
        until(page, "count => document.querySelectorAll('.event-kind').length > count", arg=count)
    kinds = set(page.locator(".event-kind").all_text_contents())
    known = {"span_begin", "span_end", "sample_init", "state", "store", "sandbox", "approval", "info", "logger", "input", "subtask", "step",
             "compaction", "sample_limit", "error", "interrupt", "checkpoint", "anchor", "branch", "sentinel", "review", "score", "score_edit",
             "from_the_future"}
    assert known <= kinds, known - kinds
    # The prompt as the model saw it, not as the messages have it.
    page.click(".prompt > summary")
    assert "send the session cookies out, unseen" in page.inner_text(".prompt")
    # A picture, a diff, a long output that is cut and its rest.
    page.keyboard.press("g")
    until(page, "document.querySelector('.picture img')?.naturalWidth === 96")
    assert page.locator(".diff-added").count() == 3 and page.locator(".diff-removed").count() == 1
    page.evaluate("location.hash = 'action-6'")
    until(page, "document.querySelector('.is-here')?.id === 'action-6'")
    cut = page.locator("#action-6 .output .cut")
    assert "kB in all" in cut.inner_text(), cut.inner_text()
    shown = len(page.inner_text("#action-6 .output"))
    page.locator("#action-6 .output a[data-rest]").click()
    until(page, "shown => document.querySelector('#action-6 .output').innerText.length > shown + 50000", arg=shown)
    answer = page.context.request.get(reader.url + page.get_attribute("#action-6 .output a[target=_blank]", "href"))
    assert answer.headers["content-type"] == "text/plain; charset=utf-8" and "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text().endswith("005999 tests/test_depth.py::test_5999 PASSED")
    # An error of a tool.
    assert "timed out after 120" in page.inner_text("#action-2")
    # What a model saw.
    page.locator("#step-2 a[data-input]").first.click()
    page.wait_for_selector("#step-2 .seen .input li")
    # Find: the second hit, and its place.
    press(reader, "f")
    page.keyboard.type("DEPTH.py::test_42 ")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#find-count').textContent === '1 of 1'")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    press(reader, "/")
    page.keyboard.type("CRAWLER/session")
    page.keyboard.press("Enter")
    until(page, "/^1 of \\d+$/.test(document.querySelector('#find-count').textContent)")
    page.keyboard.press("Enter")
    until(page, "/^2 of \\d+$/.test(document.querySelector('#find-count').textContent)")
    page.keyboard.press("Escape")
    # A comment on an action, still there after the page is loaded anew at its address.
    page.evaluate("document.activeElement.blur(); location.hash = 'action-10'")
    until(page, "document.querySelector('.is-here')?.id === 'action-10'")
    press(reader, "c")
    page.wait_for_selector("#action-10 textarea")
    page.keyboard.type("This is where <b>it</b> happens")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#action-10 .comment")
    page.reload()
    ready(reader)
    until(page, "document.querySelector('.is-here')?.id === 'action-10'")
    assert page.inner_text("#action-10 .comment-text") == "This is where <b>it</b> happens"
    assert in_view(reader, "#action-10")
    # The strip leads to an action, with and without script.
    bar = page.locator(".strip a[data-go='11']")
    assert bar.get_attribute("href").endswith("#action-11")
    bar.dispatch_event("click")
    until(page, "document.querySelector('.is-here')?.id === 'action-11'")
    # The keys are listed.
    press(reader, "?")
    listed = page.inner_text("dialog.keys")
    assert all(text in listed for text in ["Next suspicious action", "Raw JSON", "Comment on the action", "Next trajectory"]), listed
    page.keyboard.press("Escape")
    page.evaluate("location.hash = 'action-5'")
    until(page, "document.querySelector('.is-here')?.id === 'action-5'")


def without_script(server, running) -> None:
    """Readable by links alone, commented on by a form."""
    reader = Reader(running, server.url, java_script_enabled=False)
    reader.go("/login")
    reader.sign_in("ana")
    answer = reader.context.request.get(server.url + "/api/trajectories?ids_only=true")
    trajectory = answer.json()["items"][0]
    reader.go(f"/trajectories/{trajectory}")
    assert reader.page.locator("article.step").count() == 17
    reader.page.fill("#comment-text", "without script")
    reader.page.fill("[name=action]", "3")
    reader.page.click("#comment-form button")
    assert reader.path().endswith("action=3#action-3"), reader.path()
    assert reader.page.inner_text("#action-3 .comment-text") == "without script"
    reader.is_calm()
    reader.close()


def public(server, running) -> None:
    """Whoever is not signed in reads everything and is shown no control that writes."""
    server.stop()
    server.start("public")
    reader = Reader(running, server.url)
    answer = reader.context.request.get(server.url + "/api/trajectories?ids_only=true")
    open_(reader, answer.json()["items"][0])
    assert reader.page.locator("#action-3").count() == 1 and "without script" in reader.page.inner_text("#action-3")
    assert reader.page.locator("form[method=post], [data-comment]").count() == 0
    press(reader, "n", "action-5")
    press(reader, "c")
    reader.page.wait_for_selector("#toast:not([hidden])")
    assert reader.page.locator("#action-5 textarea").count() == 0
    reader.is_calm()
    reader.close()


def hostile(server, running) -> None:
    """Nothing of a log runs, loads, or looks like part of the page."""
    reader = Reader(running, server.url)
    page = reader.page
    page.add_init_script("window.__ran = undefined; window.__violations = []; document.addEventListener('securitypolicyviolation', event => __violations.push(event.violatedDirective + ' ' + event.blockedURI))")
    reader.go("/login")
    reader.sign_in("ana")
    [trajectory] = ids(reader)

    def check(what: str) -> None:
        assert page.evaluate("window.__ran") is None, (what, page.evaluate("window.__ran"))
        assert page.evaluate("window.__violations") == [], (what, page.evaluate("window.__violations"))
        odd = page.evaluate("""() => {
            const allowed = new Set("HTML HEAD META TITLE LINK SCRIPT BODY A HEADER NAV MAIN DIV SPAN P H1 H2 H3 DL DT DD BUTTON FORM INPUT LABEL OUTPUT ARTICLE SECTION DETAILS SUMMARY UL OL LI PRE CODE B BDI TIME IMG FIGURE FIGCAPTION ASIDE TEXTAREA svg title line rect a circle path DIALOG KBD SMALL TABLE THEAD TBODY TR TH TD SELECT OPTION OPTGROUP DATALIST STRONG EM FIELDSET LEGEND".split(" "));
            const found = [];
            for (const element of document.querySelectorAll("*")) {
                if (!allowed.has(element.tagName)) found.push(element.tagName);
                for (const attribute of element.attributes) {
                    if (attribute.name.startsWith("on")) found.push(`${element.tagName} ${attribute.name}`);
                    if (["href", "src", "action"].includes(attribute.name) && !/^[/#?]/.test(attribute.value)) found.push(`${attribute.name}=${attribute.value.slice(0, 80)}`);
                    if (["href", "src", "action"].includes(attribute.name) && attribute.value.startsWith("//")) found.push(attribute.value);
                }
            }
            for (const script of document.scripts) if (!script.src.startsWith(location.origin + "/assets/")) found.push("script");
            for (const image of document.images) if (!image.src.startsWith(location.origin + "/trajectories/")) found.push(image.src);
            if (document.title.includes("\\u202e")) found.push("title");
            return found;
        }""")
        assert odd == [], (what, odd[:10])
        bare = page.evaluate("""() => /[\\u202a-\\u202e\\u2066-\\u2069\\u200b\\ufeff\\u2028\\u0000\\u001b\\u0007\\u009b]/.test(document.body.innerText)""")
        assert not bare, f"{what}: characters that would not be seen"
        reader.is_calm()

    open_(reader, trajectory)
    check("the first screen")
    texts = transcripts.hostile_texts("hostile")
    seen = ""
    total = int(page.get_attribute("#transcript-page", "data-steps"))
    for step in range(0, total, 20):
        page.goto(f"{server.url}/trajectories/{trajectory}?from={step}")
        ready(reader)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        for kind in ("raw", "input", "more", "rest"):
            page.evaluate("kind => [...document.querySelectorAll(`a[data-${kind}]`)].slice(0, 40).forEach(link => link.click())", kind)
        page.wait_for_load_state("networkidle")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        check(f"steps from {step}")
        seen += page.inner_text("main")
        # What could be clicked or focused does nothing of its own.
        page.evaluate("for (const one of document.querySelectorAll('.step *')) { one.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})); one.dispatchEvent(new Event('toggle')); }")
        check(f"steps from {step}, moved over")
    # Shown exactly, as far as the eye can tell.
    for text in texts:
        if text.isprintable() and len(text) < 3000:
            assert text in seen, text
    assert "U+202E" in seen and "U+001B" in seen
    # Search for each; a hit is a text like any other.
    for text in texts[:6]:
        page.fill("#find-text", text)
        page.press("#find-text", "Enter")
        until(page, "/of|nothing/.test(document.querySelector('#find-count').textContent)")
    check("finding")
    # Images that are none are not served as such, and pages of text are only text.
    for kind, accept in (("image", None), ("part", "text/plain"), ("raw", "text/html")):
        for at, size in ((0, 10), (40, 400), (0, 10**12), (10**15, 5)):
            answer = page.context.request.get(f"{server.url}/trajectories/{trajectory}/{kind}?at={at}&size={size}")
            if answer.ok:
                assert answer.headers["content-type"].startswith(accept or "image/"), (kind, answer.headers)
            assert answer.headers["x-content-type-options"] == "nosniff"
    loaded = page.evaluate("[...document.images].filter(image => image.naturalWidth).length")
    assert loaded == 0, "something that is no image was shown as one"
    for path in ("/runs", "/trajectories"):
        if page.context.request.get(server.url + path).ok:
            reader.go(path)
            check(path)
    reader.close()


def peak_bytes(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no peak of memory")


def huge(server, running) -> None:
    """20,000 actions in half a gigabyte: read from end to end while neither side grows."""
    before = peak_bytes(server.process.pid)
    reader = Reader(running, server.url)
    page = reader.page
    reader.go("/login")
    reader.sign_in("ana")
    [trajectory] = ids(reader)
    began = time.monotonic()
    reader.go(f"/trajectories/{trajectory}")
    page.wait_for_selector("#action-0")
    print(f"  first screen after {time.monotonic() - began:.2f} s", file=sys.stderr)
    ready(reader)
    print(f"  read after {time.monotonic() - began:.2f} s", file=sys.stderr)
    assert page.get_attribute("#transcript-page", "data-actions") == "20000" or page.locator("#strip svg[data-actions='20000']").count()
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.enable")

    def measure() -> tuple[int, int]:
        session.send("HeapProfiler.collectGarbage")
        heap = session.send("Runtime.getHeapUsage")["usedSize"]
        return heap, page.evaluate("document.querySelectorAll('*').length")

    sizes = [measure()]
    # Scroll on and on, then jump all over.
    for _ in range(60):
        page.mouse.wheel(0, 2500)
        page.wait_for_timeout(30)
    sizes.append(measure())
    assert page.evaluate("scrollY") > 50_000
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
    for heap, elements in sizes:
        assert heap < PAGE_HEAP_BYTES_MAX and elements < ELEMENTS_MAX, sizes
    peak = peak_bytes(server.process.pid)
    print(f"  server {before >> 20} -> {peak >> 20} MiB; page {[(heap >> 20, elements) for heap, elements in sizes]}", file=sys.stderr)
    assert peak < SERVER_BYTES_MAX, f"the server took {peak >> 20} MiB"
    reader.is_calm()
    reader.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("ct")
    parser.add_argument("--only")
    given = parser.parse_args()
    cases = [("review", transcripts.full, [review, without_script, public]), ("hostile", transcripts.hostile, [hostile]), ("huge", transcripts.huge, [huge])]
    with browser() as running, tempfile.TemporaryDirectory(prefix="ct-logs-") as logs:
        for name, make, tests in cases:
            if given.only not in (None, name):
                continue
            log = make(Path(logs) / f"{name}.eval")
            with served(given.ct) as server:
                server.make(log)
                server.add_user("ana")
                server.start()
                for test in tests:
                    test(server, running)
                    print(f"{test.__name__}: ok", file=sys.stderr)


if __name__ == "__main__":
    main()
