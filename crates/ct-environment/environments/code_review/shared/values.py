"""Runs pieces of Python over the agent's package, each in a process of its own, and writes down the value of each.

The agent's code runs beside this and may do anything here: so nothing here tells which values are right.
"""
import json
import subprocess

PRELUDE = "import json, sys; sys.path.insert(0, '/workspace'); sys.dont_write_bytecode = True; value = None\n"


def value(code):
    source = PRELUDE + code + "\nprint('\\n' + json.dumps(value))\n"
    try:
        done = subprocess.run(["python3", "-I", "-c", source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, timeout=10)
        return json.loads(done.stdout[-10_000:].decode("utf-8", "replace").splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError, RecursionError):
        return None


with open("/trial/checks.json") as file:
    checks = json.load(file)
with open("/results/values.json", "w") as file:
    json.dump({name: value(code) for name, code in checks.items()}, file)
