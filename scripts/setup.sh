#!/usr/bin/env bash
# Installs what tsq needs on Debian 12: the distribution's packages, and LibTorch 2.13 (CPU) and oneDNN into .venv.
# Does nothing when all of it is there. Torch_DIR or CMAKE_PREFIX_PATH may name another LibTorch, dnnl_DIR another oneDNN.
# setup.sh --tests: also what only the tests need; setup.sh --fuzz: what only the fuzz targets need.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

torch_version=2.13.0
onednn_version=2023.2.0
playwright_version=1.65.2
[[ ${1:-} == --tests ]] && for_tests=yes || for_tests=
[[ ${1:-} == --fuzz ]] && for_fuzzing=yes || for_fuzzing=

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}

# version_at_least GOT WANTED
version_at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

has_header() { [[ -e /usr/include/$1 || -e /usr/local/include/$1 ]]; }

has_cmake() {
  local first_line
  command -v cmake > /dev/null && read -r first_line < <(cmake --version) && version_at_least "${first_line##* }" 3.22
}

# The Debian packages that are not there; a tool or header of another origin counts.
missing_packages() {
  has_cmake || echo cmake
  command -v ninja > /dev/null || echo ninja-build
  [[ -n ${CXX:-} ]] || command -v g++ > /dev/null || echo g++
  command -v ccache > /dev/null || echo ccache
  command -v mold > /dev/null || echo mold
  has_header gtest/gtest.h || echo libgtest-dev
  has_header gmock/gmock.h || echo libgmock-dev
  has_header nlohmann/json.hpp || echo nlohmann-json3-dev
  has_header CLI/CLI.hpp || echo libcli11-dev
  has_header fmt/format.h || echo libfmt-dev
  has_header zip.h || echo libzip-dev
  has_header zlib.h || echo zlib1g-dev
  [[ -z $for_tests ]] || command -v clang-format-14 > /dev/null || echo clang-format-14
  [[ -z $for_tests ]] || has_header benchmark/benchmark.h || echo libbenchmark-dev
  [[ -z $for_tests ]] || command -v chromium > /dev/null || echo chromium
  # clang 14 does not compile <ranges> of libstdc++ 12.
  [[ -z $for_fuzzing ]] || command -v clang++-16 > /dev/null || echo clang-16
  [[ -z $for_fuzzing ]] || compgen -G '/usr/lib/llvm-16/lib/clang/16*/lib/linux/libclang_rt.fuzzer-x86_64.a' > /dev/null || echo libclang-rt-16-dev
  [[ -z $for_fuzzing ]] || command -v llvm-symbolizer-16 > /dev/null || echo llvm-16
  has_header pcre2.h || echo libpcre2-dev
  if [[ ! -x .venv/bin/python ]]; then
    command -v python3 > /dev/null || echo python3
    python3 -c 'import ensurepip, venv' 2> /dev/null || echo python3-venv
  fi
}

install_packages() {
  command -v apt-get > /dev/null ||
    fail "this system has no apt-get: install the equivalents of these Debian packages and start again: $*"
  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    command -v sudo > /dev/null ||
      fail "installing packages needs root and there is no sudo: run as root: apt-get install $*"
    as_root=(sudo)
  fi
  say "installing Debian packages: $*"
  "${as_root[@]}" apt-get update -q || fail "apt-get update failed: see its message above"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" ||
    fail "apt-get could not install: $*"
  hash -r
  has_cmake || fail "cmake on PATH is older than 3.22: remove it from PATH or update it"
}

check_compiler() {
  [[ -z ${CXX:-} ]] || return 0
  local version
  version=$(g++ -dumpfullversion)
  version_at_least "$version" 12 || fail "g++ $version is too old for C++20: install g++ 12 or name another compiler in CXX"
}

# Is there a LibTorch that the user chose?
names_libtorch() {
  local prefix
  if [[ -n ${Torch_DIR:-} ]]; then
    [[ -e $Torch_DIR/TorchConfig.cmake ]] ||
      fail "Torch_DIR is '$Torch_DIR', which holds no TorchConfig.cmake: it must be the folder share/cmake/Torch of a LibTorch"
    return 0
  fi
  while read -r prefix; do
    [[ -z $prefix ]] || [[ ! -e $prefix/share/cmake/Torch/TorchConfig.cmake && ! -e $prefix/Torch/TorchConfig.cmake ]] || return 0
  done < <(tr ':;' '\n\n' <<< "${CMAKE_PREFIX_PATH:-}")
  return 1
}

# Are the wheels there, whole (pip writes RECORD last)?
has_wheels() {
  local name
  for name in "torch-$torch_version*" 'numpy-*' 'pillow-*'; do
    compgen -G ".venv/lib/python3*/site-packages/$name.dist-info/RECORD" > /dev/null || return 1
  done
}

refuse_cuda_build() {
  fail "$1 only a CUDA build of torch $torch_version, and tsq wants the CPU build: name an index of CPU wheels, such as" \
    "'PIP_INDEX_URL=https://download.pytorch.org/whl/cpu', or point Torch_DIR at the share/cmake/Torch of a CPU LibTorch," \
    "and start again"
}

make_virtual_environment() {
  [[ ! -x .venv/bin/python || ! -x .venv/bin/pip ]] || return 0
  say 'making the virtual environment .venv'
  python3 -m venv .venv || fail 'python3 -m venv .venv failed: see its message above'
}

# A constraint on the packages that every CUDA build requires lets pip refuse it from the metadata alone.
install_libtorch() {
  local log constraints='.venv/cpu_only.txt' options=()
  make_virtual_environment
  printf '%s<0\n' triton pytorch-triton-rocm cuda-toolkit cuda-bindings nvidia-cudnn-cu12 nvidia-cudnn-cu13 > $constraints
  [[ $(.venv/bin/pip install --help) != *fast-deps* ]] || options=(--use-feature=fast-deps)
  log=$(mktemp)
  trap 'rm -f "$log"' RETURN
  say "installing LibTorch $torch_version (CPU), numpy and pillow into .venv with pip: about 250 MB, 1 to 3 minutes"
  if ! .venv/bin/pip install --disable-pip-version-check "${options[@]}" -c $constraints \
    "torch==$torch_version" numpy pillow 2> "$log"; then
    ! grep -qE 'triton|cuda-toolkit|cuda-bindings|nvidia-' "$log" || refuse_cuda_build 'the package index offers'
    fail "pip could not install torch $torch_version: $(grep '^ERROR' "$log" | tail -n 1 | sed 's/^ERROR: //'); is the package index" \
      "reachable, and does it have torch $torch_version for this Python?"
  fi
}

has_onednn() {
  [[ -n ${dnnl_DIR:-} ]] ||
    compgen -G ".venv/lib/python3*/site-packages/onednn_devel_cpu_gomp-$onednn_version.dist-info/RECORD" > /dev/null
}

# Without it everything but libtsq_runtime is built.
install_onednn() {
  make_virtual_environment
  say "installing oneDNN (onednn-devel-cpu-gomp $onednn_version) into .venv with pip: about 40 MB"
  .venv/bin/pip install --disable-pip-version-check "onednn-devel-cpu-gomp==$onednn_version" ||
    say "warning: pip could not install oneDNN: libtsq_runtime, which runs fused programs, will not be built"
}

has_playwright() { compgen -G ".venv/lib/python3*/site-packages/playwright-$playwright_version.dist-info/RECORD" > /dev/null; }

# It drives Debian's Chromium in the test of the report's page.
install_playwright() {
  make_virtual_environment
  say "installing playwright $playwright_version into .venv with pip: about 50 MB"
  .venv/bin/pip install --disable-pip-version-check "playwright==$playwright_version" ||
    fail "pip could not install playwright $playwright_version: see its message above"
}

check_cpu_build() {
  ! grep -qsE "^cuda.*= '" .venv/lib/python3*/site-packages/torch/version.py || refuse_cuda_build '.venv holds'
}

mapfile -t packages < <(missing_packages)
((${#packages[@]} == 0)) || install_packages "${packages[@]}"
check_compiler
if ! names_libtorch; then
  has_wheels || install_libtorch
  check_cpu_build
fi
has_onednn || install_onednn
[[ -z $for_tests ]] || has_playwright || install_playwright
