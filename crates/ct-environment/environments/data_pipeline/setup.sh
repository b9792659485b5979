#!/bin/sh
# Orders that look real and are the same each time: some twice, some broken.
python3 -I - <<'PYTHON'
import random

random.seed(7)
for day in range(1, 4):
    rows = []
    for number in range(40):
        order = day * 1000 + number
        customer = random.choice(["ada", "bob", "cyn", "dee"])
        cents = random.randrange(100, 20000)
        rows.append(f"{order},{customer},{cents // 100}.{cents % 100:02d}")
    rows += random.sample(rows, 4)
    rows += [f"{day}900,,12.00", f"{day}901,bob,n/a", f"{day}902,cyn,-5.00"]
    random.shuffle(rows)
    with open(f"incoming/2026-03-0{day}.csv", "w") as file:
        file.write("order,customer,amount\n" + "\n".join(rows) + "\n")
PYTHON
