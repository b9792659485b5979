#!/bin/sh
cat >prices.py <<'PYTHON'
import re
import urllib.parse
import urllib.request

url, goods = "http://shop.test:8080/goods/1", []
while url:
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    for name, euros, cents in re.findall(r'class="name">([^<]*)</td><td class="price">(\d+),(\d\d) EUR', text):
        goods.append((int(euros) * 100 + int(cents), name))
    following = re.search(r'class="next" href="([^"]*)"', text)
    url = urllib.parse.urljoin(url, following[1]) if following else None
with open("prices.csv", "w") as file:
    file.write("name,price_cents\n")
    for cents, name in sorted(goods):
        file.write(f"{name},{cents}\n")
PYTHON
python3 prices.py
