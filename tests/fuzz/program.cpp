// Fused programs and calls of them: a program runs, or it or the call is refused by a ProgramError. One
// operation that was drawn computes what the reference does, which is in double precision.
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "fuzz/call.h"
#include "runtime/program/error.h"
#include "runtime/program/resolve.h"
#include "runtime/program/validate.h"
#include "runtime/reference.h"

namespace {

using namespace tsq;
using namespace tsq::runtime;

/// What a call may compute, so that it takes milliseconds: larger ones are no faults.
constexpr std::int64_t kMostElements = 1 << 18;

/// False where sizes overflow, too.
bool is_small(const Shape& shape) {
  std::int64_t count = 1;
  for (const auto size : shape) {
    if (size < 0 || size > kMostElements) return false;
    count = std::max<std::int64_t>(count, 1) * std::max<std::int64_t>(size, 1);
    if (count > kMostElements) return false;
  }
  return true;
}

bool is_quick(const fuzz::Call& call) {
  std::vector<Shape> given;
  for (const auto& input : call.inputs) given.push_back(input.sizes);
  if (given.size() != call.model.program.inputs.size()) return true;  // is refused
  if (call.integers.size() != static_cast<std::size_t>(call.model.program.given_integers)) return true;
  const auto shapes = resolve(call.model, given, call.integers).shapes;
  return std::ranges::all_of(shapes, is_small);
}

bool agrees(double got, double expected, Dtype dtype) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return true;
  if (!std::isfinite(got) || !std::isfinite(expected))
    return std::abs(got) > 1e30 || std::abs(expected) > 1e30;
  return std::abs(got - expected) <= (is_int8(dtype) ? 1 : 1e-3 * (1 + std::abs(expected)));
}

void expect_reference(const fuzz::Call& call, const std::vector<test::Tensor>& got) {
  const auto expected = test::reference(call.model, call.inputs, call.integers);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i].sizes != expected[i].sizes) std::abort();
    for (std::size_t n = 0; n < got[i].numbers.size(); ++n) {
      if (agrees(got[i].numbers[n], expected[i].numbers[n], got[i].dtype)) continue;
      std::cerr << "output " << i << ", element " << n << ": " << got[i].numbers[n] << " where "
                << expected[i].numbers[n] << " is right\n";
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  try {
    const bool drawn = input.coin();
    const fuzz::Call call = drawn ? fuzz::drawn_call(input) : fuzz::written_call(input);
    LoadedProgram program(call.model);
    if (!is_quick(call)) return 0;
    const auto got = test::run(program, call.inputs, 1, call.integers);
    if (drawn && call.model.program.operations.size() == 1) expect_reference(call, got);
  } catch (const ProgramError&) {
  }
  return 0;
}
