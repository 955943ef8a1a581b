#!/usr/bin/env bash
# From a fresh clone to a quantized EfficientNet-Lite0 and its numbers. What is made here stays in quickstart/ and build/,
# so the second time is quick.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'quickstart: %s\n' "$*"; }
fail() {
  printf 'quickstart: error: %s\n' "$*" >&2
  exit 1
}

# The Python that exports the network: the one beside LibTorch where LibTorch is a wheel.
find_python() {
  local python
  for python in .venv/bin/python "${Torch_DIR:-}/../../../../../../../bin/python" python3; do
    if "$python" -c 'import torch, numpy, PIL' 2> /dev/null; then
      echo "$python"
      return
    fi
  done
  fail 'no Python here has torch, numpy and pillow, which export the network: unset Torch_DIR and CMAKE_PREFIX_PATH and start again, or install them'
}

scripts/setup.sh
python=$(find_python)

mkdir -p build
say 'configuring and building tsq (the first time takes several minutes)'
cmake --preset release ${Torch_DIR:+"-DTorch_DIR=$Torch_DIR"} > build/configure.log 2>&1 || {
  cat build/configure.log >&2
  fail 'cmake could not configure the project: see its message above'
}
cmake --build --preset release --target tsq_cli
# Without oneDNN, which setup.sh could not install then, there are no fused programs.
fused=()
if grep -q '^TSQ_RUNTIME:BOOL=ON' build/release/CMakeCache.txt; then
  cmake --build --preset release --target tsq_runtime
  fused=(quickstart/efficientnet_lite0.fused.pt)
fi

"$python" scripts/export_efficientnet_lite0.py quickstart

say 'quantizing it for the x86 engine'
build/release/bin/tsq quantize quickstart/efficientnet_lite0.pt --calib quickstart/calibration.pt --backend x86 \
  --output quickstart/efficientnet_lite0.int8.pt
if ((${#fused[@]} > 0)); then
  say 'quantizing it for fused programs on oneDNN'
  build/release/bin/tsq quantize quickstart/efficientnet_lite0.pt --calib quickstart/calibration.pt --target fused --output "${fused[0]}"
fi

say 'building examples/run_quantized, a program that links LibTorch only'
torch_dir=$(sed -n 's/^Torch_DIR:PATH=//p' build/release/CMakeCache.txt)
cmake -S examples/run_quantized -B build/run_quantized -G Ninja -DCMAKE_BUILD_TYPE=Release "-DTorch_DIR=$torch_dir" > build/configure.log 2>&1 || {
  cat build/configure.log >&2
  fail 'cmake could not configure the example: see its message above'
}
cmake --build build/run_quantized

say 'running float and int8 in turns, on photographs that were not in the calibration set'
LD_LIBRARY_PATH=build/release/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} build/run_quantized/run_quantized quickstart/efficientnet_lite0.pt \
  quickstart/efficientnet_lite0.int8.pt "${fused[@]}" quickstart/evaluation.pt
say "the quantized network is quickstart/efficientnet_lite0.int8.pt${fused[0]:+, and with fused programs ${fused[0]}}"
