#!/usr/bin/env python3
"""Runs the commands of docs/deploy.md as they stand there: in the checkout, with an empty home, in order, in one shell.

`ct` is that of CT_DEPLOY_CT, else target/release/ct; `weed` comes from the Python that runs this. Where something is missing
it says so and tests nothing, unless CI is set.
"""
import os, shutil, signal, subprocess, sys, tempfile
from pathlib import Path

import readme

ROOT = Path(__file__).resolve().parent.parent


def main():
    ct = Path(os.environ.get("CT_DEPLOY_CT", Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/ct"))
    path = os.pathsep.join([str(ct.parent), str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"])
    missing = [name for name in ("ct", "weed", "nginx", "openssl", "curl") if not shutil.which(name, path=path)]
    if missing:
        said = f"NOT TESTED: docs/deploy.md ({', '.join(missing)} not found)"
        if os.environ.get("CI"):
            sys.exit(said)
        print(said, file=sys.stderr)
        return
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("CONTROL_TOWER_", "AWS_", "XDG_"))}
    commands = list(readme.commands((ROOT / "docs/deploy.md").read_text()))
    with tempfile.TemporaryDirectory() as home:
        script = ["set -eo pipefail"]
        for command in commands:
            script += [f"echo {readme.shell_quote('$ ' + command)}", command]
        shell = subprocess.Popen(["bash", "-c", "\n".join(script)], cwd=ROOT, env={**keep, "HOME": home, "PATH": path},
                                 stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = shell.wait(timeout=600)
        finally:
            # What a tour that failed left running; the proxy is in no group of ours.
            try:
                os.killpg(shell.pid, signal.SIGKILL)
                os.kill(int((Path(home) / "nginx/nginx.pid").read_text()), signal.SIGTERM)
            except (ProcessLookupError, FileNotFoundError, ValueError):
                pass
        if code != 0:
            for log in ("serve.log", "weed.log", "nginx/error.log"):
                if (Path(home) / log).exists():
                    print(f"-- {log}\n" + (Path(home) / log).read_text()[-2000:], file=sys.stderr)
            sys.exit(f"a command of docs/deploy.md failed with {code}; it is the last one shown above")
    print(f"{len(commands)} commands of docs/deploy.md work")


if __name__ == "__main__":
    main()
