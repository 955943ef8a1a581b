#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string_view>
#include <vector>

#include "runtime/program/program.h"
#include "tuning/draw.h"

/// Random fused programs of a few operations.
namespace tsq::tuning {

struct DrawnProgram {
  runtime::Model model{};
  std::vector<at::Tensor> constants{};  ///< those of the model
  at::Tensor input{};
  /// Its operations take hardly any time: what a call takes besides can be told.
  bool shows_call{false};
};

/// A kind of operation of which programs are drawn.
struct DrawnOperation {
  std::string_view name;  ///< as the time model has it: "int8 convolution"
  DrawnProgram (*program)(Draw& draw, const DrawnOperation& operation);
  int programs{64};  ///< that are measured, for a fit
};

std::span<const DrawnOperation> drawn_operations();

/// The time of each operation of a program, and of the call besides, as those of calls are taken.
/// kNotMeasured for operations of a slow program, nothing for sizes that have no kernel. With the threads
/// that LibTorch computes with now. Needs libtsq_runtime in the process.
std::vector<MeasuredCall> measure(const DrawnProgram& program, int rounds);

}  // namespace tsq::tuning
