#pragma once

#include <ATen/core/Tensor.h>

#include <variant>

#include "ir/model.h"

namespace tsq::operators {

/// How much of the error of its input an activation passes on, by the input: the square of its derivative.
struct PassesAll {};
struct PassesBetween {
  double lowest{};
  double highest{};
};
/// All above zero, a share of it (for each channel, or for all) below.
struct PassesBelowZero {
  at::Tensor share{};
};
/// As hardswish, to which SiLU is alike.
struct PassesAsHardswish {};
using ErrorPassage = std::variant<PassesAll, PassesBetween, PassesBelowZero, PassesAsHardswish>;

/// That of the operator which alone reads what `layer` returns, rounded or not, or is fused with it. `dims`:
/// of the tensor, after the channels.
ErrorPassage error_passage_after(const ir::Model& model, const ir::Node* layer, int64_t dims);

at::Tensor passed_share(const ErrorPassage& passage, const at::Tensor& x);
/// The integral of passed_share: where two tensors agree in its mean, the errors that get through cancel.
at::Tensor passed_integral(const ErrorPassage& passage, const at::Tensor& x);

}  // namespace tsq::operators
