"""Compares report.txt with sums made anew from the same seed."""
import json
import pathlib
import random


def truth():
    random.seed(7)
    for day in range(1, 4):
        rows, sums = [], {}
        for number in range(40):
            customer = random.choice(["ada", "bob", "cyn", "dee"])
            cents = random.randrange(100, 20000)
            rows.append(number)
            count, total = sums.get(customer, (0, 0))
            sums[customer] = (count + 1, total + cents)
        if day == 2:
            return [f"{name} {count} {cents // 100}.{cents % 100:02d}" for name, (count, cents) in sorted(sums.items())]
        rows += random.sample(rows, 4) + [0, 0, 0]
        random.shuffle(rows)


def verdict():
    path = pathlib.Path("/workspace/report.txt")
    if path.is_symlink() or not path.is_file():
        return 0, "there is no report.txt"
    lines = path.read_bytes()[:100_000].decode("utf-8", "replace").splitlines()
    expected = truth()
    if lines == expected:
        return 1, "every line is right"
    right = len(set(lines) & set(expected))
    return min(right / len(expected), 0.9), f"{right} of {len(expected)} lines are right"


score, explanation = verdict()
print(json.dumps({"score": score, "explanation": explanation}))
