#!/bin/sh
# Runs each fuzz target for SECONDS (default 60), starting from the logs in tests/data and from
# fuzz/seeds, and stops by itself.
# usage: fuzz/run.sh [SECONDS] [TARGET…]
# A crash leaves its input in fuzz/artifacts/TARGET/ and fails the run; `fuzz/run.sh 0 TARGET` only builds.
# Needs no nightly compiler: the coverage that libFuzzer wants is made by flags of the stable one.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- archive json

export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
: "${CARGO_TARGET_DIR:=$PWD/../target/fuzz}"
export CARGO_TARGET_DIR
# With a target named, the flags do not reach build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --locked --release --target "$host"
[ "$seconds" -gt 0 ] || exit 0

seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
find ../tests/data -type f -size -64k \( -name '*.eval' -o -name '*.json' \) ! -name '*.expected.json' \
    -exec cp {} "$seeds" \;

for target in "$@"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    # Every JSON input is read through many windows: shorter ones give more of them.
    case $target in json) bytes_max=4096 ;; *) bytes_max=65536 ;; esac
    echo "fuzz: $target for $seconds s"
    "$CARGO_TARGET_DIR/$host/release/$target" "corpus/$target" "seeds/$target" "$seeds" \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len="$bytes_max" -dict="$target.dict" \
        -artifact_prefix="artifacts/$target/" -print_final_stats=1 -verbosity=1
done
