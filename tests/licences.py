#!/usr/bin/env python3
"""Checks that every dependency may be shipped: its licence must offer one of those below."""
import json, re, subprocess, sys

ALLOWED = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib",
           "Unicode-3.0", "Unlicense", "CC0-1.0", "0BSD", "MIT-0", "BSL-1.0",
           # The certificates that browsers trust: data, free to pass on with the licence.
           "CDLA-Permissive-2.0"}


def allowed(expression):
    """Whether an SPDX expression can be met: any side of OR, all sides of AND."""
    expression = expression.replace("/", " OR ").strip()
    while expression.startswith("(") and expression.endswith(")"):
        expression = expression[1:-1].strip()
    for word, combine in ((" OR ", any), (" AND ", all)):
        parts, depth, current = [], 0, ""
        for token in re.split(r"( OR | AND |\(|\))", expression):
            depth += {"(": 1, ")": -1}.get(token, 0)
            if token == word and depth == 0:
                parts.append(current)
                current = ""
            else:
                current += token
        parts.append(current)
        if len(parts) > 1:
            return combine(allowed(part) for part in parts)
    return expression in ALLOWED


metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--format-version=1", "--locked"]))
bad = [f'{p["name"]} {p["version"]}: {p["license"]}' for p in metadata["packages"] if not allowed(p["license"] or "none")]
if bad:
    sys.exit("not among the licences allowed in tests/licences.py:\n" + "\n".join(bad))
print(f'{len(metadata["packages"])} packages, all licences allowed')
