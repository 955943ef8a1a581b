#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/quantize.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tsq::detail {

/// An operator that ran, with its values.
struct Captured {
  std::string kind{};
  std::string layer{};  ///< with underscores in place of dots; empty where nothing tells
  std::string path{};   ///< the same as the model has it
  std::optional<c10::OperatorName> name{};
  std::vector<at::IValue> inputs{};
  at::Tensor input{};      ///< the first tensor of the inputs, as it was
  at::Tensor output{};     ///< the first of the outputs, as it was
  bool is_view{false};     ///< the output is an input in another form, as the schema says
  bool overwrites{false};  ///< it has written into an input that its schema does not name
  // Of an operation of a fused program.
  at::Tensor weight{};  ///< real numbers; its codes are the last of the inputs
  std::function<at::Tensor(const at::Tensor& input)> compute{};  ///< on another input; empty: not possible
};

/// The name of a layer in files of tsq's: "encoder_fc1".
std::string with_underscores(std::string path);

/// The operators of one run of forward, in order; of fused programs, their operations. Throws what LibTorch
/// throws.
std::vector<Captured> capture(torch::jit::Module& module, const Sample& sample);

/// Operators from one layer on up to the next.
struct Segment {
  std::string layer{};
  std::size_t begin{0};
  std::size_t end{0};
};

std::set<std::string> layers_in(const std::vector<Captured>& operators);
/// Cut where an operator of a layer of `layers` runs and the one before belongs to another; what comes before
/// the first has no segment.
std::vector<Segment> segments_of(const std::vector<Captured>& operators, const std::set<std::string>& layers);

}  // namespace tsq::detail
