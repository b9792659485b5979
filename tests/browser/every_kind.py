"""Every kind of event that Inspect knows is shown with all that is in it, with a conversation and without one."""

import json
import re

from harness import Reader
from reading import ids, open_, until

# Those that are told as a step or as a call.
TOLD = {"model", "tool"}
# Members that are the same for all kinds: told in the line of the event, or in its raw JSON alone.
COMMON = {"uuid", "span_id", "timestamp", "working_start", "working_time", "completed", "pending", "event", "events"}


def texts(value) -> list[str]:
    """All texts in a value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for one in value.values() for text in texts(one)]
    return [text for one in value for text in texts(one)] if isinstance(value, list) else []


def every_kind(server, running) -> None:
    import kinds

    reader = Reader(running, server.url)
    page = reader.page
    reader.go("/login")
    reader.sign_in("ana")
    made = [json.loads(event.model_dump_json(exclude_none=True)) for event in kinds.events()]
    trajectories = ids(reader)
    assert len(trajectories) == 2
    for trajectory in trajectories:
        open_(reader, trajectory)
        while page.locator("a[data-more]").count():
            count = page.locator(".event").count()
            page.locator("a[data-more]").last.evaluate("link => link.click()")
            until(page, "count => document.querySelectorAll('.event').length > count", arg=count)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        shown = set(page.locator(".event-kind").all_text_contents())
        assert {event["event"] for event in made} - TOLD == shown, {event["event"] for event in made} - TOLD ^ shown
        assert "model.said" in page.inner_text(".step.is-model") and "tool.result" in page.inner_text(".output")
        for event in made:
            kind = event["event"]
            if kind in TOLD:
                continue
            one = page.locator(".event").filter(has=page.locator(".event-kind", has_text=re.compile(f"^{kind}$"))).first
            body = one.text_content()
            own = {name: value for name, value in event.items() if name not in COMMON}
            missing = [text for text in texts(own) if text not in body]
            assert not missing, (kind, missing)
            # And all of it is in its raw JSON.
            one.locator("> summary a[data-raw]").evaluate("link => link.click()")
            one.locator("> .raw").wait_for()
            raw = one.locator("> .raw pre").text_content()
            assert not [text for text in texts(event) if text not in raw and not text.startswith("2026-11")], kind
    reader.is_calm()
    reader.close()
