// Fused programs and calls of them: a program runs, or it or the call is refused by a ProgramError. One
// operation that was drawn computes what the reference does, which is in double precision.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>

#include "fuzz/call.h"
#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/program_json.h"
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

/// On a boundary of 64 bytes as tensors are, and without a byte after its end: AddressSanitizer sees who
/// reads on.
std::shared_ptr<void> exact_memory(std::int64_t bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, 64, static_cast<std::size_t>(bytes)) != 0) std::abort();
  return {memory, [](void* pointer) { std::free(pointer); }};
}

std::int64_t bytes_in(const Constant& tensor) { return elements_of(tensor.shape) * bytes_of(tensor.dtype); }

std::shared_ptr<void> exact_copy(const Constant& tensor) {
  auto memory = exact_memory(bytes_in(tensor));
  std::memcpy(memory.get(), tensor.data.get(), static_cast<std::size_t>(bytes_in(tensor)));
  return memory;
}

double number_at(const void* memory, Dtype dtype, std::int64_t place) {
  switch (dtype) {
    case Dtype::F32:
      return static_cast<const float*>(memory)[place];
    case Dtype::U8:
      return static_cast<const std::uint8_t*>(memory)[place];
    case Dtype::S8:
      return static_cast<const std::int8_t*>(memory)[place];
    case Dtype::I64:
      return static_cast<double>(static_cast<const std::int64_t*>(memory)[place]);
  }
  return 0;
}

/// As test::run does, in memory that ends where tensors end.
std::vector<test::Tensor> run(LoadedProgram& program, const fuzz::Call& call) {
  const auto compiled = test::compile(program, call.inputs, 1, call.integers);
  std::vector<std::shared_ptr<void>> memory;
  std::vector<const void*> read;
  std::vector<void*> written;
  for (const auto& input : call.inputs) {
    test::Writer writer;
    writer.constant(input);
    read.push_back(memory.emplace_back(exact_copy(writer.model.constants.front())).get());
  }
  std::vector<test::Tensor> outputs;
  for (std::size_t i = 0; i < compiled->output_shapes().size(); ++i) {
    outputs.push_back({compiled->output_dtypes()[i], compiled->output_shapes()[i], {}});
    written.push_back(
        memory.emplace_back(exact_memory(elements_of(outputs[i].sizes) * bytes_of(outputs[i].dtype))).get());
  }
  compiled->run(read, written, call.integers);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::int64_t n = 0; n < elements_of(outputs[i].sizes); ++n)
      outputs[i].numbers.push_back(number_at(written[i], outputs[i].dtype, n));
  }
  return outputs;
}

/// Whether small errors, or what a kernel makes of NaN and infinity, may grow to any size: by a function that
/// is not defined everywhere, or steep, of what was computed, or before more is.
bool has_no_bound(const Operation& operation, const Value& output) {
  constexpr std::array kPartial{PostOpKind::Exp, PostOpKind::Log, PostOpKind::Sqrt, PostOpKind::Rsqrt,
                                PostOpKind::Pow};
  const auto& post_ops = operation.post_ops;
  if (operation.kind == Kind::Div) return is_int8(output.dtype) || !post_ops.empty();
  if (operation.kind == Kind::Activation && post_ops.size() == 1 && !is_int8(output.dtype)) return false;
  return std::ranges::any_of(post_ops, [&](const PostOp& post_op) {
    return std::ranges::find(kPartial, post_op.kind) != kPartial.end();
  });
}

/// Whether a window may lie in padding alone: it has no maximum, and programs give the least number that the
/// input can hold where PyTorch gives minus infinity.
bool may_pool_nothing(const Operation& operation) {
  const auto pads = [](std::int64_t padding) { return padding > 0; };
  return operation.kind == Kind::MaxPool &&
         std::ranges::any_of(operation.dilation, [](std::int64_t step) { return step > 1; }) &&
         (std::ranges::any_of(operation.padding_begin, pads) ||
          std::ranges::any_of(operation.padding_end, pads));
}

/// How far a value may be off: recurrent layers multiply states as bytes.
double allowed(const Operation& operation, const Value& value, double expected) {
  const double part = is_recurrent(operation.kind) ? 3e-2 : 1e-3;
  const double real = part * (1 + std::abs(expected));
  if (!is_int8(value.dtype)) return real;
  return is_recurrent(operation.kind) ? 1 + part / value.scale : 1;
}

bool agrees(double got, double expected, double allowed) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return true;
  if (!std::isfinite(got) || !std::isfinite(expected))
    return std::abs(got) > 1e30 || std::abs(expected) > 1e30;
  return std::abs(got - expected) <= allowed;
}

void expect_reference(const fuzz::Call& call, const std::vector<test::Tensor>& got) {
  const Program& program = call.model.program;
  const Operation& operation = program.operations.front();
  if (has_no_bound(operation, program.values[static_cast<std::size_t>(operation.output)]) ||
      may_pool_nothing(operation))
    return;
  const auto expected = test::reference(call.model, call.inputs, call.integers);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Value& value = program.values[static_cast<std::size_t>(program.outputs[i])];
    if (got[i].sizes != expected[i].sizes) std::abort();
    for (std::size_t n = 0; n < got[i].numbers.size(); ++n) {
      const double right = expected[i].numbers[n];
      if (agrees(got[i].numbers[n], right, allowed(operation, value, right))) continue;
      std::cerr << "output " << i << ", element " << n << ": " << got[i].numbers[n] << " where " << right
                << " is right, of " << to_json(program) << "\n";
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  try {
    const bool drawn = input.coin();
    fuzz::Call call = drawn ? fuzz::drawn_call(input) : fuzz::written_call(input);
    for (auto& constant : call.model.constants) constant.data = exact_copy(constant);
    LoadedProgram program(call.model);
    if (!is_quick(call)) return 0;
    const auto got = run(program, call);
    if (drawn && call.model.program.operations.size() == 1) expect_reference(call, got);
  } catch (const ProgramError&) {
  }
  return 0;
}
