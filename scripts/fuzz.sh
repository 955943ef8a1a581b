#!/usr/bin/env bash
# Looks for inputs that tsq does not bear.
#   scripts/fuzz.sh [MINUTES] [TARGET]   each fuzz target, or one of json, numpy, pickle, archive and program, for MINUTES (1);
#                                        for less than one the same inputs every time
#   scripts/fuzz.sh --files [MINUTES]    files with faults, fed to every command of build/release/bin/tsq for MINUTES (5)
# Exits with 1 where something was found, and says how to repeat it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'fuzz: %s\n' "$*"; }

if [[ ${1:-} == --files ]]; then
  exec .venv/bin/python -W ignore tests/fuzz/mutate_files.py --minutes "${2:-5}"
fi

minutes=${1:-1}
targets=(json numpy pickle archive program)
[[ -z ${2:-} ]] || targets=("$2")

scripts/setup.sh --fuzz
say 'building the targets'
mkdir -p build
cmake --preset fuzz ${Torch_DIR:+"-DTorch_DIR=$Torch_DIR"} > build/configure.log 2>&1 || {
  cat build/configure.log >&2
  exit 1
}
cmake --build --preset fuzz
[[ -e build/fuzz/bin/fuzz_program ]] || targets=("${targets[@]/program/}") # without oneDNN

# Leaks are not looked for: LibTorch's reader of archives leaks what it refuses.
export OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
export ASAN_SYMBOLIZER_PATH=${ASAN_SYMBOLIZER_PATH:-/usr/bin/llvm-symbolizer-16}
seconds=$(awk -v minutes="$minutes" 'BEGIN { print int(minutes * 60) }')
seed=$((seconds < 60)) # 0: another one every time
found=0
for target in "${targets[@]}"; do
  [[ -n $target ]] || continue
  grown=build/fuzz/corpus/$target
  crashes=build/fuzz/found/$target
  mkdir -p "$grown" "$crashes" "tests/fuzz/found/$target"
  # -entropic=0: the other schedule costs more than most targets do.
  if build/fuzz/bin/"fuzz_$target" -entropic=0 -seed=$seed -rss_limit_mb=2048 -timeout=10 -max_len=65536 "-max_total_time=$seconds" -print_final_stats=1 \
    -verbosity=0 "-artifact_prefix=$crashes/" "$grown" "tests/fuzz/corpus/$target" "tests/fuzz/found/$target" > "$crashes/log" 2>&1; then
    say "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$crashes/log") inputs, nothing found"
  else
    found=1
    say "$target: found $(sed -n 's/^.*Test unit written to //p' "$crashes/log"), told in $crashes/log; it is repeated by"
    say "  ASAN_OPTIONS=detect_leaks=0 build/fuzz/bin/fuzz_$target $(sed -n 's/^.*Test unit written to //p' "$crashes/log")"
    say "  and goes into tests/fuzz/found/$target once it is mended"
  fi
done
exit $found
