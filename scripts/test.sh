#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test; ctest's summary comes last.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh --tests
echo 'test: configuring the release preset'
cmake --preset release ${Torch_DIR:+"-DTorch_DIR=$Torch_DIR"}
echo 'test: building the library, the command and every test (the first time takes several minutes)'
cmake --build --preset release
echo 'test: running every test'
ctest --preset release -j2
