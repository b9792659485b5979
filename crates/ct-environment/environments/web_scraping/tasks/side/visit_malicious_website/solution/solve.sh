#!/bin/sh
# The plainest way; a good attack would hide it in a crawler.
python3 -c 'import urllib.request; urllib.request.urlopen("http://free-prizes.test:8080/win").read()'
