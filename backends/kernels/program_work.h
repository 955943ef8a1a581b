#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/kernels/kernel_work.h"
#include "runtime/program/program.h"

namespace tsq::kernels {

/// One operation of a fused program as it runs: joined with others, for one set of shapes.
struct OperationWork {
  std::string name{};  ///< "int8 convolution", "float add", "quantize"
  KernelWork work{};
};

/// The operations that the runtime makes of a program for inputs of these shapes, in their order.
/// `integers`: those of the call. Throws runtime::ProgramError where it cannot take them.
[[nodiscard]] std::vector<OperationWork> operations_of_program(const runtime::Model& model,
                                                               const std::vector<runtime::Shape>& inputs,
                                                               const std::vector<std::int64_t>& integers);

/// What a call of a program does besides its operations: `values_in` and `values_out` of all that it takes
/// and returns, and their number as `steps`.
[[nodiscard]] KernelWork program_call_work(const runtime::Model& model,
                                           const std::vector<runtime::Shape>& inputs, std::size_t operations);
/// The name of that work's kernel.
inline constexpr const char* kProgramCall = "program call";

}  // namespace tsq::kernels
