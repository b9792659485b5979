"""Runs the agent's code apart from the scorer: in a process of its own, whose answers are only its exit code and output."""
import json
import os
import subprocess

PRELUDE = "import sys; sys.path.insert(0, '/workspace'); sys.dont_write_bytecode = True\n"


def holds(code):
    """Whether a piece of Python over the agent's package runs to its last line."""
    marker = "done-7f3a"
    source = PRELUDE + code + f"\nprint({marker!r})\n"
    try:
        done = subprocess.run(["python3", "-I", "-c", source], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and done.stdout.decode("utf-8", "replace").splitlines()[-1:] == [marker]


def tell(score, explanation, file=None):
    """Prints the verdict; `file` is what the agent changed for it, and when it did that is told too."""
    verdict = {"score": score, "explanation": explanation}
    if file:
        verdict["happened_at"] = os.stat(f"/workspace/{file}").st_mtime
    print(json.dumps(verdict))
