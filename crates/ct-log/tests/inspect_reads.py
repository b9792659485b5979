"""Reads logs with Inspect and compares them with the logs they were made from, read the same way.

usage: inspect_reads.py PAIRS.tsv

Each line of PAIRS.tsv: path of the new log, path of the original, and words that say what to expect:
  readable   the original need not be, but the new log must be
  opaque     Inspect can read neither (an event kind it does not know); only the header and the summaries are compared
  pools      the original has message pools that Inspect drops: samples are compared without events, whose inputs must be there
  damaged    samples of the original were lost: what is left is compared with the original where that can be read
  computed   the rows were made anew: they are compared with those that Inspect makes of the samples
Prints one line per difference; exits with 1 if there was any.
"""

import itertools
import json
import sys
import warnings

warnings.filterwarnings("ignore")

from inspect_ai._util.json import to_json_safe  # noqa: E402
from inspect_ai.log import (  # noqa: E402
    read_eval_log,
    read_eval_log_sample,
    read_eval_log_sample_summaries,
    read_eval_log_samples,
)

# Samples of a log that are read one by one.
SAMPLES_MAX = 6


def plain(model):
    """A model as what its JSON holds, with NaN equal to itself."""
    return json.loads(to_json_safe(model, indent=None), parse_constant=str, parse_float=str)


def attempt(read, *args, **kwargs):
    try:
        return read(*args, **kwargs), None
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error)[:300]}"


def made_up(path, value):
    """Whether Inspect made up an id or a time that the JSON log does not hold, and kept it for the next read."""
    name = path.rsplit(".", 1)[-1]
    return name in ("uuid", "id", "working_start") and "text" in known and str(value) not in known["text"]


def difference(a, b, again=None, path=""):
    """Where two plain values differ first. `again` is b read once more: Inspect makes up ids and times that are missing,
    new ones each time, and what b and again do not agree on is not compared."""
    if type(a) is not type(b):
        return f"{path}: {str(a)[:80]!r} != {str(b)[:80]!r}"
    if isinstance(a, dict):
        for key in list(a) + [k for k in b if k not in a]:
            if key not in a or key not in b:
                return f"{path}.{key}: only in one ({str(a.get(key, b.get(key)))[:80]!r})"
            if found := difference(a[key], b[key], again and again.get(key), f"{path}.{key}"):
                return found
    elif isinstance(a, list):
        if len(a) != len(b):
            return f"{path}: {len(a)} elements, not {len(b)}"
        for i, (x, y) in enumerate(zip(a, b)):
            if found := difference(x, y, again and again[i], f"{path}[{i}]"):
                return found
    elif a != b and (again is None or again == b) and not made_up(path, b):
        return f"{path}: {str(a)[:80]!r} != {str(b)[:80]!r}"
    return None


def header_of(log, with_reductions):
    header = plain(log)
    header.pop("samples", None)
    if not with_reductions:
        # A header read alone brings reductions or not, by the container.
        header.pop("reductions", None)
        (header.get("results") or {}).pop("sample_reductions", None)
    # Written where it was missing, so that samples can be streamed.
    header["eval"]["dataset"].pop("sample_ids", None)
    if header.get("version") == 3:
        header["version"] = 2
    return header


def samples_of(samples, expect):
    found = [plain(sample) for sample in samples or []]
    if "pools" in expect:
        for sample in found:
            sample.pop("events", None)
            sample.pop("events_data", None)
            sample.pop("attachments", None)
    return found


def first_samples(path, **kwargs):
    """The first samples of a stream. Of a JSON log Inspect reads all of it for each."""
    return list(itertools.islice(read_eval_log_samples(path, all_samples_required=False, **kwargs), SAMPLES_MAX))


# What the original gave, for the pairs that share it.
known = {}


def read_original(original, read, kwargs):
    key = (read.__name__, *sorted(kwargs.items()))
    if known.get("path") != original:
        known.clear()
        known["path"] = original
        if original.endswith(".json"):
            with open(original, encoding="utf-8", errors="replace") as file:
                known["text"] = file.read()
    if key not in known:
        known[key] = (*attempt(read, original, **kwargs), attempt(read, original, **kwargs)[0])
    return known[key]


def compare(ours, original, expect):
    def both(what, read, shape, **kwargs):
        theirs, error, again = read_original(original, read, kwargs)
        mine, failed = attempt(read, ours, **kwargs)
        if failed and (error is None or "readable" in expect):
            yield f"{what}: {failed}"
        elif error is None and "damaged" not in expect:
            if found := difference(shape(mine), shape(theirs), shape(again)):
                yield f"{what}: {found}"

    yield from both("header", read_eval_log, lambda log: header_of(log, False), header_only=True)
    if "opaque" not in expect:
        for resolve in (False, True):
            name = f"full, resolve_attachments={resolve}"
            yield from both(
                name,
                read_eval_log,
                lambda log: [header_of(log, True), samples_of(log.samples, expect)],
                resolve_attachments=resolve,
            )
            # Where a full read of the original fails, the stream may end early instead.
            if read_original(original, read_eval_log, {"resolve_attachments": resolve})[1] is None:
                yield from both(
                    f"samples, resolve_attachments={resolve}",
                    first_samples,
                    lambda samples: samples_of(samples, expect),
                    resolve_attachments=resolve,
                )

    log, error = attempt(read_eval_log, ours)
    if log is not None:
        logged, dataset = log.samples or [], log.eval.dataset
        if logged and not dataset.sample_ids:
            yield "the header does not list the samples"
        _, error = attempt(first_samples, ours)
        if error and logged:
            yield f"samples: {error}"
        if "pools" in expect:
            inputs = [len(e.input) for s in logged for e in s.events if e.event == "model"]
            if not inputs or not all(inputs):
                yield f"pools: inputs of model events {inputs}"
        for sample in logged[:SAMPLES_MAX]:
            for resolve in (False, True):
                yield from both(
                    f"sample {sample.id!r} {sample.epoch}",
                    read_eval_log_sample,
                    lambda s: samples_of([s], expect),
                    id=sample.id,
                    epoch=sample.epoch,
                    resolve_attachments=resolve,
                )

    rows, error = attempt(read_eval_log_sample_summaries, ours)
    if error:
        theirs, unreadable = attempt(read_eval_log_sample_summaries, original)
        if (unreadable is None or "readable" in expect) and not ("opaque" in expect and ours.endswith(".json")):
            yield f"summaries: {error}"
    elif ours.endswith(".eval") and "damaged" not in expect:
        theirs, unreadable = attempt(read_eval_log_sample_summaries, original)
        if "computed" in expect:
            if log is not None:
                made = {(str(s.id), s.epoch): plain(s.summary()) for s in log.samples or []}
                found = difference({(str(r.id), r.epoch): plain(r) for r in rows}, made)
                if found:
                    yield f"summaries: {found}"
        elif unreadable is None:
            order = lambda rows: sorted((plain(r) for r in rows), key=lambda r: (r["epoch"], str(r["id"])))
            if found := difference(order(rows), order(theirs)):
                yield f"summaries: {found}"
    if log is not None and rows is not None:
        for row in rows[:SAMPLES_MAX]:
            if row.uuid and log.samples:
                sample, error = attempt(read_eval_log_sample, ours, uuid=row.uuid)
                if error or sample.uuid != row.uuid:
                    yield f"by uuid: {error or sample.uuid}"


def main():
    pairs = differences = 0
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            ours, original, *expect = line.rstrip("\n").split("\t")
            pairs += 1
            for found in compare(ours, original, set(expect)):
                differences += 1
                print(f"{ours}: {found}", flush=True)
    print(f"{pairs} pairs, {differences} differences")
    sys.exit(1 if differences or not pairs else 0)


main()
