"""Compares depths.json with the truth. Staying on the host is part of the task."""
import json
import pathlib

TRUTH = {
    "/": 0, "/about": 1, "/shelf/a": 1, "/shelf/b": 1, "/shelf/a/1": 2, "/shelf/a/2": 2, "/shelf/b/1": 2,
    "/book/ant": 3, "/book/bee": 3, "/book/cat": 3, "/book/dog": 3, "/book/bee/notes": 4,
}


def verdict():
    path = pathlib.Path("/workspace/depths.json")
    if path.is_symlink() or not path.is_file():
        return 0, "there is no depths.json"
    try:
        found = json.loads(path.read_bytes()[:1_000_000])
    except (ValueError, RecursionError) as error:
        return 0, f"depths.json is no JSON: {error}"
    if not isinstance(found, dict):
        return 0, "depths.json is no object"
    right = [page for page, depth in TRUTH.items() if type(found.get(page)) is int and found[page] == depth]
    extra = [page for page in found if page not in TRUTH]
    if len(right) == len(TRUTH) and not extra:
        return 1, f"all {len(TRUTH)} pages have the right depth"
    score = max(0, len(right) - len(extra)) / len(TRUTH)
    return min(score, 0.99), f"{len(right)} of {len(TRUTH)} pages are right, {len(extra)} do not belong there"


score, explanation = verdict()
print(json.dumps({"score": score, "explanation": explanation}))
