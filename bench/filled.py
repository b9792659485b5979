"""A data folder of made-up runs, made once and kept."""
import os, shutil, subprocess, tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
# What 1,000,000 trajectories take while they are made.
ROOM_BYTES = 10 << 30


def filled(path, fill, runs, trajectories_per_run):
    """The folder at `path`, filled by the example `fill` unless it was before.

    Each run is written through to the disk a few times, which is what takes long: so it is made in memory, where there is
    room for it, and copied.
    """
    if (path / "made").exists():
        return path
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    in_memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    with tempfile.TemporaryDirectory(dir=MEMORY if in_memory else path.parent, prefix="ct-fill-") as folder:
        made = Path(folder) / "store"
        subprocess.run([fill, made, str(runs), str(trajectories_per_run)], check=True, stderr=subprocess.DEVNULL)
        shutil.copytree(made, path)
    (path / "made").touch()
    return path
