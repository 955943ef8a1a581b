#!/usr/bin/env bash
# Builds unit tests with sanitizers, and runs them; a finding fails its test.
#   scripts/test_sanitized.sh [address] [ctest arguments]   every unit test, with AddressSanitizer and UndefinedBehaviorSanitizer
#   scripts/test_sanitized.sh runtime [ctest arguments]     libtsq_runtime and its own tests alone, likewise
#   scripts/test_sanitized.sh thread [ctest arguments]      the tests that run several threads, with ThreadSanitizer
# `-R config_test` runs one. LibTorch and oneDNN are not instrumented, and leaks, which LibTorch's registries have by design, are not
# looked for. tests/sanitizers/thread.supp says which reports are theirs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kind=address
case ${1:-} in
  address | runtime | thread)
    kind=$1
    shift
    ;;
esac
case $kind in
  address) preset=asan target=unit_tests label=unit ;;
  runtime) preset=asan target=runtime_test label=sanitized ;;
  thread) preset=tsan target=threaded_tests label=threaded ;;
esac

scripts/setup.sh
cmake --preset $preset ${Torch_DIR:+"-DTorch_DIR=$Torch_DIR"}
cmake --build --preset $preset --target $target
ctest --preset $preset -j2 -L "^$label\$" "$@"
