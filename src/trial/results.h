#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <tsq/trial.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tsq::detail {

/// The numbers at one place of a result, and how far another result is from them.
struct OutputError {
  std::string place{};            ///< "output", "output[1]", "output['logits']"
  at::Tensor wanted{};            ///< the numbers that are right
  at::Tensor got{};               ///< the others; none of complex numbers
  std::optional<double> error{};  ///< power of the difference; none of whole numbers
};

/// All outputs of a result, in order.
struct ResultErrors {
  std::vector<OutputError> outputs{};
  std::size_t different_shapes{0};  ///< of outputs that are not compared
};

/// Holds one result against another: fills `errors`, or returns what is wrong with `got`. `free_shapes`:
/// lengths of tensors and lists depend on values, and may differ.
std::optional<TrialFault> compare_results(const c10::IValue& wanted, const c10::IValue& got, bool free_shapes,
                                          ResultErrors& errors);

/// Fills in what a trial says of outputs and samples from the errors of each sample. `beside` are results of
/// the float model for further samples, by which the power of its outputs is known better.
void sum_up(std::span<const ResultErrors> samples, std::span<const ResultErrors> beside, Trial& trial);

}  // namespace tsq::detail
