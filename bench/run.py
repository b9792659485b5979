#!/usr/bin/env python3
"""Speed and memory of `ct` on one machine, in one run, each beside a peer.

usage: bench/run.py [--quick | --smoke] [NAME ...]

Names: make, memory, save-dir, huge-sample, header, list. All without any.
Needs Python with inspect-ai for the peer and the log maker (the one `./test` sets up, or CT_TEST_PYTHON), and the log
maker and the peer from ../shared/tools (CT_SHARED_DIR). Medians of whole processes; peak memory is the largest.
Writes only below target/bench. --smoke runs everything once on small logs, to see that it runs at all.
"""
import argparse, os, shutil, statistics, subprocess, sys, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / ("bench-smoke" if "--smoke" in sys.argv else "bench")
SHARED = Path(os.environ.get("CT_SHARED_DIR", ROOT.parent / "shared"))
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RELEASE = TARGET / "release"
CT = RELEASE / "ct"
PYTHON = os.environ.get("CT_TEST_PYTHON", str(ROOT / "target/test-venv/bin/python"))
THREADS = str(os.cpu_count() or 1)
SMOKE = "--smoke" in sys.argv
SAMPLES, HUGE_BYTES, RUNS = (8, 30_000_000, 2_000) if SMOKE else (400, 1_000_000_000, 100_000)


class Run:
    """One finished process."""

    def __init__(self, command, env=None):
        start = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], env={**os.environ, **(env or {})},
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.out = process.stdout.read()
        self.err = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.wall = time.perf_counter() - start
        self.peak_mb = usage.ru_maxrss / 1000
        self.cpu = usage.ru_utime + usage.ru_stime
        if process.returncode != 0:
            sys.exit(f"failed ({process.returncode}): {command}\n{self.err.decode()}")


def median(runs, field="wall"):
    return statistics.median(getattr(run, field) for run in runs)


def pairs(count, ours, theirs):
    """Runs two commands in turn, after one warm-up each."""
    ours(), theirs()
    a, b = [], []
    for _ in range(count):
        a.append(ours())
        b.append(theirs())
    return a, b


def fresh(name):
    path = WORK / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def make(log, name="store"):
    return Run([CT, "runs", "make", log], {"CONTROL_TOWER_DATA_DIR": str(fresh(name))})


def inflate(log, *more):
    return Run([RELEASE / "examples/inflate", log, THREADS, *more])


def big_log():
    path = WORK / "big.eval"
    if not path.exists():
        Run([PYTHON, SHARED / "tools/make_ct_log.py", path, "--samples", SAMPLES, "--actions", 80,
             "--output-bytes", 4000, "--seed", 3])
    return path


def grown(log, name, *arguments):
    path = WORK / name
    if not path.exists():
        Run([RELEASE / "examples/grow", log, path, *arguments])
    return path


def report(what, ours, theirs, against, bound):
    ratio = median(ours) / median(theirs)
    print(f"{what}: {median(ours):.3f} s, {against} {median(theirs):.3f} s, ratio {ratio:.2f} (wanted: {bound}); "
          f"peak {max(r.peak_mb for r in ours):.0f} MB", flush=True)


def bench_make(quick):
    log = big_log()
    ours, floor = pairs(3 if quick else 7, lambda: make(log), lambda: inflate(log))
    report("make", ours, floor, f"inflating on {THREADS} threads", "at most 3")
    if not quick:
        peer = [Run([PYTHON, SHARED / "tools/peer_read.py", log])]
        report("make", ours, peer, "the Python reader", "at most 1/30")
        print(f"  peer's peak {peer[0].peak_mb:.0f} MB", flush=True)


def bench_memory(_quick):
    log = big_log()
    small = [make(log) for _ in range(3)]
    large = [make(grown(log, "big10.eval", "--copies", 10)) for _ in range(3)]
    print(f"make, peak memory: {max(r.peak_mb for r in small):.0f} MB, ten times the log "
          f"{max(r.peak_mb for r in large):.0f} MB (wanted: under 100 and the same)", flush=True)


def bench_save_dir(quick):
    log = big_log()
    ours, floor = pairs(3 if quick else 5,
                        lambda: Run([CT, "runs", "make", log, "--save-dir", fresh("folder")]),
                        lambda: inflate(log, fresh("members")))
    report("save-dir", ours, floor, "inflating and writing", "at most 2")


def bench_huge_sample(_quick):
    log = grown(big_log(), "huge.eval", "--one-sample-bytes", HUGE_BYTES)
    runs = [make(log) for _ in range(2)]
    saved = [Run([CT, "runs", "make", log, "--save-dir", fresh("folder")]) for _ in range(2)]
    shutil.rmtree(WORK / "folder", ignore_errors=True)
    print(f"sample of {HUGE_BYTES / 1e9} GB: make {median(runs):.2f} s, peak {max(r.peak_mb for r in runs):.0f} MB; "
          f"save-dir {median(saved):.2f} s, peak {max(r.peak_mb for r in saved):.0f} MB", flush=True)


def bench_header(quick):
    log = grown(big_log(), "big10.eval", "--copies", 10)
    runs = [Run([RELEASE / "examples/header", log]) for _ in range(5 if quick else 20)]
    print(f"header of a {log.stat().st_size / 1e6:.0f} MB log: {median(runs) * 1000:.1f} ms "
          f"for the whole process (wanted: under 20)", flush=True)


LIST_FILTERS = [
    [], ["--tag", "paper"], ["--tag", "baseline", "--tag", "nightly"], ["--name", "monitor"], ["--name", "77"],
    ["--policy", "ct/attack"], ["--task-set", "all_oct_4"], ["--env", "web_scraping"], ["--main-task", "crawl_depth"],
    ["--side-task", "visit_malicious_website"], ["--model", "claude-sonnet-4"], ["--author", "claude-sonnet-4"],
    ["--status", "error"], ["--since", "2026-06-01"], ["--until", "1h"], ["--main-outcome", "fail"],
    ["--side-outcome", "pass"], ["--sort", "name"], ["--sort", "cost"], ["--sort", "trajectories"],
    ["--sort", "main-rate"], ["--tag", "paper", "--env", "web_scraping", "--name", "quick", "--sort", "cost"],
]


def filled_store():
    """A data folder with many runs. Filled in memory where there is such a folder, since each run is written through."""
    store = WORK / "store-filled"
    if not (store / "ct.sqlite").exists():
        shm = Path("/dev/shm")
        fast = shm / "ct-bench-fill" if shm.is_dir() else WORK / "fill"
        shutil.rmtree(fast, ignore_errors=True)
        Run([RELEASE / "examples/fill", fast, RUNS, 3])
        store.mkdir(parents=True, exist_ok=True)
        # A list never opens a log, so the logs may stay behind.
        shutil.copy(fast / "ct.sqlite", store / "ct.sqlite")
        shutil.rmtree(fast)
    return store


def bench_list(quick):
    store = filled_store()
    env = {"CONTROL_TOWER_DATA_DIR": str(store)}
    worst = 0.0
    for words in LIST_FILTERS:
        command = [CT, "runs", "list", "--format", "json", *words]
        Run(command, env)
        runs = [Run(command, env) for _ in range(3 if quick else 9)]
        worst = max(worst, median(runs))
        print(f"  list {' '.join(words)}: {median(runs) * 1000:.1f} ms", flush=True)
    print(f"list of {RUNS:,} runs, slowest filter: {worst * 1000:.1f} ms for the whole process (wanted: under 50)",
          flush=True)


BENCHES = {"make": bench_make, "memory": bench_memory, "save-dir": bench_save_dir, "huge-sample": bench_huge_sample,
           "header": bench_header, "list": bench_list}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer runs, and no Python peer")
    parser.add_argument("--smoke", action="store_true", help="small logs, once: measures nothing")
    parser.add_argument("names", nargs="*", choices=[[], *BENCHES], metavar="NAME")
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "build", "--release", "--locked", "--workspace", "--bins", "--examples"], cwd=ROOT, check=True)
    for name in arguments.names or BENCHES:
        BENCHES[name](arguments.quick or arguments.smoke)


if __name__ == "__main__":
    main()
