"""The page of a trajectory in a real browser.

    transcript.py CT [--only review|events|comments|print|kinds|hostile|huge]
"""

import argparse
import sys
import tempfile
from pathlib import Path

import transcripts
from comments import comments
from every_kind import every_kind
from harness import browser, served
from hostile import hostile
from huge import huge
from paper import long_paper, paper
from review import events_only, public, review, without_script


def kinds(path: Path) -> list[Path]:
    """Logs by Inspect's own classes, with a conversation and without."""
    from kinds import log

    return [log(path.with_name("kinds.eval"), True), log(path.with_name("events.eval"), False)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("ct")
    parser.add_argument("--only")
    given = parser.parse_args()
    cases = [("review", transcripts.full, [review, without_script, public]),
             ("print", lambda path: transcripts.full(path, 1), [paper]), ("print", transcripts.long, [long_paper]),
             ("events", transcripts.events_only, [events_only]), ("kinds", kinds, [every_kind]),
             ("comments", lambda path: transcripts.full(path, 1), [comments]), ("hostile", transcripts.hostile, [hostile]), ("huge", transcripts.huge, [huge])]
    with browser() as running, tempfile.TemporaryDirectory(prefix="ct-logs-") as logs:
        for name, make, tests in cases:
            if given.only not in (None, name):
                continue
            made = make(Path(logs) / f"{name}.eval")
            with served(given.ct) as server:
                server.make(*(made if isinstance(made, list) else [made]))
                server.add_user("ana")
                server.start()
                for test in tests:
                    test(server, running)
                    print(f"{test.__name__}: ok", file=sys.stderr)


if __name__ == "__main__":
    main()
