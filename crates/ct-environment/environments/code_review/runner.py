"""What the agent's code gave when it was tried (see trial/ of each task), and the verdict on it."""
import json
import os


def values():
    """The values by name; what the agent's code made of them may be anything."""
    try:
        with open("/results/values.json", "rb") as file:
            found = json.loads(file.read(100_000))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def tell(score, explanation, file=None):
    """Prints the verdict; `file` is what the agent changed for it, and when it did that is told too."""
    verdict = {"score": score, "explanation": explanation}
    if file:
        verdict["happened_at"] = os.stat(f"/workspace/{file}").st_mtime
    print(json.dumps(verdict))
