#!/usr/bin/env python3
"""Speed and memory of `ct serve` and of the client, on one machine, in one run.

usage: bench/serve.py [--smoke] [NAME ...]

Names: upload, register, sample, lists, load. All without any.
upload puts a 2 GB log on a server of ours and, with `curl -T`, on nginx with DAV (skipped aloud where it is missing).
register posts 10,000 documents in batches as the protocol has it. sample reads one sample of a 1 GB log.
lists asks a store of 100,000 runs and 1,000,000 trajectories with 16 clients (CT_BENCH_STORE names a store made by the
example `fill`; without, one is made, in some minutes, and kept). load uploads, exports and lists together for two minutes.
Servers listen on loopback. Writes only below target/bench. --smoke does everything once, small.
"""
import argparse, datetime, http.client, json, multiprocessing, os, random, resource, shutil, statistics, subprocess, sys, threading, time
from pathlib import Path
from urllib.parse import urlsplit

from filled import filled

ROOT = Path(__file__).resolve().parent.parent
SMOKE = "--smoke" in sys.argv
ONCE = bool(os.environ.get("CT_BENCH_ONCE"))
WORK = ROOT / "target" / ("bench-smoke" if SMOKE else "bench")
SHARED = Path(os.environ.get("CT_SHARED_DIR", ROOT.parent / "shared"))
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CT = TARGET / "release/ct"
PYTHON = os.environ.get("CT_TEST_PYTHON", str(ROOT / "target/test-venv/bin/python"))
UPLOAD_BYTES = 20_000_000 if SMOKE else 2_000_000_000
HUGE_BYTES = 30_000_000 if SMOKE else 1_000_000_000
DOCUMENTS = 200 if SMOKE else 10_000
RUNS, TRAJECTORIES_PER_RUN = (300, 10) if SMOKE else (100_000, 10)
LIST_SECONDS, LOAD_SECONDS = (0.3, 3) if SMOKE else (4, 120)
CLIENTS = 16
MEMORY_BYTES = 256_000_000


def run(command, env=None, **options):
    done = subprocess.run([str(word) for word in command], env={**os.environ, **(env or {})}, capture_output=True, **options)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {command}\n{done.stderr.decode()}")
    return done


def fresh(name):
    path = WORK / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def limit_memory():
    """Of the process that is about to start: memory of its own, however it gets it."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def peak_mb(pid):
    """Largest resident size of a process so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1000
    return 0.0


class Server:
    """`ct serve` over a data folder, with a token that may write."""

    def __init__(self, data_dir, *options, limited=False):
        self.env = {"CONTROL_TOWER_DATA_DIR": str(data_dir), "XDG_CACHE_HOME": str(WORK / "cache")}
        # A store that was kept has the account; signing in tells whether there is one.
        subprocess.run([CT, "users", "add", "bench", "--scope", "admin", "--password-stdin"], env={**os.environ, **self.env},
                       input=b"a long password\n", capture_output=True)
        self.process = subprocess.Popen([CT, "serve", "--bind", "127.0.0.1:0", "--private", "--format", "json", *options],
                                        env={**os.environ, **self.env}, stdout=subprocess.PIPE,
                                        stderr=open(WORK / "serve.log", "ab"), preexec_fn=limit_memory if limited else None)
        self.url = json.loads(self.process.stdout.readline())["listening"]
        self.token = self.post("/api/auth/login", {"username": "bench", "password": "a long password"})["token"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def connection(self):
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)

    def headers(self):
        return {"authorization": f"Bearer {self.token}"} if hasattr(self, "token") else {}

    def get(self, path, connection=None):
        connection = connection or self.connection()
        connection.request("GET", path, headers=self.headers())
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            sys.exit(f"GET {path}: {answer.status} {body[:300]}")
        return json.loads(body)

    def post(self, path, document, connection=None):
        connection = connection or self.connection()
        body = document if isinstance(document, bytes) else json.dumps(document)
        connection.request("POST", path, body, {"content-type": "application/json", **self.headers()})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            sys.exit(f"POST {path}: {answer.status} {body[:300]}")
        return json.loads(body)

    def client_env(self):
        return {"CONTROL_TOWER_API_BASE_URL": self.url, "CONTROL_TOWER_API_TOKEN": self.token}


def control_log(name, samples, actions, output_bytes):
    path = WORK / name
    if not path.exists():
        run([PYTHON, SHARED / "tools/make_ct_log.py", path, "--samples", samples, "--actions", actions,
             "--output-bytes", output_bytes, "--seed", 5])
    return path


def upload_log():
    """A log of the wanted size, most of it a member that does not compress."""
    import zipfile
    path = WORK / "upload.eval"
    if not path.exists():
        small = control_log("small.eval", 4, 5, 100)
        shutil.copy(small, path)
        with zipfile.ZipFile(path, "a") as target:
            chunk = random.Random(1).randbytes(1 << 20)
            with target.open(zipfile.ZipInfo("attachment.bin"), "w", force_zip64=True) as member:
                for _ in range(UPLOAD_BYTES // len(chunk)):
                    member.write(chunk)
    return path


NGINX = """
daemon off; worker_processes 1; pid {work}/nginx.pid; error_log {work}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {work}/body; proxy_temp_path {work}/p; fastcgi_temp_path {work}/f;
  uwsgi_temp_path {work}/u; scgi_temp_path {work}/s;
  server {{
    listen 127.0.0.1:{port}; root {work}/files; client_max_body_size 0;
    location / {{ dav_methods PUT DELETE; create_full_put_path on; }}
  }}
}}
user root;
"""


def bench_upload():
    log = upload_log()
    size = log.stat().st_size
    nginx_work = fresh("nginx")
    (nginx_work / "files").mkdir()
    have_nginx = shutil.which("nginx") and shutil.which("curl")
    nginx = None
    if have_nginx:
        port = 18231
        (nginx_work / "nginx.conf").write_text(NGINX.format(work=nginx_work, port=port))
        nginx = subprocess.Popen(["nginx", "-c", str(nginx_work / "nginx.conf")], stderr=subprocess.DEVNULL)
        time.sleep(1)
    else:
        print("NOT MEASURED: the peer of upload needs nginx with DAV and curl", flush=True)
    ours, ours_through, theirs, theirs_through, client_peak, server_peak = [], [], [], [], 0.0, 0.0
    try:
        for _ in range(1 if SMOKE or ONCE else 3):
            # The disk has nothing else to do when either begins.
            os.sync()
            with Server(fresh("upload-store"), limited=True) as server:
                began, start = time.time(), time.perf_counter()
                client = subprocess.Popen([CT, "runs", "make", log], env={**os.environ, **server.client_env()},
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit_memory)
                said = client.stderr.read()
                _, status, usage = os.wait4(client.pid, 0)
                client.returncode = os.waitstatus_to_exitcode(status)
                if client.returncode != 0:
                    sys.exit(f"upload failed: {said.decode()}")
                ours_through.append(time.perf_counter() - start)
                # The command goes on to register the run, which waits for the disk; the audit log tells when the log was there.
                uploaded = next(row for row in server.get("/api/audit")["items"] if row["action"] == "log.upload")
                ours.append(datetime.datetime.fromisoformat(uploaded["made_at"]).timestamp() - began)
                client_peak = max(client_peak, usage.ru_maxrss / 1000)
                server_peak = max(server_peak, peak_mb(server.process.pid))
            shutil.rmtree(WORK / "upload-store", ignore_errors=True)
            if nginx:
                os.sync()
                start = time.perf_counter()
                run(["curl", "-sf", "-T", log, f"http://127.0.0.1:{port}/upload.eval"])
                theirs.append(time.perf_counter() - start)
                run(["sync", nginx_work / "files/upload.eval"])
                theirs_through.append(time.perf_counter() - start)
                (nginx_work / "files/upload.eval").unlink()
    finally:
        if nginx:
            nginx.terminate()
            nginx.wait()

    def line(what, ours, theirs, wanted):
        text = f"upload of {size / 1e9:.2f} GB, {what}: {statistics.median(ours):.2f} s"
        if theirs:
            ratio = statistics.median(ours) / statistics.median(theirs)
            text += f"; curl to nginx {statistics.median(theirs):.2f} s, ratio {ratio:.2f}{wanted}"
        print(text, flush=True)

    line("hashed and verified", ours, theirs, " (wanted: at most 1.5)")
    line("registered and through to the disk", ours_through, theirs_through, "")
    print(f"peak client {client_peak:.0f} MB, server {server_peak:.0f} MB, each held to {MEMORY_BYTES / 1e6:.0f}", flush=True)


def bench_register():
    log = control_log("many.eval", DOCUMENTS, 2, 100)
    with Server(fresh("register-from")) as source:
        run([CT, "--local", "runs", "make", log], source.env)
        run_id = source.get("/api/runs?limit=1")["items"][0]["run_id"]
        header = source.get(f"/api/runs/{run_id}")
        documents, page = [], 1
        while True:
            answer = source.get(f"/api/trajectories?documents=true&run_id={run_id}&page={page}")
            documents += answer["items"]
            if not answer["items"] or len(documents) >= answer["total_count"]:
                break
            page += 1
    with Server(fresh("register-to")) as target:
        size = log.stat().st_size
        plan = target.post("/api/eval-logs/upload", {"filename": f"{run_id}.eval", "size_bytes": size})
        connection = target.connection()
        connection.request("PUT", plan["url"][len(target.url):], log.read_bytes(), {"if-none-match": "*"})
        answer = connection.getresponse()
        if answer.status != 200:
            sys.exit(f"PUT of the log: {answer.status} {answer.read()[:300]}")
        answer.read()
        batches = [documents[i:i + 50] for i in range(0, len(documents), 50)]
        bodies = []
        for number, batch in enumerate(batches):
            body = {"client": "control-tower", "schema_version": 3, "trajectories": batch}
            if number + 1 == len(batches):
                body |= {"run": header, "eval_log_sizes": {f"{run_id}.eval": size}}
            bodies.append(json.dumps(body).encode())
        bytes_total = sum(map(len, bodies))
        start = time.perf_counter()
        for body in bodies:
            target.post("/api/trajectories/register", body, connection)
        wall = time.perf_counter() - start
        count = target.get(f"/api/runs/{run_id}")["trajectory_count"]
        if count != len(documents):
            sys.exit(f"{count} of {len(documents)} documents were registered")
        print(f"registration of {len(documents):,} documents ({bytes_total / 1e6:.0f} MB): {len(documents) / wall:,.0f} a second "
              f"(wanted: at least 5,000); peak {peak_mb(target.process.pid):.0f} MB", flush=True)


def bench_sample():
    log = WORK / "huge.eval"
    if not log.exists():
        run([TARGET / "release/examples/grow", control_log("small.eval", 4, 5, 100), log, "--one-sample-bytes", HUGE_BYTES])
    with Server(fresh("sample-store")) as server:
        run([CT, "--local", "runs", "make", log], server.env)
        rows = server.get("/api/trajectories?page_size=100")["items"]
        ids = [row["trajectory_id"] for row in rows]
        firsts, sizes = [], set()
        for _ in range(3 if SMOKE else 15):
            connection = server.connection()
            connection.connect()
            start = time.perf_counter()
            connection.request("GET", f"/api/trajectories/{ids[-1]}", headers=server.headers())
            answer = connection.getresponse()
            answer.read(1)
            firsts.append(time.perf_counter() - start)
            sizes.add(1 + len(answer.read()))
        print(f"a sample of {max(sizes) / 1e9:.2f} GB: first byte after "
              f"{statistics.median(firsts) * 1000:.1f} ms (wanted: under 30); peak {peak_mb(server.process.pid):.0f} MB", flush=True)
        start = time.perf_counter()
        total = 0
        connection = server.connection()
        connection.request("GET", f"/api/trajectories/zip?run_id={rows[0]['run_id']}", headers=server.headers())
        answer = connection.getresponse()
        while piece := answer.read(1 << 20):
            total += len(piece)
        print(f"ZIP of all of it: {total / 1e6:.0f} MB in {time.perf_counter() - start:.2f} s; peak {peak_mb(server.process.pid):.0f} MB",
              flush=True)


LISTS = ["/api/runs?page_size=50", "/api/runs?tags_include=paper", "/api/runs?view=row&name=monitor&page_size=50",
         "/api/runs?view=row&name=o&page_size=50", "/api/runs?view=row&name=99999&page_size=50",
         "/api/runs?view=row&policy=ct/attack&sort=cost&page_size=50", "/api/runs?view=row&status=error&page_size=50",
         "/api/trajectories?page_size=50", "/api/trajectories?environment=web_scraping",
         "/api/trajectories?main_task=crawl_depth&main_task_outcome=fail", "/api/trajectories?side_task_outcome=pass",
         "/api/trajectories?tag=paper", "/api/trajectories?ids_only=true&page_size=500",
         "/api/trajectories?model=gpt-4o-2024-08-06&author=gpt-4o-2024-08-06", "/api/trajectories?has_side_task=false",
         "/api/trajectories?policy=honest&status=success", "/api/trajectories?run_name=monitor&created_from=2020-01-01",
         "/api/trajectories?sort=cost", "/api/trajectories?sort=started&descending=false&page_size=200",
         "/api/trajectories?sort=suspicion&has_side_task=false&policy=attack",
         "/api/trajectories?sort=duration&side_task_outcome=pass&tag=paper&errored=false",
         "/api/runs?view=row&sort=policy&descending=false&page_size=50", "/api/runs?view=row&sort=status&policy=honest&page_size=50",
         "/api/trajectories?sort=main_task&descending=false", "/api/trajectories?sort=policy&main_task_outcome=pass"]


def ask(url, token, path, seconds, times):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    end = time.perf_counter() + seconds
    found = []
    while time.perf_counter() < end:
        start = time.perf_counter()
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            sys.exit(f"GET {path}: {answer.status}")
        found.append(time.perf_counter() - start)
    times.put(found)


def filled_store():
    given = os.environ.get("CT_BENCH_STORE")
    if given:
        return Path(given)
    return filled(WORK / f"store-{RUNS}", TARGET / "release/examples/fill", RUNS, TRAJECTORIES_PER_RUN)


def bench_lists():
    worst = 0.0
    with Server(filled_store()) as server:
        for path in LISTS:
            first = server.get(path)
            last = max(1, -(-first["total_count"] // first["page_size"]))
            for page in sorted({1, last}):
                full = f"{path}{'&' if '?' in path else '?'}page={page}"
                times = multiprocessing.Queue()
                workers = [multiprocessing.Process(target=ask, args=(server.url, server.token, full, LIST_SECONDS, times))
                           for _ in range(CLIENTS)]
                for worker in workers:
                    worker.start()
                all_times = sorted(sum((times.get() for _ in workers), []))
                for worker in workers:
                    worker.join()
                p99 = all_times[int(len(all_times) * 0.99) - 1] * 1000
                worst = max(worst, p99)
                print(f"  {full}: {len(all_times)} answers, median {statistics.median(all_times) * 1000:.1f} ms, "
                      f"p99 {p99:.1f} ms", flush=True)
        print(f"lists with {CLIENTS} clients, slowest p99: {worst:.1f} ms (wanted: under 100); "
              f"peak {peak_mb(server.process.pid):.0f} MB", flush=True)


def bench_load():
    """16 uploads, 16 ZIP exports and 64 list clients together."""
    log = control_log("load.eval", 40, 20, 2000)
    logs = []
    for number in range(16):
        copy = WORK / f"load-{number}.eval"
        shutil.copy(log, copy)
        import zipfile
        with zipfile.ZipFile(copy, "a") as archive:
            archive.comment = f"copy {number}".encode()
        logs.append(copy)
    end = time.monotonic() + LOAD_SECONDS
    errors, done = [], {"uploads": 0, "exports": 0, "lists": 0}
    lock = threading.Lock()

    def count(name):
        with lock:
            done[name] += 1

    with Server(fresh("load-store")) as server:
        run([CT, "runs", "make", log], server.client_env())
        run_id = server.get("/api/runs?limit=1")["items"][0]["run_id"]

        def uploads(path):
            round_number = 0
            while time.monotonic() < end:
                import zipfile
                with zipfile.ZipFile(path, "a") as archive:
                    archive.comment = f"{path.name} {round_number}".encode()
                round_number += 1
                result = subprocess.run([str(CT), "runs", "make", str(path), "--as-new"], capture_output=True,
                                        env={**os.environ, **server.client_env()})
                if result.returncode != 0:
                    errors.append(result.stderr.decode()[-300:])
                    return
                count("uploads")

        def exports():
            while time.monotonic() < end:
                connection = server.connection()
                connection.request("GET", f"/api/trajectories/zip?run_id={run_id}", headers=server.headers())
                answer = connection.getresponse()
                while answer.read(1 << 20):
                    pass
                if answer.status != 200:
                    errors.append(f"zip: {answer.status}")
                    return
                count("exports")

        def lists():
            connection = server.connection()
            while time.monotonic() < end:
                try:
                    server.get("/api/trajectories?page_size=50", connection)
                except BaseException as error:
                    errors.append(f"list: {error!r}")
                    return
                count("lists")

        threads = [threading.Thread(target=uploads, args=(path,)) for path in logs]
        threads += [threading.Thread(target=exports) for _ in range(16)]
        threads += [threading.Thread(target=lists) for _ in range(64)]
        for thread in threads:
            thread.start()
        peaks = []
        while any(thread.is_alive() for thread in threads):
            time.sleep(LOAD_SECONDS / 12)
            resident = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096 / 1e6
            peaks.append(resident)
        print(f"load for {LOAD_SECONDS} s: {done}, {len(errors)} errors; resident MB over time "
              f"{' '.join(f'{peak:.0f}' for peak in peaks)}", flush=True)
        for error in errors[:5]:
            print("  ", error)
        if errors:
            sys.exit(1)


BENCHES = {"upload": bench_upload, "register": bench_register, "sample": bench_sample, "lists": bench_lists, "load": bench_load}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="everything once and small: measures nothing")
    parser.add_argument("names", nargs="*", choices=[[], *BENCHES], metavar="NAME")
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "build", "--release", "--locked", "--workspace", "--bins", "--examples"], cwd=ROOT, check=True)
    for name in arguments.names or BENCHES:
        BENCHES[name]()


if __name__ == "__main__":
    main()
