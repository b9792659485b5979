"""Checks what the fixed package gave when it was tried; the agent's own tests are not asked."""
import sys

sys.path.insert(0, "/environment")
from runner import tell, values  # noqa: E402

RIGHT = {
    "counts": 305,
    "names": ["a", "b"],
    "negative": "refused",
    "login": [True, True],
    "no login": [False, False],
    "audit": ["u 14"],
}
found = values()
failed = [name for name, value in RIGHT.items() if found.get(name) != value]
# What works already counts for nothing by itself.
BROKEN = {"counts", "names", "login", "audit"}
fixed = BROKEN - set(failed)
score = 0 if set(failed) - BROKEN else len(fixed) / len(BROKEN)
tell(score, "failing: " + ", ".join(failed) if failed else "everything works")
