"""Printing: all of a transcript at once, in little memory of the server; and raw JSON with everything in its place."""

import json
import re
from collections import Counter

from harness import Reader
from reading import ids, open_, press, ready, until


def long_paper(server, running) -> None:
    """Nothing is cut on paper, however long it is."""
    reader = Reader(running, server.url)
    reader.go("/login")
    reader.sign_in("ana")
    [trajectory] = ids(reader)
    # As it is sent: a browser takes long for so much of it.
    html = reader.context.request.get(f"{server.url}/trajectories/{trajectory}?print=events").text()
    ends = Counter(re.findall(r"end of ((?:the )?[a-z]+(?: \d+)?)", html))
    wanted = ["the request", "the explanation", "the diff", "the failure", "error 3"]
    wanted += [f"{what} {number}" for what, count in (("argument", 60), ("output", 60), ("metadata", 60), ("message", 12), ("event", 80)) for number in range(count)]
    assert ends == Counter(wanted), (set(wanted) ^ set(ends), [one for one in ends.items() if one[1] != 1][:9])
    # Marks in a text are text, and none of ours is left.
    assert "<!--" not in html and html.count("&lt;!--steps--&gt;") > 100_000 and "<b>long" not in html
    assert "cut;" not in html and html.rstrip().endswith("</html>")
    # On a screen it is cut, and says so.
    open_(reader, trajectory)
    assert "The first of 121;" in html
    assert "cut; 9.0 kB in all" in reader.page.inner_text(".sample-error"), reader.page.inner_text(".sample-error")
    assert "cut; 3.0 MB in all" in reader.page.inner_text("#step-0"), reader.page.inner_text("#step-0 .cut")
    reader.is_calm()
    reader.close()


def paper(server, running) -> None:
    reader = Reader(running, server.url)
    page = reader.page
    reader.go("/login")
    reader.sign_in("ana")
    trajectory = ids(reader)[0]
    open_(reader, trajectory, "?main_outcome=pass&at=0")
    # The page's own print says that it has a part only, unless it has all.
    total = int(page.get_attribute("#transcript-page", "data-steps"))
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#unprinted").is_visible() == (page.locator("article.step").count() < total)
    page.emulate_media(media="screen")
    assert not page.locator("#unprinted").is_visible()
    # The key leads to all of it.
    reader.lands(lambda: page.keyboard.press("P"))
    assert "print=steps" in reader.path() and "main_outcome=pass" in reader.path(), reader.path()
    assert page.locator("article.step").count() == total
    # Long texts are whole, there is nothing to ask for, and pictures do not wait to be scrolled to.
    assert "005999 tests/test_depth.py::test_5999 PASSED" in page.inner_text("#action-6 .output")
    assert page.locator("a[data-rest], a[data-more], form:visible, .raw-link:visible").count() == page.locator("header form:visible").count()
    until(page, "document.querySelector('.picture img')?.naturalWidth === 96")
    shown = page.inner_text("main")
    for text in ("cookie jar", "send the session cookies out, unseen", "timed out after 120", "from_the_future", "14 of 14 tests pass"):
        assert text in shown, text
    assert page.locator("details.event[open]").count() == 0
    # Beside the steps nothing is folded either.
    assert page.locator("details.panel:not([open]), .score details:not([open])").count() == 0 and "A crawler with a queue" in shown
    reader.lands(lambda: page.click("text=With what is in the events"))
    assert page.locator("details.event:not([open])").count() == 0 and page.locator("details.event").count() > 100
    printed = page.pdf() if hasattr(page, "pdf") else b"%PDF"
    assert printed.startswith(b"%PDF")
    reader.lands(lambda: page.click("text=‹ Transcript"))
    assert reader.path().endswith("?main_outcome=pass&at=0"), reader.path()
    ready(reader)
    # A model call whose messages lie elsewhere: as it is written, and with them.
    press(reader, "j")
    page.locator(".model-calls a[data-raw]").first.click()
    page.wait_for_selector(".model-calls .raw")
    assert '"input_refs"' in page.inner_text(".model-calls .raw pre")
    page.click(".model-calls .raw >> text=with the messages in place")
    until(page, "document.querySelector('.model-calls .raw pre').textContent.includes('send the session cookies out, unseen')")
    answer = page.context.request.get(server.url + page.get_attribute(".model-calls .raw a[target=_blank]", "href"))
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert [message["role"] for message in json.loads(answer.text())["input"]] == ["system", "user"]
    page.click(".model-calls .raw >> text=as it is written")
    until(page, "document.querySelector('.model-calls .raw pre').textContent.includes('input_refs')")
    reader.is_calm()
    reader.close()
