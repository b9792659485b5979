#!/bin/sh
exec python3 -I /tests/score.py
