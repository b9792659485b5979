#!/usr/bin/env python3
"""Logs in a bucket beside logs in the data folder, on one machine, in one run.

usage: bench/s3.py [--smoke] [one] [many]

one: a log is put on a server, one sample of it is read, all are exported as a ZIP file: with the logs in the data folder, in a
bucket of SeaweedFS (`weed`, beside the Python of CT_TEST_PYTHON) on the same machine, and in one behind a connection that
counts. Time is that of the second, requests and bytes are those of the third; tests hold the latter exactly.
many: 10,000 small logs lie in a bucket, and runs are made of all of them; then again, when all are there already.
Both without any. Writes only below target/bench. --smoke does everything once, small.
"""
import http.client, io, json, os, shutil, socket, statistics, subprocess, sys, threading, time, zipfile
from pathlib import Path

import serve
from serve import CT, PYTHON, SMOKE, WORK, Server, control_log, fresh, run

SAMPLES, ACTIONS, OUTPUT_BYTES, READS, ROUNDS = (8, 5, 2_000, 3, 1) if SMOKE else (200, 40, 20_000, 20, 5)
MANY = 60 if SMOKE else 10_000
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret", "AWS_REGION": "us-east-1"}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Weed:
    def __init__(self, program):
        folder = fresh("weed")
        keys = {"identities": [{"name": "bench", "actions": ["Admin", "Read", "Write", "List", "Tagging"], "credentials": [
            {"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}]}]}
        (folder / "keys.json").write_text(json.dumps(keys))
        master, volume, filer, s3, *grpc = free_ports(8)
        self.process = subprocess.Popen(
            [program, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false",
             f"-master.port={master}", f"-master.port.grpc={grpc[0]}", f"-volume.port={volume}",
             f"-volume.port.grpc={grpc[1]}", "-volume.max=50", "-master.volumeSizeLimitMB=512", "-volume.preStopSeconds=0",
             "-filer", f"-filer.port={filer}", f"-filer.port.grpc={grpc[2]}", "-s3", f"-s3.port={s3}",
             f"-s3.port.grpc={grpc[3]}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false",
             f"-s3.config={folder / 'keys.json'}"],
            stdout=open(folder / "log", "wb"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.port, self.filer = s3, filer
        self.url = f"http://127.0.0.1:{s3}"
        make = ["curl", "-sS", "--fail", "--retry", "60", "--retry-delay", "1", "--retry-all-errors", "--aws-sigv4",
                "aws:amz:us-east-1:s3", "--user", ":".join([*KEYS.values()][:2]), "-X", "PUT", f"{self.url}/bench"]
        run(make)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Counter:
    """Passes connections on, and counts what goes through: requests, and bytes of bodies and heads alike."""

    def __init__(self, port):
        self.target, self.requests, self.bytes = port, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            service = socket.create_connection(("127.0.0.1", self.target))
            threading.Thread(target=self.copy, args=(client, service, True), daemon=True).start()
            threading.Thread(target=self.copy, args=(service, client, False), daemon=True).start()

    def copy(self, source, sink, asks):
        last = b""
        try:
            while piece := source.recv(1 << 16):
                self.bytes += len(piece)
                if asks:
                    seen = last + piece
                    self.requests += seen.count(b" HTTP/1.1\r\n")
                    last = seen[-10:]
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def take(self):
        taken = self.requests, self.bytes
        self.requests = self.bytes = 0
        return taken


def once(log, options, counter=None):
    """Seconds for each thing, and what it took where that is counted."""
    seconds, counts = {}, {}

    def timed(name, work):
        if counter:
            counter.take()
        start = time.perf_counter()
        done = work()
        seconds[name] = time.perf_counter() - start
        if counter:
            counts[name] = counter.take()
        return done

    with Server(fresh("s3-data"), *options) as server:
        timed("upload", lambda: run([CT, "runs", "make", log], server.client_env()))
        found = server.get("/api/runs?limit=1")["items"][0]["run_id"]
        ids = server.get(f"/api/trajectories?ids_only=true&run_id={found}&limit={READS}")["items"][:READS]
        for number, id in enumerate(ids):
            timed(f"sample {number}", lambda: server.get(f"/api/trajectories/{id}"))
        reads = [seconds.pop(f"sample {number}") for number in range(len(ids))]
        seconds["one sample"] = statistics.median(reads)
        if counter:
            taken = [counts.pop(f"sample {number}") for number in range(len(ids))]
            counts["one sample"] = max(taken)
        export = ["curl", "-sS", "--fail", "-o", "/dev/null", "-H", f"Authorization: Bearer {server.token}",
                  f"{server.url}/api/trajectories/zip?run_id={found}"]
        timed("ZIP export", lambda: run(export))
    return seconds, counts


def small_log(number):
    """A log of two samples, of an eval of its own."""
    eval_id = f"many-{number:05}"
    ids = ["a", "b"]
    header = {
        "version": 2, "status": "success", "plan": {"name": "plan", "steps": [], "config": {}},
        "eval": {"eval_id": eval_id, "run_id": eval_id, "created": "2026-11-30T08:00:00+00:00", "task": "many", "task_id": "many",
                 "dataset": {"name": "many", "samples": len(ids)}, "model": "mockllm/model", "config": {}},
        "stats": {"started_at": "", "completed_at": "", "model_usage": {}}}
    said = [{"role": "user", "content": "go on"}, {"role": "assistant", "content": f"{number} " * 200}]
    samples = [{"id": id, "epoch": 1, "input": "go on", "target": "", "messages": said, "scores": {"match": {"value": "C"}},
                "metadata": {}, "store": {}, "events": [], "model_usage": {}, "attachments": {}} for id in ids]
    bytes = io.BytesIO()
    with zipfile.ZipFile(bytes, "w", zipfile.ZIP_DEFLATED) as archive:
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        archive.writestr("header.json", json.dumps(header))
    return bytes.getvalue()


def put_logs(port, folder):
    """Puts the logs by the service's own door, which asks for no signature."""
    def put(numbers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for number in numbers:
            connection.request("PUT", f"/buckets/bench/{folder}/{number // 100:03}/log-{number:05}.eval", small_log(number))
            answer = connection.getresponse()
            answer.read()
            if answer.status not in (200, 201):
                failed.append(answer.status)
                return
    failed, workers = [], [threading.Thread(target=put, args=(range(first, MANY, 4),)) for first in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        sys.exit(f"the logs could not be put: {failed}")


def measured(command, env):
    """Seconds, peak memory in MB, and what it wrote."""
    start = time.perf_counter()
    with open(WORK / "many.out", "wb") as out, open(WORK / "many.err", "wb") as err:
        process = subprocess.Popen([str(word) for word in command], env={**os.environ, **env}, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"failed ({process.returncode}): {command}\n{(WORK / 'many.err').read_text()[-2000:]}")
    return time.perf_counter() - start, usage.ru_maxrss / 1000, (WORK / "many.out").read_text()


def many(service):
    put_logs(service.filer, "many")
    counter = Counter(service.port)
    os.environ["AWS_ENDPOINT_URL"] = counter.url
    env = {"CONTROL_TOWER_DATA_DIR": str(fresh("many-data"))}
    print(f"{MANY} logs of {len(small_log(0))} bytes in a bucket")
    print(f"{'':12} {'time':>10} {'a log':>9} {'requests':>9} {'a log':>6} {'MB':>8} {'peak MB':>8}")
    for name, status in (("first", "created"), ("again", "unchanged")):
        counter.take()
        seconds, peak, out = measured([CT, "runs", "make", "s3://bench/many/", "--format", "ndjson"], env)
        requests, size = counter.take()
        made = [json.loads(line)["status"] for line in out.splitlines()]
        if made != [status] * MANY:
            sys.exit(f"{name}: {len(made)} runs, {set(made)}")
        print(f"{name:12} {seconds:9.1f}s {seconds / MANY * 1000:7.2f}ms {requests:9} {requests / MANY:6.2f} {size / 1e6:8.2f} {peak:8.1f}")


def one(service):
    log = control_log("s3-smoke.eval" if SMOKE else "s3.eval", SAMPLES, ACTIONS, OUTPUT_BYTES)
    print(f"a log of {log.stat().st_size / 1e6:.1f} MB with {SAMPLES} samples, {ROUNDS} rounds, median")
    folder, bucket = [], []
    for number in range(ROUNDS):
        folder.append(once(log, [])[0])
        os.environ["AWS_ENDPOINT_URL"] = service.url
        bucket.append(once(log, ["--logs", f"s3://bench/round-{number}"])[0])
    counter = Counter(service.port)
    os.environ["AWS_ENDPOINT_URL"] = counter.url
    counts = once(log, ["--logs", "s3://bench/counted"], counter)[1]
    print(f"{'':12} {'folder':>10} {'bucket':>10} {'ratio':>6} {'requests':>9} {'MB':>8}")
    for name in ("upload", "one sample", "ZIP export"):
        here, there = (statistics.median(round[name] for round in rounds) for rounds in (folder, bucket))
        requests, size = counts[name]
        print(f"{name:12} {here * 1000:8.1f}ms {there * 1000:8.1f}ms {there / here:6.2f} {requests:9} {size / 1e6:8.2f}")


def main():
    weed = Path(PYTHON).with_name("weed")
    program = str(weed) if weed.exists() else shutil.which("weed")
    if not program:
        said = "NOT TESTED: logs in a bucket (no weed)"
        sys.exit(said) if os.environ.get("CI") else print(said, file=sys.stderr)
        return
    wanted = [word for word in sys.argv[1:] if word != "--smoke"]
    if not set(wanted) <= {"one", "many"}:
        sys.exit(__doc__)
    run(["cargo", "build", "--release", "--locked", "-p", "ct"], cwd=serve.ROOT)
    WORK.mkdir(parents=True, exist_ok=True)
    os.environ.update(KEYS)
    with Weed(program) as service:
        for name, bench in (("one", one), ("many", many)):
            if name in wanted or not wanted:
                bench(service)


if __name__ == "__main__":
    main()
