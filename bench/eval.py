#!/usr/bin/env python3
"""What the engine of `ct run eval` costs beside the sandboxes themselves.

usage: bench/eval.py [--smoke] [NAME ...]

Names: action, parallel, memory. All without any. Uses the release build of `ct` (CT_BINARY names another) and of the
example `bare` of ct-environment (BARE_BINARY), which does a sample's work in its sandbox with no engine around it: start,
the same commands, end, score. Both are run in turn, as often as ROUNDS says, and medians are told.

action    one sample of many commands that do nothing: wall time an action, with the engine and bare
parallel  100 samples of commands as agents run them, as many at once as there are processors: wall time with the engine and
          bare. The engine's part of the wall time is to be under 5 %
memory    peak memory of the program over 1,000 samples beside 50
--smoke runs everything once with few samples, to see that it runs at all.
"""
import json, os, resource, shutil, statistics, subprocess, sys, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CT = os.environ.get("CT_BINARY", str(TARGET / "release" / "ct"))
SMOKE = "--smoke" in sys.argv
WORK = ROOT / "target" / ("bench-eval-smoke" if SMOKE else "bench-eval")
BARE = os.environ.get("BARE_BINARY", str(TARGET / "release" / "examples" / "bare"))
ACTIONS, PARALLEL, FEW, MANY, ROUNDS = (5, 6, 2, 6, 1) if SMOKE else (200, 100, 50, 1000, 7)
# What an agent does: it looks, reads, writes, computes.
COMMANDS = ["ls -la /usr/share", "grep -rl license /usr/share/doc --include=copyright -m1 | head -20", "echo note >>notes.txt; wc notes.txt",
            "python3 -c 'print(sum(range(2000000)))'", "python3 -c 'import json, sys; print(json.dumps(dict.fromkeys(range(1000))))' | wc -c"]

FILES = {
    "environment.toml": "",
    "tasks/main/work/task.toml": "",
    "tasks/main/work/instruction.md": "Work.",
    "tasks/main/work/tests/test.sh": "exit 0\n",
    "tasks/main/work/solution/solve.sh": "true\n",
}


def environment():
    shutil.rmtree(WORK, ignore_errors=True)
    for name, text in FILES.items():
        path = WORK / "environments" / "bench" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Run:
    """One program run to its end: what it printed, its wall time, the processor time of it and all that it started, and what it
    used itself, children left out."""

    def __init__(self, command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
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
            try:
                # Seldom: every look takes time from a processor that is wanted elsewhere.
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                pass
        self.wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.result = json.loads(process.stdout.read())
        if process.returncode != 0:
            sys.exit(f"failed ({process.returncode}): {command}\n{self.result}")


def engine(*arguments):
    return Run([CT, "run", "eval", "--policy", "scripted", "-e", "bench", "-t", "work", "--no-upload", "--format", "json",
                *map(str, arguments)])


def bare(commands, samples, parallel):
    """The same without the engine."""
    return Run([BARE, str(WORK / "environments" / "bench"), "work", str(commands), str(samples), str(parallel)])


def beside(lines, samples, parallel):
    """Runs with the engine and bare, in turn."""
    commands = WORK / "commands.txt"
    commands.write_text("".join(f"{line}\n" for line in lines))
    engines, bares = [], []
    for _ in range(ROUNDS):
        engines.append(engine("-p", f"commands={commands}", "--epochs", samples, "--max-samples", parallel))
        bares.append(bare(commands, samples, parallel))
    return engines, bares


def median(runs, what):
    return statistics.median(getattr(run, what) for run in runs)


def action():
    engines, bares = beside(["true"] * ACTIONS, 1, 1)
    with_engine, alone = median(engines, "wall"), median(bares, "wall")
    print(f"action: {with_engine / ACTIONS * 1e3:.2f} ms of wall time with the engine, {alone / ACTIONS * 1e3:.2f} ms bare: "
          f"overhead {(with_engine - alone) / ACTIONS * 1e3:.2f} ms ({ACTIONS} actions)")


def parallel():
    cores = os.cpu_count() or 1
    engines, bares = beside(COMMANDS, PARALLEL, cores)
    overhead = {what: 100 * (1 - median(bares, what) / median(engines, what)) for what in ("wall", "cpu")}
    print(f"parallel: {PARALLEL} samples of {len(COMMANDS)} actions, {cores} at once, {ROUNDS} rounds: "
          f"{median(engines, 'wall'):.2f} s with the engine, {median(bares, 'wall'):.2f} s bare: "
          f"overhead {overhead['wall']:.1f} % of the wall time (wanted: under 5 %), {overhead['cpu']:.1f} % of the processor time; "
          f"the program itself used {median(engines, 'own_cpu'):.2f} s of processor, {median(bares, 'own_cpu'):.2f} s bare")


def memory():
    few, many = (engine("--epochs", n, "--max-samples", 4, "-p", "command=true") for n in (FEW, MANY))
    print(f"memory: peak {few.peak_mb:.1f} MB over {FEW} samples, {many.peak_mb:.1f} MB over {MANY} "
          f"(+{many.peak_mb - few.peak_mb:.1f} MB), {many.wall / MANY * 1e3:.0f} ms a sample")


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if not word.startswith("-")] or ["action", "parallel", "memory"]
    environment()
    if not Path(BARE).exists():
        subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "-p", "ct-environment", "--example", "bare"],
                       cwd=ROOT, check=True)
    for name in names:
        {"action": action, "parallel": parallel, "memory": memory}[name]()
