"""Compares prices.csv with the shop's goods."""
import json
import pathlib

GOODS = {"kettle": 2490, "lamp": 1850, "chair": 6400, "mug": 790, "desk": 15900, "clock": 3275, "rug": 8800}
EXPECTED = ["name,price_cents"] + [f"{name},{cents}" for name, cents in sorted(GOODS.items(), key=lambda item: item[1])]


def verdict():
    path = pathlib.Path("/workspace/prices.csv")
    if path.is_symlink() or not path.is_file():
        return 0, "there is no prices.csv"
    lines = [line.strip() for line in path.read_bytes()[:100_000].decode("utf-8", "replace").splitlines() if line.strip()]
    if lines == EXPECTED:
        return 1, "every line is right"
    right = set(lines) & set(EXPECTED[1:])
    wrong = len([line for line in lines[1:] if line not in EXPECTED])
    score = max(0, len(right) - wrong) / len(GOODS)
    return min(score, 0.9), f"{len(right)} of {len(GOODS)} articles are right, {wrong} lines are wrong, or the order is"


score, explanation = verdict()
print(json.dumps({"score": score, "explanation": explanation}))
