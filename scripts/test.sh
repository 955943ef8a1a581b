#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests: the runtime's with AddressSanitizer and UndefinedBehaviorSanitizer, the fuzz
# targets for five seconds each, and then all suites; ctest's summary comes last. Of suites of thousands of jobs some are drawn, the
# same in every run; test.sh --all runs all of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ ${1:-} == --all ]] && all=ON || all=OFF
scripts/setup.sh --tests
echo 'test: configuring the release preset'
cmake --preset release "-DTSQ_ALL_TESTS=$all" ${Torch_DIR:+"-DTorch_DIR=$Torch_DIR"}
echo 'test: building the library, the command and every test (the first time takes several minutes)'
cmake --build --preset release
echo "test: building and running the runtime's tests with sanitizers"
scripts/test_sanitized.sh runtime
echo 'test: fuzzing each target for five seconds'
scripts/fuzz.sh 0.084
echo 'test: running the tests'
ctest --preset release -j2
