"""Reading by keyboard, by links alone, and by whoever is not signed in."""

from comments import write
from harness import Reader
from reading import here, ids, in_view, open_, press, ready, until


def review(server, running) -> None:
    """Twenty samples, found in a filtered list, read from the first to the last and judged, by keys alone."""
    reader = Reader(running, server.url)
    reader.go("/login")
    reader.sign_in("ana")
    trajectories = ids(reader)
    assert len(trajectories) == 20, len(trajectories)
    # From the list to its first row.
    reader.go("/trajectories?main_outcome=pass")
    reader.page.keyboard.press("j")
    reader.lands(lambda: reader.page.keyboard.press("Enter"))
    ready(reader)
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
        # What was seen is written down.
        write(reader, "c", f"Sends cookies out ({number})", "Comment kept")
        assert reader.texts("#action-5 .comment > .prose") == [f"Sends cookies out ({number})"] and here(reader) == "action-5"
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
    ready(reader)
    # Back to the list, as it was filtered.
    reader.lands(lambda: reader.page.keyboard.press("u"))
    assert reader.path() == "/trajectories?main_outcome=pass", reader.path()
    texts = reader.page.evaluate("ids => Promise.all(ids.map(id => fetch(`/api/trajectories/${id}/comments`).then(answer => answer.json())))", trajectories)
    assert [len(one["step_comments"]["5"]) for one in texts] == [1] * 20
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
    # Of the messages: the agent's, and the tool's with what only it has.
    assert "from the tool itself" in page.inner_text("#action-5 > .output")
    press(reader, "R")
    page.wait_for_selector("#action-5 .output > .raw")
    assert '"tool_call_id"' in page.inner_text("#action-5 .output > .raw pre") and '"sandbox_ms": 12' in page.inner_text("#action-5 .output > .raw pre")
    step = page.locator(".step:has(#action-5)")
    step.locator("> .raw").wait_for()
    assert '"role": "assistant"' in step.locator("> .raw pre").inner_text()
    press(reader, "R")
    page.wait_for_selector(".step:has(#action-5) .raw", state="detached")
    # Of an event of the step, by keys alone.
    press(reader, "v")
    until(page, "document.activeElement.matches('.event > summary')")
    press(reader, "v")
    press(reader, "r")
    until(page, "document.activeElement.closest('.event').querySelector('.raw')")
    assert page.evaluate("document.activeElement.closest('.event') === document.activeElement.closest('.events').querySelectorAll('.event')[1]")
    press(reader, "r")
    until(page, "!document.activeElement.closest('.event').querySelector('.raw')")
    press(reader, "V")
    until(page, "document.activeElement.closest('.event') === document.activeElement.closest('.events').querySelector('.event')")
    page.evaluate("document.querySelector('#action-5 .stop').focus()")
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
    assert page.locator(".diff-added").count() == 403 and page.locator(".diff-removed").count() == 1
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
    assert page.inner_text("#action-10 .comment > .prose") == "This is where <b>it</b> happens"
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


def events_only(server, running) -> None:
    """A sample without a conversation: its calls are its actions, with suspicion along them."""
    reader = Reader(running, server.url)
    page = reader.page
    reader.go("/login")
    reader.sign_in("ana")
    [trajectory] = ids(reader)
    open_(reader, trajectory)
    assert page.locator(".action[data-action]").count() == 14 and page.locator(".strip svg a[data-go]").count() == 14
    assert page.locator(".strip .bar-mark.level-4").count() == 2
    assert "Actions\n14" in page.inner_text(".facts")
    press(reader, "n", "action-5")
    assert "cookie jar" in page.inner_text("#action-5 .verdicts") and "crawler/depth.py" in page.inner_text("#action-5 .call")
    press(reader, "n", "action-10")
    press(reader, "p", "action-5")
    write(reader, "c", "Here it sends them", "Comment kept")
    page.reload()
    ready(reader)
    until(page, "document.querySelector('.is-here')?.id === 'action-5'")
    assert reader.texts("#action-5 .comment > .prose") == ["Here it sends them"] and in_view(reader, "#action-5")
    reader.is_calm()
    reader.close()


def without_script(server, running) -> None:
    """Readable by links alone, commented on by a form."""
    reader = Reader(running, server.url, java_script_enabled=False)
    reader.go("/login")
    reader.sign_in("ana")
    answer = reader.context.request.get(server.url + "/api/trajectories?ids_only=true")
    trajectory = answer.json()["items"][0]
    reader.go(f"/trajectories/{trajectory}")
    assert reader.page.locator("article.step").count() == 17
    reader.page.fill("#write-text", "without script")
    reader.page.fill("#write-comment [name=action]", "3")
    reader.page.click("#write-comment button")
    assert reader.path().endswith("action=3#action-3"), reader.path()
    assert reader.page.inner_text("#action-3 .comment > .prose") == "without script"
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
