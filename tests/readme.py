#!/usr/bin/env python3
"""Runs the README's commands as a newcomer pastes them: in a fresh clone, with an empty home, in order.

Every line that begins with `$ ` in a fenced block marked `console` is run by bash in the clone; each must exit with 0.
Placeholders in angle brackets must have been set by an earlier line. `uv` comes from the Python that runs this.
"""
import os, re, shutil, signal, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commands(text):
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield line[2:]


def main():
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "ct"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
        # Building from nothing is what the first command does; the build's cache is shared to keep this short.
        home = Path(folder) / "home"
        home.mkdir()
        env = {**os.environ, "XDG_DATA_HOME": str(home / "data"),
               "XDG_CACHE_HOME": str(home / "cache"), "CARGO_TARGET_DIR": str(ROOT / "target"),
               "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        for name in [name for name in env if name.startswith("CONTROL_TOWER_")]:
            del env[name]
        ran = 0
        # One shell for all, so that variables set by a line are there for the next.
        script = ["set -eo pipefail"]
        for command in commands((clone / "README.md").read_text()):
            if command.startswith(("./test", "cargo install")):
                continue
            script += [f"echo {shell_quote('$ ' + command)}", command]
            ran += 1
        done = subprocess.Popen(["bash", "-c", "\n".join(script)], cwd=clone, env=env, stdin=subprocess.DEVNULL,
                                start_new_session=True)
        try:
            code = done.wait()
        finally:
            # A server that a failed tour left running.
            try:
                os.killpg(done.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        if code != 0:
            sys.exit(f"a command of the README failed with {code}; it is the last one shown above")
        if ran == 0:
            sys.exit("the README has no commands")
        print(f"{ran} commands of the README work")


def shell_quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    main()
