"""Everything hostile on the page of a trajectory, on those that list it, and in addresses."""

import re
import urllib.parse

import transcripts
from harness import Reader
from reading import ids, open_, ready, until


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
            const allowed = new Set("HTML HEAD META TITLE LINK SCRIPT BODY A HEADER NAV MAIN DIV SPAN P H1 H2 H3 DL DT DD BUTTON FORM INPUT LABEL OUTPUT ARTICLE SECTION DETAILS SUMMARY UL OL LI PRE CODE B BDI TIME IMG FIGURE FIGCAPTION ASIDE TEXTAREA svg title line rect a circle path DIALOG KBD SMALL TABLE g text THEAD TBODY TR TH TD SELECT OPTION OPTGROUP DATALIST STRONG EM FIELDSET LEGEND".split(" "));
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
        bare = page.evaluate("""() => /[\\u202a-\\u202e\\u2066-\\u2069\\u200b\\ufeff\\u2028\\u0000\\u001b\\u0007\\u009b\\u3164\\u115f\\u2800\\uffa0\\u034f\\ufe01\\udb40]/.test(document.body.innerText)""")
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
        if text.isprintable() and "invisible" not in text and len(text) < 3000:
            assert text in seen, text
    assert all(name in seen for name in ("U+202E", "U+001B", "U+3164", "U+E0101", "U+2800"))
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
    # Paper, with everything open.
    for events in ("steps", "events"):
        reader.go(f"/trajectories/{trajectory}?print={events}")
        check(f"print={events}")
    # Comments are hostile as well.
    open_(reader, trajectory)
    for text in texts[:8]:
        page.fill("#write-text", text)
        page.press("#write-text", "Control+Enter")
        until(page, "text => [...document.querySelectorAll('#comments .comment > .prose')].some(one => one.textContent === text)", arg=text)
    check("comments")
    page.evaluate("document.querySelector('#comments .comment-edit').open = true")
    page.click("#comments .comment-edit button[value=delete]")
    page.wait_for_selector("#comments .comment-restore")
    page.evaluate("document.querySelector('#comments .is-deleted details').open = true")
    check("a deleted comment")
    page.click("#comments .comment-restore button")
    page.wait_for_selector("#comments .comment-restore", state="detached")
    check("a restored comment")
    # Every list that names it, and addresses that are hostile themselves.
    run = page.get_attribute(".trail a", "href")
    reader.go("/trajectories")
    page.locator("[data-choose]").first.check()
    page.fill("#actions input[name=dataset]", "hostile")
    reader.lands(lambda: page.locator("#actions button[type=submit]").first.click())
    check("chosen")
    for path in ("/", "/runs", run, "/trajectories", "/datasets", "/datasets/hostile?version=1", "/settings/tokens"):
        reader.go(path)
        check(path)
    for number, text in enumerate(text for text in texts if len(text) < 1000 and not re.search("[\ud800-\udfff]", text)):
        value = urllib.parse.quote(text, safe="")
        paths = [f"/runs?name={value}&policy={value}&tags={value}", f"/trajectories?environment={value}&tag={value}", f"/trajectories/{trajectory}?tag={value}&main_task={value}",
                 f"/runs/{value}", f"/trajectories/{value}", f"/datasets/{value}", f"/login?next={value}"]
        path = paths[number % len(paths)]
        page.goto(server.url + path)
        check(path)
    reader.close()
