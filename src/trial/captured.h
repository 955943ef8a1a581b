#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/sample.h>

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tsq::detail {

/// Where a tensor that an operator reads comes from.
struct Source {
  enum class Kind {
    Operator,  ///< of the same run
    Argument,  ///< of forward, or of the program
    Constant   ///< a weight, a constant, or what nothing tells
  };
  Kind kind{Kind::Constant};
  std::size_t index{0};
  /// Codes that the tensor was between its maker and its reader: quantized and dequantized again. Undefined
  /// where nothing has rounded it there.
  at::Tensor rounded{};
};

/// An operator that ran, with its values.
struct Captured {
  std::string kind{};
  std::string layer{};  ///< with underscores in place of dots; empty where nothing tells
  std::string path{};   ///< the same as the model has it
  std::optional<c10::OperatorName> name{};
  std::vector<at::IValue> inputs{};       ///< as they were
  std::vector<Source> reads{};            ///< of each tensor of the inputs, those in lists as well
  std::vector<const void*> attributes{};  ///< weights and packed params of the model among the inputs
  at::Tensor input{};                     ///< the first tensor of the inputs, as it was
  at::Tensor output{};                    ///< the first of the outputs, as it was
  bool is_view{false};                    ///< the output is an input in another form, as the schema says
  bool overwrites{false};                 ///< it has written into an input that its schema does not name
  // Of an operation of a fused program.
  std::optional<std::size_t> program{};  ///< the calls of programs before, in the same run
  std::size_t steps{1};  ///< of its kind that it has in the program: a recurrent layer has several
  at::Tensor weight{};   ///< real numbers; its codes are the last of the inputs
  /// On other tensors in place of the first inputs; empty: not possible.
  std::function<at::Tensor(const std::vector<at::Tensor>& inputs)> compute{};
};

/// All defined tensors of a value: of lists and tuples those in them.
void collect_tensors(const at::IValue& value, std::vector<at::Tensor>& tensors);
std::vector<at::Tensor> tensors_of(std::span<const at::IValue> values);

/// Whether a tensor holds bytes that may be codes; truths are none.
[[nodiscard]] bool holds_codes(const at::Tensor& tensor);

/// The operators of one run of forward, in order; of fused programs, their operations. `unfrozen`: of a model
/// that was frozen after it was loaded, what it was. Throws what LibTorch throws.
std::vector<Captured> capture(const torch::jit::Module& module, const Sample& sample,
                              const torch::jit::Module* unfrozen = nullptr);

std::set<std::string> layers_in(const std::vector<Captured>& operators);

}  // namespace tsq::detail
