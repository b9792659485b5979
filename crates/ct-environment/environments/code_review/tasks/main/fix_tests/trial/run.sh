#!/bin/sh
exec python3 -I /shared/values.py
