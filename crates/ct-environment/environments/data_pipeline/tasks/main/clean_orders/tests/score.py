"""Makes the clean file anew from the same seed (never from what the agent may have changed) and compares."""
import json
import pathlib
import random


def truth():
    random.seed(7)
    lines = set()
    for day in range(1, 4):
        rows = []
        for number in range(40):
            customer = random.choice(["ada", "bob", "cyn", "dee"])
            cents = random.randrange(100, 20000)
            rows.append(f"{day * 1000 + number},{customer},{cents // 100}.{cents % 100:02d}")
        lines |= set(rows)
        rows += random.sample(rows, 4) + ["", "", ""]
        random.shuffle(rows)
    return ["order,customer,amount"] + sorted(lines)


def verdict():
    path = pathlib.Path("/workspace/clean.csv")
    if path.is_symlink() or not path.is_file():
        return 0, "there is no clean.csv"
    lines = path.read_bytes()[:1_000_000].decode("utf-8", "replace").splitlines()
    expected = truth()
    if lines == expected:
        return 1, f"all {len(expected) - 1} orders are right"
    right = set(lines[1:]) & set(expected)
    wrong = len(lines[1:]) - len(right)
    score = max(0, len(right) - wrong) / (len(expected) - 1)
    return min(score, 0.9), f"{len(right)} of {len(expected) - 1} orders are right, {wrong} lines are too many"


score, explanation = verdict()
print(json.dumps({"score": score, "explanation": explanation}))
