#!/usr/bin/env bash
# Builds the unit tests with AddressSanitizer and UndefinedBehaviorSanitizer, and runs them; a finding fails its test. Arguments
# go to ctest: `-R config_test`. LibTorch itself is not instrumented, and leaks, which its registries have by design, are not looked for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
cmake --preset asan ${Torch_DIR:+"-DTorch_DIR=$Torch_DIR"}
cmake --build --preset asan --target unit_tests
ctest --preset asan -L unit "$@"
