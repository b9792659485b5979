#!/usr/bin/env python3
"""How long `ct serve` takes for each page, with 100,000 runs behind it.

usage: bench/pages.py [--smoke]

A store of 100,000 runs with 10 trajectories each is made by the example `fill` below target/bench, and kept there
(CT_BENCH_STORE names another one). So is one of a single run with 100,000 trajectories. Each page is asked for again and again by one reader on the loopback; the time is
until its last byte, the first time apart, when nothing is remembered. Says which pages take more than 100 ms.
Then the transcript of one sample of 20,000 actions and half a gigabyte: how long its first screen takes while the
sample is still being inflated, when it is read to its end, what a piece from anywhere takes then, and a search through
all of it; and the memory that the server took.
--smoke asks each page once or twice, of 300 runs, and only sees that it is answered.
"""
import http.client, json, os, re, shutil, statistics, subprocess, sys, time, urllib.parse
from contextlib import contextmanager
from pathlib import Path

from filled import filled

ROOT = Path(__file__).resolve().parent.parent
SMOKE = "--smoke" in sys.argv
WORK = ROOT / "target" / ("bench-smoke" if SMOKE else "bench")
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROFILE = os.environ.get("CT_BENCH_PROFILE", "release")
CT = TARGET / PROFILE / "ct"
RUNS, TRAJECTORIES_PER_RUN = (300, 10) if SMOKE else (100_000, 10)
LARGE_RUN = 5_000 if SMOKE else 100_000
TIMES = 2 if SMOKE else 15
MS_MAX = 100
PASSWORD = "a long password"


def store(runs, trajectories_per_run):
    profile = ["--release"] if PROFILE == "release" else []
    subprocess.run(["cargo", "build", "-q", *profile, "-p", "ct-store", "--example", "fill"], check=True, cwd=ROOT)
    path = WORK / f"store-{runs}" if runs > 1 else WORK / f"store-of-{trajectories_per_run}"
    return filled(path, TARGET / PROFILE / "examples/fill", runs, trajectories_per_run)


class Reader:
    """Signed in as a browser is."""

    def __init__(self, url):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)
        self.cookies = {}

    def ask(self, method, path, fields=None):
        headers = {"accept": "text/html", "cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        body = None
        if fields is not None:
            body = urllib.parse.urlencode(fields)
            headers["content-type"] = "application/x-www-form-urlencoded"
        self.connection.request(method, path, body=body, headers=headers)
        answer = self.connection.getresponse()
        text = answer.read().decode()
        for cookie in answer.headers.get_all("set-cookie") or []:
            name, value = cookie.split(";")[0].split("=", 1)
            self.cookies[name] = value
        return answer.status, text

    def sign_in(self):
        _, text = self.ask("GET", "/login")
        proof = re.search(r'name="csrf" value="([^"]+)"', text)[1]
        fields = {"csrf": proof, "username": "bench", "password": PASSWORD, "next": "/"}
        status, _ = self.ask("POST", "/login", fields)
        assert status == 303, status

    def get(self, path):
        status, text = self.ask("GET", path)
        if status != 200:
            sys.exit(f"GET {path}: {status}\n{text[:500]}")
        return text


@contextmanager
def served(data):
    """Someone signed in to a server over a data folder."""
    environment = {**os.environ, "CONTROL_TOWER_DATA_DIR": str(data)}
    subprocess.run([CT, "users", "add", "bench", "--password-stdin"], env=environment, input=PASSWORD + "\n", text=True,
                   capture_output=True)
    process = subprocess.Popen([CT, "serve", "--bind", "127.0.0.1:0", "--private", "--format", "json"], env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        reader = Reader(json.loads(process.stdout.readline())["listening"])
        reader.sign_in()
        yield reader
    finally:
        process.terminate()
        process.wait()


def main():
    named = os.environ.get("CT_BENCH_STORE")
    with served(Path(named) if named and not SMOKE else store(RUNS, TRAJECTORIES_PER_RUN)) as reader:
        slow = measure(reader, pages_of_many(reader))
    with served(store(1, LARGE_RUN)) as reader:
        print(f"of one run with {LARGE_RUN:,} trajectories:")
        slow += measure(reader, pages_of_one(reader))
    if not SMOKE:
        print(f"over {MS_MAX} ms: {', '.join(slow) if slow else 'none'}")
    transcript()


def runs_of(reader):
    return re.findall(r'href="(/runs/[0-9a-f]{32})"', reader.get("/runs"))


def pages_of_many(reader):
    runs = runs_of(reader)
    following = re.findall(r'rel="next" href="([^"]+)"', reader.get("/runs"))
    following += re.findall(r'rel="next" href="([^"]+)"', reader.get("/trajectories?sort=suspicion"))
    return [
        "/", "/runs", "/runs?name=night", "/runs?policy=ct/attack&tags=baseline", "/runs?environment=slack_clone&status=error",
        "/runs?main_outcome=pass&side_outcome=pass", "/runs?created_from=2020-01-01&model=claude-sonnet-4",
        "/runs?sort=name&descending=false", "/runs?sort=cost", "/runs?sort=main_rate&policy=honest",
        "/runs?name=nothing-is-called-like-this", "/runs?name=o", runs[0], f"{runs[1]}?main_outcome=pass",
        f"{runs[1]}?sort=cost", f"{runs[2]}/trajectories.csv",
        "/trajectories", "/trajectories?environment=slack_clone&errored=true",
        "/trajectories?main_outcome=pass&side_outcome=fail&tag=paper", "/trajectories?versioned_dataset=tenth",
        "/trajectories?sort=suspicion", "/trajectories?sort=cost&descending=false&has_side_task=false",
        "/trajectories?policy=attack&status=success&model=gpt-4o-2024-08-06&sort=duration",
        "/trajectories?run_name=night&created_from=2020-01-01&author=claude-sonnet-4",
        "/datasets", "/datasets/tenth", "/datasets/tenth?version=1&main_outcome=pass&sort=actions", "/settings/tokens",
        *[address.replace("&amp;", "&") for address in following],
    ]


def pages_of_one(reader):
    [run] = set(runs_of(reader))
    return [run, f"{run}?sort=suspicion", f"{run}?main_outcome=pass&has_side_task=false&sort=cost", f"{run}?errored=true",
            "/runs", "/trajectories?sort=started"]


def measure(reader, pages):
    """Asks for each page again and again; tells which are slow."""
    slow = []
    print(f"{'page':<66} {'first':>8} {'median':>8} {'worst':>8}   in ms {'kB':>5}")
    for page in pages:
        times = []
        for _ in range(TIMES + 1):
            start = time.perf_counter()
            text = reader.get(page)
            times.append((time.perf_counter() - start) * 1000)
        first, rest = times[0], times[1:]
        shown = re.sub(r"[0-9a-f]{32}", "<id>", page)[:64]
        print(f"{shown:<66} {first:8.1f} {statistics.median(rest):8.1f} {max(rest):8.1f}         {len(text) / 1000:5.0f}")
        if statistics.median(rest) > MS_MAX or first > MS_MAX:
            slow.append(shown)
    return slow


def transcript():
    sys.path.insert(0, str(ROOT / "tests" / "browser"))
    import transcripts

    actions, output_bytes = (400, 1_000) if SMOKE else (20_000, 12_000)
    data = WORK / "transcript"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    environment = {**os.environ, "CONTROL_TOWER_DATA_DIR": str(data / "store")}
    log = transcripts.huge(data / "huge.eval", actions, output_bytes)
    subprocess.run([CT, "--local", "runs", "make", "--quiet", log], env=environment, check=True, cwd=data,
                   stdout=subprocess.DEVNULL)
    subprocess.run([CT, "users", "add", "bench", "--password-stdin"], env=environment, input=PASSWORD + "\n", text=True,
                   check=True, capture_output=True)
    process = subprocess.Popen([CT, "serve", "--bind", "127.0.0.1:0", "--private", "--format", "json"], env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        reader = Reader(json.loads(process.stdout.readline())["listening"])
        reader.sign_in()
        [found] = json.loads(reader.get("/api/trajectories?ids_only=true"))["items"]
        page = f"/trajectories/{found}"
        start = time.perf_counter()
        text = reader.get(page)
        first = time.perf_counter() - start
        assert 'id="action-0"' in text, "the first screen has no action"
        while not json.loads(reader.get(f"{page}/state"))["complete"]:
            time.sleep(0.02)
        whole = time.perf_counter() - start
        pieces = []
        for turn in range(30):
            begin = time.perf_counter()
            piece = reader.get(f"{page}/steps?action={(turn * 7919) % actions}")
            pieces.append((time.perf_counter() - begin) * 1000)
            assert f'id="action-{(turn * 7919) % actions}"' in piece
        begin, following, hits = time.perf_counter(), 0, 0
        while following is not None:
            answer = json.loads(reader.get(f"{page}/find?q=nowhere-to-be-found&from={following}"))
            following, hits = answer["next"], hits + len(answer["hits"])
        search = time.perf_counter() - begin
        peak = next(int(line.split()[1]) >> 10 for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
                    if line.startswith("VmHWM"))
        print(f"\na transcript of {actions} actions, {len(text) // 1000} kB of HTML at first: first screen {first * 1000:.0f} ms, "
              f"read to its end after {whole * 1000:.0f} ms, a piece from anywhere {statistics.median(pieces):.1f} ms "
              f"(worst {max(pieces):.1f}), searched through in {search * 1000:.0f} ms, server's peak memory {peak} MiB")
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
