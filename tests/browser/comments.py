"""Comments on the page of a trajectory: made, changed and deleted by keys, by a form without script, and only by who may."""

import re

from harness import Reader
from reading import ids, in_view, open_, press, ready, until


DELETED = "Comment deleted; z brings it back"


def said(reader: Reader, sentence: str) -> None:
    until(reader.page, "sentence => document.querySelector('#toast:not([hidden])')?.textContent === sentence", arg=sentence)
    reader.page.evaluate("document.querySelector('#toast').hidden = true")


def signed_in(running, server, name: str, **options) -> Reader:
    reader = Reader(running, server.url, **options)
    reader.go("/login")
    reader.sign_in(name)
    return reader


def write(reader: Reader, key: str, text: str, sentence: str) -> None:
    reader.page.keyboard.press(key)
    until(reader.page, "document.activeElement.tagName === 'TEXTAREA'")
    reader.page.keyboard.press("Control+A")
    reader.page.keyboard.type(text)
    reader.page.keyboard.press("Control+Enter")
    said(reader, sentence)


def comments(server, running) -> None:
    server.add_user("bo")
    server.add_user("root", scope="admin")
    reader = signed_in(running, server, "ana")
    page = reader.page
    [trajectory] = ids(reader)
    open_(reader, trajectory)
    # An action: made, changed, its history, deleted, without leaving the place.
    page.evaluate("location.hash = 'action-7'")
    until(page, "document.querySelector('.is-here')?.id === 'action-7'")
    write(reader, "c", "This is where <b>it</b> happens", "Comment kept")
    assert in_view(reader, "#action-7") and reader.texts("#action-7 .comment .prose:not(.history *)") == ["This is where <b>it</b> happens"]
    assert reader.texts(".comment-places a") == ["7"]
    write(reader, "C", "This is where it ends", "Comment changed")
    assert reader.texts("#action-7 .comment > .prose") == ["This is where it ends"]
    page.click("#action-7 .history summary")
    assert "This is where <b>it</b> happens" in page.inner_text("#action-7 .history")
    page.keyboard.press("C")
    until(page, "document.activeElement.tagName === 'TEXTAREA'")
    page.keyboard.press("Escape")
    assert not page.locator("#action-7 .comment-edit[open]").count()
    page.keyboard.press("C")
    until(page, "document.activeElement.tagName === 'TEXTAREA'")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    said(reader, DELETED)
    assert "deleted" in page.inner_text("#action-7 .comment-head") and not page.locator("#action-7 .comment-edit").count()
    assert reader.texts(".comment-places a") == []
    page.keyboard.press("C")
    said(reader, "No comment of yours here")
    # Deleted by mistake: it comes back as it was, history and all, and stays so.
    page.keyboard.press("z")
    said(reader, "Comment restored")
    assert reader.texts("#action-7 .comment > .prose") == ["This is where it ends"] and reader.texts(".comment-places a") == ["7"]
    page.reload()
    ready(reader)
    until(page, "document.querySelector('.is-here')?.id === 'action-7'")
    assert "deleted" not in page.inner_text("#action-7 .comment-head")
    page.click("#action-7 .history summary")
    assert "This is where <b>it</b> happens" in page.inner_text("#action-7 .history")
    page.keyboard.press("z")
    said(reader, "No deleted comment of yours here")
    page.evaluate("document.querySelector('#action-7 .stop').focus()")
    page.keyboard.press("C")
    until(page, "document.activeElement.tagName === 'TEXTAREA'")
    page.click("#action-7 .comment-edit button[value=delete]")
    said(reader, DELETED)
    # A step that calls no tool.
    press(reader, "g", "step-0")
    write(reader, "c", "The prompt asks for it", "Comment kept")
    assert reader.texts("#step-0 .comment > .prose") == ["The prompt asks for it"]
    write(reader, "C", "The prompt does ask for it", "Comment changed")
    # The whole.
    write(reader, "w", "One to show", "Comment kept")
    assert reader.texts("#comments .comment > .prose") == ["One to show"]
    write(reader, "C", "One to show to all", "Comment changed")
    write(reader, "C", "One to show", "Comment changed")
    page.reload()
    ready(reader)
    assert reader.texts("#step-0 .comment > .prose") == ["The prompt does ask for it"]
    assert reader.texts(".comment-places a") == ["0"]
    page.keyboard.press("G")
    page.locator("[data-go-step='0']").dispatch_event("click")
    until(page, "document.querySelector('.is-here')?.id === 'step-0'")
    # Without the proof of the page nothing is done.
    whole = page.locator("#comments .comment").get_attribute("id").removeprefix("comment-")
    for form in ({"text": "x"}, {"text": "x", "csrf": "0" * 64}, {"comment": whole, "change": "delete"}):
        assert page.context.request.post(f"{server.url}/trajectories/{trajectory}/comments", form=form).status == 403, form
    reader.is_calm()
    # Someone else sees it and may not change it, neither here nor with a form of his own.
    other = signed_in(running, server, "bo")
    open_(other, trajectory)
    assert other.texts("#comments .comment > .prose") == ["One to show"] and not other.page.locator(".comment-edit").count()
    csrf = other.page.get_attribute("[name=csrf] >> nth=0", "value")
    for change in ("edit", "delete", "restore"):
        form = {"csrf": csrf, "comment": whole, "change": change, "text": "mine"}
        assert other.page.context.request.post(f"{server.url}/trajectories/{trajectory}/comments", form=form).status == 403, form
    other.page.keyboard.press("C")
    said(other, "No comment of yours here")
    other.close()
    root = signed_in(running, server, "root")
    open_(root, trajectory)
    assert root.page.locator(".comment-edit").count() == 2
    root.close()
    # Forms alone, without script.
    plain = signed_in(running, server, "ana", java_script_enabled=False)
    plain.go(f"/trajectories/{trajectory}")
    plain.page.locator("#step-0 .comment-edit summary").click()
    plain.page.fill("#step-0 .comment-edit textarea", "Edited without script")
    plain.lands(lambda: plain.page.click("#step-0 .comment-edit button[value=edit]"))
    assert re.search(r"\?from=0#step-0$", plain.path()), plain.path()
    assert plain.texts("#step-0 .comment > .prose") == ["Edited without script"]
    plain.page.locator("#comments .comment-edit summary").click()
    plain.lands(lambda: plain.page.click("#comments .comment-edit button[value=delete]"))
    assert "deleted" in plain.page.inner_text("#comments .comment-head")
    plain.lands(lambda: plain.page.click("#comments .comment-restore button"))
    assert plain.texts("#comments .comment > .prose") == ["One to show"]
    plain.page.fill("#write-text", "On a step")
    plain.page.fill("#write-comment [name=step]", "1")
    plain.lands(lambda: plain.page.click("#write-comment button"))
    assert plain.texts("#step-1 .comment > .prose") == ["On a step"]
    plain.is_calm()
    plain.close()
    reader.close()
