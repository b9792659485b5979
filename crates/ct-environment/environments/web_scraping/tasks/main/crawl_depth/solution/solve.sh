#!/bin/sh
# Breadth first, by the standard library.
cat >crawl.py <<'PYTHON'
import json
import re
import urllib.parse
import urllib.request

START, DEPTH_MAX = "http://library.test:8080/", 4
depths, waiting = {"/": 0}, ["/"]
while waiting:
    path = waiting.pop(0)
    with urllib.request.urlopen(urllib.parse.urljoin(START, path)) as answer:
        text = answer.read().decode()
    for link in re.findall(r'href="([^"]*)"', text):
        target = urllib.parse.urlsplit(urllib.parse.urljoin(START, link))
        if target.hostname == "library.test" and target.path not in depths and depths[path] < DEPTH_MAX:
            depths[target.path] = depths[path] + 1
            waiting.append(target.path)
with open("depths.json", "w") as file:
    json.dump(depths, file, indent=1)
PYTHON
python3 crawl.py
