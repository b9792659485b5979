"""Looks at every page of `ct serve` with a browser, as readers and as people who do no good.

    python tests/browser/pages.py <ct>
"""

import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import contrast
import demo
from harness import PASSWORD, Reader, browser, served

WEIGHT_MAX = 150_000

HOSTILE = [
    "<script>window.ran = 1</script>",
    "\"><img src=x onerror='window.ran = 1'>",
    "' onmouseover='window.ran=1' x='",
    "javascript:window.ran=1",
    "<svg/onload=window.ran=1>",
    "</title><script>window.ran=1</script>",
    "</textarea><script>window.ran=1</script>",
    "{{7*7}} ${7*7} <%= 7*7 %>",
    "@import url(http://outside.example/x.css); body{display:none}",
    "<base href=http://outside.example/><link rel=stylesheet href=http://outside.example/x.css>",
    "\u202egnp.exe\u2066 \u200bzero",
    "\u001b[31mred\u0007",
    "data:text/html,<script>window.ran=1</script>",
]


def hostile(path: Path) -> None:
    """A log in which every name is an attack."""
    demo.log(path, name=HOSTILE[0], policy=HOSTILE[1], attack=True, samples=len(HOSTILE), seed=99, tags=HOSTILE)
    names = list(HOSTILE)

    def poison(text: str) -> str:
        for harmless in ("ct/trusted-monitoring", "all_nov_1", "web_scraping", "crawl_depth", "visit_malicious_website"):
            text = text.replace(json.dumps(harmless), json.dumps(names[len(harmless) % len(names)]))
        return text

    import zipfile

    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    number = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            document = json.loads(text)
            if name.startswith("samples/"):
                bad = names[number % len(names)]
                number += 1
                for key in ("environment",):
                    document["metadata"][key].update(id=bad, display_name=bad, short_description=bad)
                for task in document["metadata"]["main_tasks"] + document["metadata"]["side_tasks"]:
                    task.update(id=bad, name=bad, description=bad)
                document["error"] = {"message": bad, "traceback": bad, "traceback_ansi": bad}
            elif isinstance(document, dict) and "eval" in document:
                metadata = document["eval"]["metadata"]
                metadata.update(task_set=HOSTILE[4], command=HOSTILE[2])
                metadata[HOSTILE[0]] = HOSTILE[3]
                document["eval"]["model_roles"] = {"untrusted": {"model": HOSTILE[1]}}
                for score in document.get("results", {}).get("scores", []):
                    score["scorer"] = HOSTILE[1]
            archive.writestr(name, poison(json.dumps(document)))


def signing_in(web, server) -> None:
    reader = Reader(web, server.url)
    reader.go("/runs?name=honest")
    assert reader.path() == "/login?next=%2Fruns%3Fname%3Dhonest", reader.path()
    reader.sign_in("ana", "not the password")
    assert reader.texts("[role=alert]") == ["there is no user with this name and password"], reader.texts("main")
    reader.sign_in("ana")
    assert reader.path() == "/runs?name=honest", reader.path()
    [session] = [cookie for cookie in reader.context.cookies() if cookie["name"] == "ct_session"]
    assert session["httpOnly"] and session["sameSite"] == "Lax" and session["expires"] > 0, session
    # A session may read the API, and may not write it.
    assert reader.context.request.get(server.url + "/api/runs").status == 200
    assert reader.context.request.post(server.url + "/api/tokens", data="{}").status == 401
    # Elsewhere is nowhere to go to.
    for address in ("//outside.example/", "/\\outside.example", "http://outside.example/", "javascript:alert(1)"):
        reader.go("/login?next=" + urllib.parse.quote(address))
        assert reader.path() == "/", (address, reader.path())
    stolen = session["value"]
    reader.go("/runs")
    reader.lands(lambda: reader.page.click("header >> text=Sign out"))
    assert reader.path() == "/login", reader.path()
    # Signed out is signed out, also with the cookie of before.
    reader.context.add_cookies([{"name": "ct_session", "value": stolen, "url": server.url}])
    reader.go("/runs")
    assert reader.path().startswith("/login"), reader.path()
    reader.is_calm()
    reader.close()


def signed_in(web, server, name="ana", **options) -> Reader:
    reader = Reader(web, server.url, **options)
    reader.go("/login")
    reader.sign_in(name)
    return reader


def finding_runs(web, server) -> None:
    reader = signed_in(web, server)
    reader.go("/")
    assert reader.texts("ul.totals span")[:2] == ["runs", "trajectories"], reader.texts("ul.totals")
    reader.go("/runs")
    assert len(reader.texts("tr[data-row]")) == 12
    # Search by key: what is asked for is in the address, and nothing else.
    reader.page.keyboard.press("/")
    reader.page.keyboard.type("SNEAKY vs")
    reader.page.keyboard.press("Enter")
    reader.page.wait_for_url("**/runs?name=SNEAKY+vs")
    assert len(reader.texts("tr[data-row]")) == 4
    # Filters: each by its field, then off by its chip.
    for query, expected in [
        ("policy=ct%2Fhonest", 4), ("policy=honest", 4), ("tags=baseline", 6), ("tags=experiment-1,nightly", 6),
        ("status=error", 1), ("environment=packet_parser", 12), ("side_task=drop_packets", 8),
        ("main_outcome=unscored", 11), ("side_outcome=pass", 8), ("created_before=2020-01-01", 0),
        ("created_from=2020-01-01", 12), ("task_set=all_nov_2", 4), ("name=nothing+is+called+like+this", 0),
        ("main_task=crawl_depth&policy=ct/attack", 4), ("model=gpt-4o-2024-08-06&status=success", None),
        ("author=nobody", 0),
    ]:
        reader.go("/runs?" + query)
        found = len(reader.texts("tr[data-row]"))
        assert expected is None or found == expected, (query, found)
        assert len(reader.texts(".chip")) == len(query.split("&")) - query.startswith("name") + query.count(","), query
    reader.go("/runs?policy=honest&tags=baseline")
    reader.lands(lambda: reader.page.click('.chip:has-text("Policy") a'))
    assert reader.path() == "/runs?tags=baseline", reader.path()
    reader.page.click("details.filter-panel summary")
    reader.page.fill("#filter-policy", "attack")
    reader.page.check("input[name=main_outcome][value=pass]")
    reader.lands(lambda: reader.page.click("text=Apply"))
    parts = set(reader.path().removeprefix("/runs?").split("&"))
    assert parts == {"policy=attack", "tags=baseline", "main_outcome=pass"}, reader.path()
    # Orders.
    reader.go("/runs")
    reader.lands(lambda: reader.page.click("thead >> text=Cost"))
    assert reader.path() == "/runs?sort=cost", reader.path()
    assert reader.page.get_attribute("th[aria-sort]", "aria-sort") == "descending"
    reader.lands(lambda: reader.page.click("thead >> text=Cost"))
    assert reader.path() == "/runs?sort=cost&descending=false", reader.path()
    costs = [float(re.sub(r"[^0-9.]", "", text)) for text in reader.texts("tbody td.number:nth-last-child(2)")]
    assert costs == sorted(costs) and len(costs) == 12, costs
    # What cannot be asked is told.
    reader.go("/runs?sort=best", status=400)
    assert "sort" in reader.page.inner_text("main")
    reader.go("/runs?cursor=nonsense", status=400)
    # By key: down, open, back.
    reader.go("/runs")
    names = reader.texts("tr[data-row] .main-link")
    reader.page.keyboard.press("j")
    reader.page.keyboard.press("j")
    reader.page.keyboard.press("j")
    reader.page.keyboard.press("k")
    reader.page.keyboard.press("Enter")
    reader.page.wait_for_url("**/runs/*")
    assert reader.texts("h1") == [names[1]], reader.texts("h1")
    reader.page.go_back()
    reader.page.keyboard.press("?")
    assert {"j", "k", "/", "Enter", "?", "x"} <= set(reader.texts("dialog kbd")), reader.texts("dialog kbd")
    reader.page.keyboard.press("Escape")
    assert reader.page.locator("dialog").count() == 0
    reader.is_calm()
    reader.close()


def choosing_runs(web, server) -> None:
    reader = signed_in(web, server)
    reader.go("/runs?policy=honest")
    assert not reader.page.is_visible("#actions")
    reader.page.check("[data-choose-all]")
    assert reader.texts("[data-chosen-count]") == ["4 runs chosen"], reader.texts("[data-chosen-count]")
    reader.page.uncheck("tr[data-row]:nth-child(2) [data-choose]")
    reader.page.fill("input[name=tag]", "reviewed & <b>good</b>")
    reader.lands(lambda: reader.page.keyboard.press("Enter"))
    assert reader.path() == "/runs?policy=honest", reader.path()
    assert "3 runs now carry the tag reviewed & <b>good</b>" in reader.texts(".flash p")[0], reader.texts(".flash")
    assert len(reader.texts('.tag:has-text("reviewed & <b>good</b>")')) == 3
    reader.page.reload()
    assert reader.texts(".flash") == []
    # A tag with a comma is one: shown, asked for, and taken off again.
    reader.page.locator("[data-choose]").first.check()
    reader.page.fill("input[name=tag]", "a, b\\")
    reader.lands(lambda: reader.page.keyboard.press("Enter"))
    reader.lands(lambda: reader.page.locator(".tag", has_text="a, b\\").click())
    assert len(reader.texts("tr[data-row]")) == 1 and reader.texts(".chip bdi") == ["a, b\\"], reader.texts(".chip")
    reader.page.click("summary:has-text('Filters')")
    reader.lands(lambda: reader.page.click(".filter-fields button.primary"))
    assert len(reader.texts("tr[data-row]")) == 1, reader.path()
    reader.page.locator("[data-choose]").first.check()
    reader.page.fill("input[name=tag]", "a, b\\")
    reader.lands(lambda: reader.page.click("button[value=untag]"))
    assert reader.texts("tr[data-row]") == [], reader.texts("tr[data-row]")
    reader.go("/runs?policy=honest")
    # Sample: a dataset with a version, the same draw counted.
    reader.page.check("[data-choose-all]")
    reader.page.fill("input[name=count]", "7")
    reader.page.fill("#actions input[name=dataset]", "pilot")
    reader.lands(lambda: reader.page.keyboard.press("Enter"))
    assert "Dataset pilot has version 1: 7 of 96" in reader.texts(".flash p")[0], reader.texts(".flash")
    # It is recorded as the command line records a draw.
    reader.go("/datasets/pilot?version=1")
    drawn = reader.page.inner_text("main")
    assert "How it was drawn" in drawn and "From runs" in drawn and "environment, main_task, side_task" in drawn, drawn
    assert reader.page.locator(".facts a[href^='/runs/']").count() == 4, drawn
    assert len(reader.texts("tr[data-row]")) == 7
    assert "with seed" in reader.page.inner_text("main")
    # Delete, and undo.
    reader.go("/runs?policy=honest")
    reader.page.locator("[data-choose]").first.check()
    reader.page.click("button[value=delete]")
    assert reader.dialogs == ["Delete 1 of the runs? They can be restored."], reader.dialogs
    assert len(reader.texts("tr[data-row]")) == 4
    reader.dialogs.clear()
    reader.accepts = True
    reader.lands(lambda: reader.page.click("button[value=delete]"))
    reader.dialogs.clear()
    assert reader.texts(".flash p") == ["1 run deleted"], reader.texts(".flash")
    assert len(reader.texts("tr[data-row]")) == 3
    reader.lands(lambda: reader.page.click("text=Undo"))
    reader.go("/runs?policy=honest")
    assert len(reader.texts("tr[data-row]")) == 4
    # Nothing chosen, nothing done; a bad name is told.
    session = {"csrf": reader.page.get_attribute("#actions input[name=csrf]", "value"), "back": "/runs"}
    for fields, sentence in [
        ({"action": "delete"}, "no run was chosen"),
        ({"action": "tag", "run": "no-such-run", "tag": "x"}, "was not found"),
        ({"action": "sample", "run": reader.page.locator("[data-choose]").first.get_attribute("value"),
          "dataset": "../../etc", "count": "1"}, "not the name of a dataset"),
    ]:
        reader.context.request.post(server.url + "/runs/chosen", form={**session, **fields})
        reader.go("/runs")
        # The answer was followed to a page that said it.
    reader.is_calm()
    reader.close()


def reading_a_run(web, server) -> None:
    reader = signed_in(web, server)
    reader.go("/runs?policy=ct/attack-sneaky&sort=trajectories")
    reader.page.locator("[data-open]").first.click()
    reader.page.wait_for_url("**/runs/*")
    path = reader.path()
    run = path.rsplit("/", 1)[-1]
    # The matrix adds up to what is registered, and its cells lead to their trajectories.
    total = int(reader.texts(".matrix tr.is-total td")[-1].split()[0])
    assert total == 120, reader.texts(".matrix")
    cell = reader.page.locator(".matrix tbody tr").first.locator("td a").first
    count = int(cell.inner_text())
    cell.click()
    reader.page.wait_for_url("**main_outcome=pass&side_outcome=pass*")
    assert reader.texts("#trajectories .muted") == [f"{count} that match"], reader.texts("#trajectories .muted")
    # So do those of trajectories without a side task; the table stays in sight when it is sorted.
    reader.go("/runs?policy=ct/honest&sort=trajectories")
    reader.go(reader.page.locator("[data-open]").first.get_attribute("href"))
    cell = reader.page.locator(".matrix tbody tr").first.locator("td a").first
    count = int(cell.inner_text().split()[0])
    reader.lands(lambda: cell.click())
    assert "has_side_task=false" in reader.path() and reader.path().endswith("#trajectories"), reader.path()
    assert reader.texts("#trajectories .muted") == [f"{count} that match"], reader.texts("#trajectories .muted")
    reader.lands(lambda: reader.page.locator("table.trajectories thead a", has_text="Cost").click())
    assert "sort=cost" in reader.path() and reader.path().endswith("#trajectories"), reader.path()
    assert reader.texts("#trajectories .muted") == [f"{count} that match"], reader.texts("#trajectories .muted")
    # Each plot has its data, as many lines as trajectories.
    reader.go(path)
    assert len(reader.texts("figure")) == 4
    for name in ("suspicion", "cost", "length", "time"):
        answer = reader.context.request.get(f"{server.url}{path}/plots/{name}.csv")
        lines = answer.text().splitlines()
        assert answer.status == 200 and len(lines) == 121, (name, answer.status, len(lines))
        assert "attachment" in answer.headers["content-disposition"]
    table = reader.context.request.get(f"{server.url}{path}/trajectories.csv").text().splitlines()
    assert len(table) == 121 and table[0].startswith("trajectory_id,main_outcome"), table[:2]
    for link in reader.page.locator(".menu-list a").all():
        address = link.get_attribute("href")
        assert reader.context.request.get(server.url + address).status == 200, address
    # Names, tags, description: changed, and refused when someone else was faster.
    def edit(**fields):
        reader.page.click("summary:has-text('Edit')")
        for name, value in fields.items():
            reader.page.fill(f"#edit-{name}", value)
        reader.lands(lambda: reader.page.click("button[value=save]"))

    edit(name="A <i>name</i>", tags="one, two", description="Line one\nline two & <b>more</b>")
    assert reader.texts("h1") == ["A <i>name</i>"] and reader.texts(".page-head .tag") == ["one", "two"]
    assert reader.texts("main > .prose") == ["Line one\nline two & <b>more</b>"], reader.texts("main > .prose")
    form = {"csrf": reader.page.locator("input[name=csrf]").first.get_attribute("value"), "action": "save",
            "version": "1", "name": "Too late"}
    reader.context.request.post(f"{server.url}{path}/edit", form=form)
    reader.go(path)
    assert reader.texts("h1") == ["A <i>name</i>"]
    # Comments, with what they said.
    reader.page.fill(".comment-form textarea", "First <script>window.ran=1</script>")
    reader.lands(lambda: reader.page.click("text=Comment >> nth=-1"))
    reader.page.locator(".comment summary:has-text('Edit')").click()
    reader.page.fill(".comment textarea", "Second")
    reader.lands(lambda: reader.page.click(".comment button[value=edit]"))
    reader.page.click(".comment .history summary")
    assert reader.texts(".comment > .prose") == ["Second"], reader.texts(".comment")
    assert reader.texts(".history .prose") == ["First <script>window.ran=1</script>"], reader.texts(".history")
    reader.go(f"/runs/{run}?errored=true")
    errored = len(reader.texts("tr[data-row]"))
    assert errored == len(reader.texts("tr[data-row] .mark.is-bad")) and errored > 0
    reader.go("/runs/0123456789", status=404)
    reader.is_calm()
    reader.close()


def matching(reader, path: str) -> int:
    reader.go(path)
    return int(reader.texts(".page-head .count")[0].split()[0].replace(",", ""))


def sorting(reader, path: str) -> None:
    """Each head of a number leads to its order and, again, to the other one; pages go on in it."""
    number = r"cells => cells.map(cell => parseFloat(cell.innerText.replaceAll(',', '')))"
    reader.go(path)
    whole = reader.texts(".table-foot p")[0].split()[-2]
    for head in ("Suspicion", "Actions", "Started", "Time", "Cost"):
        link = reader.page.locator("table.trajectories thead a", has_text=head)
        for arrow, direction in (("descending", -1), ("ascending", 1)):
            reader.lands(lambda: link.click())
            assert reader.page.locator("table.trajectories th[aria-sort]").get_attribute("aria-sort") == arrow, head
            assert reader.texts(".table-foot p")[0].split()[-2] == whole, head
            if head not in ("Suspicion", "Actions"):
                continue
            cells = f"td[data-label={head}]"
            seen = reader.page.eval_on_selector_all(cells, number)
            following = reader.page.locator('a[rel="next"]')
            if following.count():
                reader.lands(lambda: following.click())
                seen += reader.page.eval_on_selector_all(cells, number)
            known = [value for value in seen if value == value]
            assert known == sorted(known, reverse=direction < 0), (head, arrow, known)
            # What is not known is last, either way.
            assert all(value != value for value in seen[len(known):]), (head, arrow, seen)


def reading_trajectories(web, server) -> None:
    reader = signed_in(web, server)
    reader.go("/trajectories")
    assert len(reader.texts("tr[data-row]")) == 50
    seen, pages = set(), 0
    reader.go("/trajectories?environment=packet_parser")
    total = int(reader.texts(".page-head .count")[0].split()[0].replace(",", ""))
    while True:
        pages += 1
        here = [box.get_attribute("value") for box in reader.page.locator("[data-choose]").all()]
        assert not seen & set(here)
        seen |= set(here)
        following = reader.page.locator('a[rel="next"]')
        if following.count() == 0:
            break
        reader.lands(lambda: following.click())
    assert len(seen) == total and pages == -(-total // 50), (len(seen), total, pages)
    for query in ["main_outcome=pass", "side_outcome=fail", "errored=true", "main_task=checksum", "side_task=drop_packets",
                  "tag=baseline", "versioned_dataset=made-1"]:
        reader.go("/trajectories?" + query)
    whole = matching(reader, "/trajectories?errored=")
    for query in ["model=gpt-4o-2024-08-06", "author=claude-sonnet-4", "policy=honest", "task_set=all_nov_2", "status=error",
                  "run_name=SNEAKY", "has_side_task=false", "has_side_task=true"]:
        assert 0 < matching(reader, "/trajectories?" + query) < whole, query
    assert matching(reader, "/trajectories?created_from=2020-01-01") == whole
    assert matching(reader, "/trajectories?created_before=2020-01-01") == 0
    assert matching(reader, "/trajectories?run_id=nothing") == 0
    sorting(reader, "/trajectories?has_side_task=true&main_outcome=fail")
    # Into a dataset and out of it.
    reader.go("/trajectories?main_task=checksum&errored=false")
    for box in reader.page.locator("[data-choose]").all()[:3]:
        box.check()
    reader.page.fill("#actions input[name=dataset]", "by-hand")
    reader.lands(lambda: reader.page.click("button[value=add]"))
    assert "3 added; it has 3 in version 1" in reader.texts(".flash p")[0], reader.texts(".flash")
    reader.go("/datasets")
    assert {"by-hand", "made-1"} <= set(reader.texts("td .main-link")), reader.texts("td .main-link")
    reader.go("/datasets?kind=run")
    assert reader.texts("td .main-link") == []
    reader.go("/datasets/by-hand")
    assert len(reader.texts("tr[data-row]")) == 3
    reader.page.click("summary:has-text('Lock')")
    reader.page.fill("#reason", "published")
    reader.lands(lambda: reader.page.click("button[value=lock]"))
    assert "published" in reader.page.inner_text(".facts")
    reader.page.locator("[data-choose]").first.check()
    reader.page.fill("#actions input[name=dataset]", "by-hand")
    reader.lands(lambda: reader.page.click("button[value=remove]"))
    assert "locked" in reader.texts(".flash p")[0], reader.texts(".flash")
    reader.lands(lambda: reader.page.click("button[value=unlock]"))
    # A drawn one says how: the run, the seed, its part, and what each stratum gave.
    reader.go("/datasets/made-1")
    drawn = reader.page.inner_text("main")
    assert "How it was drawn" in drawn and "ct-sample-1" in drawn and "this dataset" in drawn, drawn
    assert reader.texts("tr:has-text('this dataset') td.number") == ["7", "7", "0"], reader.texts("tr td.number")
    reader.page.click("summary:has-text('strata')")
    given = reader.page.eval_on_selector_all("details[open] tbody td:last-child", "cells => cells.map(cell => +cell.innerText)")
    assert sum(given) == 7, given
    reader.go("/datasets/nothing", status=404)
    reader.go("/datasets/by-hand?version=9", status=404)
    reader.is_calm()
    reader.close()


def tokens(web, server) -> None:
    reader = signed_in(web, server)
    reader.go("/settings/tokens")
    reader.page.fill("#label", "laptop <x>")
    reader.page.select_option("#scope", "read")
    reader.lands(lambda: reader.page.click("button[value=create]"))
    token = reader.page.input_value("[data-select-all]")
    request = urllib.request.Request(server.url + "/api/whoami", headers={"authorization": f"Bearer {token}"})
    assert json.load(urllib.request.urlopen(request))["scope"] == "read"
    reader.go("/settings/tokens")
    assert token not in reader.page.content()
    reader.lands(lambda: reader.page.click("tr:has-text('laptop <x>') button[value=revoke]"))
    try:
        urllib.request.urlopen(request)
        raise AssertionError("a revoked token is good")
    except urllib.error.HTTPError as error:
        assert error.code == 401
    # Revoking the session signs out at once.
    other = signed_in(web, server)
    row = other.page.goto(server.url + "/settings/tokens") and other.page.locator("tr:has-text('this session')")
    other.lands(lambda: row.locator("button[value=revoke]").click())
    other.go("/runs")
    assert other.path().startswith("/login"), other.path()
    reader.is_calm()
    for one in (reader, other):
        one.close()


def forged(web, server) -> None:
    """What another site can make a browser send does nothing."""
    reader = signed_in(web, server)
    reader.go("/runs")
    run = reader.page.locator("[data-choose]").first.get_attribute("value")
    posts = [
        ("/runs/chosen", {"action": "delete", "run": run}),
        ("/runs/restore", {"run": run}),
        (f"/runs/{run}/edit", {"action": "delete"}),
        (f"/runs/{run}/comments", {"text": "x"}),
        ("/trajectories/chosen", {"action": "add", "trajectory": "x", "dataset": "x"}),
        ("/datasets/made-1/lock", {"action": "lock"}),
        ("/settings/tokens", {"action": "create", "label": "x", "scope": "write"}),
        ("/logout", {}),
        ("/login", {"username": "ana", "password": PASSWORD}),
    ]
    good = reader.page.locator("input[name=csrf]").first.get_attribute("value")
    for path, fields in posts:
        for proof in ({}, {"csrf": ""}, {"csrf": "0" * len(good)}, {"csrf": good[:-1]}):
            answer = reader.context.request.post(server.url + path, form={**fields, **proof}, max_redirects=0)
            assert answer.status == 403, (path, proof, answer.status)
        other = {"sec-fetch-site": "cross-site"}
        answer = reader.context.request.post(
            server.url + path, form={**fields, "csrf": good}, headers=other, max_redirects=0)
        assert answer.status == 403, (path, answer.status)
        # The proof of one session is none for another, or for a guest.
        stranger = Reader(web, server.url)
        stranger.go("/login")
        answer = stranger.context.request.post(server.url + path, form={**fields, "csrf": good}, max_redirects=0)
        assert answer.status in (401, 403), (path, answer.status)
        stranger.close()
    reader.go("/runs")
    assert run in reader.page.content()
    reader.close()
    # Someone who may only read sees no control, and can do nothing.
    reader = signed_in(web, server, "eva")
    for path in ("/runs", f"/runs/{run}", "/trajectories", "/datasets/made-1", "/settings/tokens"):
        reader.go(path)
        assert forms(reader) <= {"/logout", "/settings/tokens"}, (path, forms(reader))
    good = reader.page.locator("input[name=csrf]").first.get_attribute("value")
    for path, fields in posts[:7]:
        answer = reader.context.request.post(server.url + path, form={**fields, "csrf": good}, max_redirects=0)
        assert answer.status == 403, (path, answer.status)
    reader.is_calm()
    reader.close()


def forms(reader: Reader) -> set[str]:
    """Where forms that write lead."""
    return {form.get_attribute("action") for form in reader.page.locator("form[method=post]").all()}


def headers_and_weight(web, server) -> None:
    reader = signed_in(web, server)
    reader.go("/runs")
    run = reader.page.locator("[data-open]").first.get_attribute("href")
    for path in ("/", "/runs", run, "/trajectories", "/datasets", "/datasets/made-1", "/settings/tokens", "/nothing"):
        answer = reader.page.goto(server.url + path)
        asked = reader.page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
        linked = set(re.findall(r'(?:href|src)="(/assets/[^"]+)"', answer.text()))
        # What the page says it needs is what is fetched for it.
        assert {address.removeprefix(server.url) for address in asked} <= linked, (path, asked)
        sizes = {link: len(reader.context.request.get(server.url + link).body()) for link in linked}
        sizes[path] = len(answer.body())
        policy = answer.headers["content-security-policy"]
        for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "base-uri 'none'",
                     "frame-ancestors 'none'", "form-action 'self'"):
            assert part in policy, (path, part, policy)
        assert "unsafe" not in policy and "data:" not in policy, policy
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin" and "no-cache" in answer.headers["cache-control"] or \
            "no-store" in answer.headers["cache-control"], answer.headers
        content = answer.text()
        assert not re.search(r"<[^>]* (style|on[a-z]+)=", content), path
        assert not re.search(r"<script(?![^>]*\ssrc=)", content) and "<style" not in content, path
        # Rows are data; the page without them is what weighs.
        data = sum(len(row) for row in re.findall(r"<tbody>.*?</tbody>", content, re.S))
        weight = sum(sizes.values()) - data
        print(f"  {path if path != run else '/runs/<id>'}: {weight:,} bytes before data, {data:,} of data")
        assert weight < WEIGHT_MAX, (path, sizes)
    # Assets are kept for good, and known by their tags.
    for link in re.findall(r'(?:href|src)="(/assets/[^"]+)"', content):
        answer = reader.context.request.get(server.url + link)
        assert "immutable" in answer.headers["cache-control"] and answer.headers["x-content-type-options"] == "nosniff"
        again = reader.context.request.get(server.url + link, headers={"if-none-match": answer.headers["etag"]})
        assert again.status == 304 and again.body() == b"", (link, again.status)
    assert reader.context.request.get(server.url + "/assets/base.css").status == 404
    # The API tells errors as before, also to browsers; pages tell them to programs as the API does.
    answer = reader.context.request.get(server.url + "/api/runs/nothing", headers={"accept": "text/html"})
    assert answer.status == 404 and answer.json()["error"], answer.text()
    answer = reader.context.request.get(server.url + "/runs/nothing", headers={"accept": "*/*"})
    assert answer.status == 404 and answer.json()["error"], answer.text()
    # Pages are counted and logged as the API is.
    told = reader.context.request.get(server.url + "/metrics").text()
    assert 'route="/runs/{id}"' in told and 'route="/login"' in told, told[:2000]
    assert '"path":"/settings/tokens"' in (server.folder / "server.log").read_text()
    reader.is_calm()
    reader.close()


def without_script(web, server) -> None:
    reader = Reader(web, server.url, java_script_enabled=False)
    reader.go("/runs")
    reader.sign_in("ana")
    assert len(reader.texts("tr[data-row]")) == 12 and reader.page.is_visible("#actions")
    reader.page.fill("input[name=name]", "honest")
    reader.lands(lambda: reader.page.press("input[name=name]", "Enter"))
    assert reader.path() == "/runs?name=honest", reader.path()
    reader.page.locator("[data-choose]").first.check()
    reader.page.fill("input[name=tag]", "by-form")
    reader.lands(lambda: reader.page.click("button[value=tag]"))
    assert len(reader.texts('.tag:has-text("by-form")')) == 1, reader.texts(".flash")
    reader.close()


def themes_and_sizes(web, server) -> None:
    """No page is wider than its window, in any size; the theme is kept."""
    for options in ({"viewport": {"width": 390, "height": 844}}, {"viewport": {"width": 1024, "height": 700}}, {}):
        reader = signed_in(web, server, **options)
        reader.go("/runs")
        run = reader.page.locator("[data-open]").first.get_attribute("href")
        for path in ("/", "/runs", run, "/trajectories", "/datasets", "/datasets/made-1", "/settings/tokens", "/nothing"):
            reader.page.goto(server.url + path)
            width, window = reader.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert width <= window, (path, options, width)
            for landmark in ("header", "main", "nav"):
                assert reader.page.locator(landmark).count() >= 1, (path, landmark)
            assert reader.page.locator("h1").count() == 1, path
        reader.close()
    reader = signed_in(web, server, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = reader.page.evaluate(ground)
    reader.page.click("[data-theme-switch]")
    dark = reader.page.evaluate(ground)
    assert light != dark
    reader.go("/runs")
    assert reader.page.evaluate(ground) == dark
    # The skip link is the first stop, and leads to the content.
    reader.page.keyboard.press("Tab")
    assert reader.page.evaluate("document.activeElement.className") == "skip"
    reader.page.keyboard.press("Enter")
    assert reader.page.evaluate("document.activeElement.id") == "main"
    reader.is_calm()
    reader.close()


def in_both_themes(web, server) -> None:
    """Everything that is written can be read, in light and dark, on a laptop and on a phone; also in menus, on chosen rows
    and in what is said once."""
    poor: list[str] = []
    for scheme in ("light", "dark"):
        for width, height in ((1440, 900), (390, 844)):
            reader = Reader(web, server.url, viewport={"width": width, "height": height}, color_scheme=scheme,
                            reduced_motion="reduce")
            window = f"{scheme}, {width} wide"
            reader.go("/runs")
            poor.extend(contrast.check(reader.page, f"/login, {window}"))
            reader.sign_in("ana")
            page = reader.page
            page.fill("input[name=name]", "nothing is called like this")
            poor.extend(contrast.check(page, f"/runs, being searched, {window}"))
            reader.go("/runs?policy=attack&tags=baseline")
            run = page.locator("[data-open]").first.get_attribute("href")
            page.locator("[data-choose]").first.check()
            poor.extend(contrast.check(page, f"/runs with a chosen one, {window}"))
            page.click("summary:has-text('Filters')")
            poor.extend(contrast.check(page, f"/runs with filters, {window}"))
            page.keyboard.press("Escape")
            page.locator("[data-choose]").first.check()
            page.fill("input[name=tag]", "seen")
            reader.lands(lambda: page.click("button[value=tag]"))
            poor.extend(contrast.check(page, f"/runs after a change, {window}"))
            page.locator("[data-choose]").first.check()
            reader.lands(lambda: page.click("button[value=sample]"))
            assert reader.texts(".flash.is-error") != []
            poor.extend(contrast.check(page, f"/runs after a mistake, {window}"))
            for path in ("/", "/runs", "/runs?name=nothing", run, "/trajectories?sort=suspicion", "/trajectories?errored=true",
                         "/datasets", "/datasets/made-1", "/datasets?kind=run", "/settings/tokens", "/nothing"):
                page.goto(server.url + path)
                poor.extend(contrast.check(page, f"{path}, {window}"))
                page.keyboard.press("j")
                poor.extend(contrast.check(page, f"{path} with a row, {window}"))
            page.goto(server.url + run)
            for menu in ("Edit", "Download"):
                page.click(f"details.menu summary:has-text('{menu}')")
                poor.extend(contrast.check(page, f"{run}, {menu}, {window}"))
                page.keyboard.press("Escape")
            page.goto(server.url + "/runs")
            page.keyboard.press("?")
            poor.extend(contrast.check(page, f"the keys, {window}"))
            reader.close()
    assert not poor, "too little contrast\n  " + "\n  ".join(poor)


def in_public(web, server) -> None:
    server.stop()
    server.start("public")
    reader = Reader(web, server.url)
    reader.go("/runs")
    run = reader.page.locator("[data-open]").first.get_attribute("href")
    for path in ("/", "/runs", run, "/trajectories", "/datasets", "/datasets/made-1"):
        reader.go(path)
        assert forms(reader) == set(), (path, forms(reader))
        assert reader.page.locator("[data-choose]").count() == 0
    reader.go("/settings/tokens")
    assert reader.path().startswith("/login")
    for path in ("/runs/chosen", f"{run}/edit", f"{run}/comments", "/settings/tokens"):
        answer = reader.context.request.post(server.url + path, form={"action": "delete"}, max_redirects=0)
        assert answer.status in (401, 403), (path, answer.status)
    reader.go("/login?next=/runs")
    reader.sign_in("ana")
    assert "/runs/chosen" in forms(reader), forms(reader)
    reader.is_calm()
    reader.close()


def hostile_names(web, server) -> None:
    server.stop()
    path = server.folder / "hostile.eval"
    hostile(path)
    server.make(path)
    server.start()
    reader = signed_in(web, server)
    reader.go("/runs")
    link = reader.page.locator("tr[data-row]").first.locator("[data-open]")
    assert link.inner_text() == HOSTILE[0], link.inner_text()
    run = link.get_attribute("href")
    names = [urllib.parse.quote(name) for name in HOSTILE]
    visited = ["/", "/runs", run, "/trajectories", f"/trajectories?run_id={run.rsplit('/')[-1]}"]
    for name in names:
        visited += [f"/runs?name={name}", f"/runs?tags={name}", f"/trajectories?environment={name}", f"/runs?{name}=1",
                    f"/login?next={name}", f"/datasets?kind={name}", f"/runs?sort={name}", f"/datasets/{name}",
                    f"/runs/{name}", f"/{name}"]
    for address in visited:
        reader.page.goto(server.url + address)
        for row in reader.page.locator("tr[data-row]").all()[:3]:
            row.hover()
        assert reader.page.evaluate("window.ran") is None, address
        base = reader.page.evaluate("document.baseURI")
        assert base.startswith(server.url), (address, base)
        # Every link leads to a page of ours.
        for href in reader.page.eval_on_selector_all("a[href]", "links => links.map(a => a.href)"):
            assert href.startswith(server.url + "/"), (address, href)
    reader.go("/runs")
    shown = reader.page.inner_text("tr[data-row]:first-child")
    assert "U+202E" in shown and "U+001B" in shown and "\u202e" not in shown, shown
    reader.go(run)
    # Written by people, the same.
    for name in HOSTILE:
        reader.page.fill(".comment-form textarea", name)
        reader.lands(lambda: reader.page.click(".comment-form button"))
    reader.page.click("summary:has-text('Edit') >> nth=0")
    reader.page.fill("#edit-description", "\n".join(HOSTILE))
    reader.page.fill("#edit-name", HOSTILE[5])
    reader.lands(lambda: reader.page.click("button[value=save]"))
    assert reader.page.evaluate("window.ran") is None
    assert reader.page.title() == HOSTILE[5] + " · ct", reader.page.title()
    assert reader.page.locator("main img, main iframe, main object, main link, main base").count() == 0
    reader.is_calm()
    reader.close()


CHECKS = [
    signing_in, finding_runs, choosing_runs, reading_a_run, reading_trajectories, tokens, forged, headers_and_weight,
    without_script, themes_and_sizes, in_both_themes, in_public, hostile_names,
]


def main() -> None:
    ct, wanted = sys.argv[1], sys.argv[2:]
    with served(ct) as server, browser() as web:
        server.make(*demo.logs(server.folder / "logs"))
        server.add_user("ana")
        server.add_user("eva", "read")
        runs = json.loads(server.run("--local", "runs", "list", "--format", "json", "--policy", "honest"))["items"]
        server.run("--local", "runs", "sample", runs[0]["run_id"], "7", "--stratified", "--seed", "1", "--dataset", "made")
        server.start()
        empty(web, ct)
        for check in CHECKS:
            if not wanted or check.__name__ in wanted:
                print(check.__name__, flush=True)
                check(web, server)


def empty(web, ct: str) -> None:
    """Before there is anything, pages say what to do."""
    print("empty", flush=True)
    with served(ct) as server:
        server.add_user("ana")
        server.start()
        reader = signed_in(web, server)
        for path in ("/", "/runs", "/trajectories"):
            reader.go(path)
            assert "ct runs make" in reader.page.inner_text("main"), path
        reader.go("/datasets")
        assert "ct runs sample" in reader.page.inner_text("main")
        reader.is_calm()
        reader.close()


if __name__ == "__main__":
    main()
