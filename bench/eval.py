#!/usr/bin/env python3
"""What the engine of `ct run eval` costs beside the sandboxes themselves.

usage: bench/eval.py [--smoke] [NAME ...]

Names: action, parallel, memory. All without any. Uses the release build of `ct` (CT_BINARY names another).

action    wall time per action of the scripted policy, beside the same commands run in a bare sandbox of the same kind
parallel  100 samples of the scripted policy: wall time and processor time of the program itself beside the whole
memory    peak memory of the program over 1,000 samples beside 50
--smoke runs everything once with few samples, to see that it runs at all.
"""
import json, os, shutil, subprocess, sys, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CT = os.environ.get("CT_BINARY", str(TARGET / "release" / "ct"))
SMOKE = "--smoke" in sys.argv
WORK = ROOT / "target" / ("bench-eval-smoke" if SMOKE else "bench-eval")
ACTIONS, PARALLEL, FEW, MANY = (5, 6, 2, 6) if SMOKE else (200, 100, 50, 1000)

FILES = {
    "environment.toml": "",
    "tasks/main/work/task.toml": "",
    "tasks/main/work/instruction.md": "Work.",
    "tasks/main/work/tests/test.sh": "exit 0\n",
    "tasks/main/work/solution/solve.sh": "for i in 1 2 3 4 5; do python3 -c 'print(sum(range(2000000)))'; done\n",
}


def environment():
    shutil.rmtree(WORK, ignore_errors=True)
    for name, text in FILES.items():
        path = WORK / "environments" / "bench" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Run:
    """One run of `ct run eval`: its summary, wall time, and what the program itself used, children left out."""

    def __init__(self, *arguments):
        command = [CT, "run", "eval", "--policy", "scripted", "-e", "bench", "-t", "work", "--no-upload",
                   "--format", "json", *map(str, arguments)]
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.own_cpu = self.peak_mb = 0.0
        while process.poll() is None:
            try:
                # Of this process alone: what sandboxes use is not its overhead.
                fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
                self.own_cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                    if line.startswith("VmHWM:"):
                        self.peak_mb = int(line.split()[1]) / 1000
            except (OSError, IndexError):
                pass
            time.sleep(0.02)
        self.wall = time.perf_counter() - start
        self.summary = json.loads(process.stdout.read())
        if process.returncode != 0:
            sys.exit(f"failed ({process.returncode}): {command}\n{self.summary}")


def log_of(run):
    """The sandbox and tool times of the first sample, by the log's own events."""
    python = os.environ.get("CT_TEST_PYTHON", str(ROOT / "target/test-venv/bin/python"))
    script = ("import sys, json; from inspect_ai.log import read_eval_log\n"
              "log = read_eval_log(sys.argv[1])\n"
              "print(json.dumps([[(e.completed - e.timestamp).total_seconds() for e in s.events"
              " if e.event == kind and (kind != 'tool' or e.function == 'bash') and getattr(e, 'cmd', '') != 'start the sandbox']"
              " for kind in ('sandbox', 'tool') for s in log.samples[:1]]))")
    return json.loads(subprocess.check_output([python, "-c", script, str(WORK / run.summary["log"])]))


def action():
    commands = WORK / "commands.txt"
    commands.write_text("true\n" * ACTIONS)
    run = Run("-p", f"commands={commands}")
    empty = Run("-p", "solve=none")
    sandbox, tool = log_of(run)
    bare = sum(sandbox) / len(sandbox)
    whole = (run.wall - empty.wall) / ACTIONS
    print(f"action: {whole * 1e3:.2f} ms of wall time an action, of it {bare * 1e3:.2f} ms in the sandbox's exec: "
          f"overhead {(whole - bare) * 1e3:.2f} ms ({len(sandbox)} actions)")


def parallel():
    cores = os.cpu_count() or 1
    run = Run("--epochs", PARALLEL, "--max-samples", cores)
    print(f"parallel: {PARALLEL} samples in {run.wall:.1f} s; the program itself used {run.own_cpu:.2f} s of processor, "
          f"{100 * run.own_cpu / (run.wall * cores):.2f} % of the machine's time")


def memory():
    few, many = (Run("--epochs", n, "--max-samples", 4, "-p", "command=true") for n in (FEW, MANY))
    print(f"memory: peak {few.peak_mb:.1f} MB over {FEW} samples, {many.peak_mb:.1f} MB over {MANY} "
          f"(+{many.peak_mb - few.peak_mb:.1f} MB), {many.wall / MANY * 1e3:.0f} ms a sample")


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if not word.startswith("-")] or ["action", "parallel", "memory"]
    environment()
    for name in names:
        {"action": action, "parallel": parallel, "memory": memory}[name]()
