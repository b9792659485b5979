"""Checks what the new method gave when it was tried."""
import sys

sys.path.insert(0, "/environment")
from runner import tell, values  # noqa: E402

RIGHT = {"total": 1001, "none": 1001, "all": 0, "rounded down": [900, 670], "refused": ["refused", "refused"]}
found = values()
failed = [name for name, value in RIGHT.items() if found.get(name) != value]
tell(1 - len(failed) / len(RIGHT), "failing: " + ", ".join(failed) if failed else "everything works")
