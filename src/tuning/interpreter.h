#pragma once

#include <vector>

#include "backends/kernels/kernel_work.h"
#include "tuning/kernel_call.h"

/// What LibTorch's interpreter takes between kernels.
namespace tsq::tuning {

/// Its name among kernels.
inline constexpr const char* kInterpreter = "interpreter";
/// The work of a run over so many nodes.
[[nodiscard]] kernels::KernelWork interpreter_work(std::size_t nodes);

/// Functions of some nodes, less what their operators take when they are called alone.
std::vector<MeasuredCall> measure_interpreter(int rounds);

}  // namespace tsq::tuning
