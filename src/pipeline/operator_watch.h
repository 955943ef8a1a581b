#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/tensor_memory.h"

namespace tsq::detail {

/// "conv2d" for aten::conv2d, quantized::conv2d_relu and onednn::qconv2d_pointwise; empty for what has no
/// weight.
std::string_view weighted_kind(std::string_view name, std::span<const c10::IValue> arguments);

/// What an operator that runs takes and returns. Of calls out of the interpreter LibTorch hands over the
/// whole stack, at whose end these are.
std::span<const c10::IValue> arguments_of(const at::RecordFunction& function);
std::span<const c10::IValue> results_of(const at::RecordFunction& function);

/// A module that is called: the last of the names by which its caller reads it, and its class.
struct CalledModule {
  std::string name{};
  std::string type{};
};
/// The modules that LibTorch's interpreter is in, the outermost first: features and 0 in "TOP(Net)::forward",
/// "features(Sequential)::forward", "0(Conv2d)::forward", "SELF(Conv2d)::_conv_forward".
std::vector<CalledModule> called_modules(std::span<const std::string> calls);

/// Which layer of a model an operator belongs to: the one whose weight it takes, within the module that calls
/// it, or else that module. A file that was frozen holds neither names nor modules: its layers are
/// "conv2d_0", "linear_0", "linear_1", in the order of the first run, as prepare names them. For one thread.
class LayerNames {
 public:
  explicit LayerNames(const torch::jit::Module& module);
  /// "features.0.conv", in files of tsq's "features_0_conv"; empty where nothing tells. Of an operator that
  /// runs now. Modules of one class at the same places of several lists are told apart by their weights, or
  /// else by the order in which lists are run.
  std::string of(const at::RecordFunction& function);
  /// Whether a value is an attribute of the model: a weight, packed params. Of an operator whose name is
  /// known.
  [[nodiscard]] bool holds(const at::IValue& value) const;

 private:
  struct Place {
    std::string path{};
    std::string name{};
    std::string type{};
    std::vector<std::size_t> inside{};
  };
  std::size_t add(const torch::jit::Module& module, const std::string& path, const std::string& name);
  /// The modules that these calls may be in, in their order.
  const std::vector<std::size_t>& places_of(std::span<const CalledModule> calls);
  void add_nearest(std::size_t place, const CalledModule& call, std::vector<std::size_t>& found) const;
  [[nodiscard]] std::size_t next_of(const std::vector<std::size_t>& places) const;
  [[nodiscard]] bool is_beside_last(std::size_t place) const;
  [[nodiscard]] std::string numbered(const at::RecordFunction& function);

  std::vector<Place> places_{};  ///< of all modules, the model's first
  std::unordered_map<const void*, std::string> owners_{};
  std::unordered_map<std::string, std::size_t> place_of_{};            ///< by path
  std::unordered_map<std::string, std::vector<std::size_t>> known_{};  ///< by the calls
  std::size_t last_{0};                                                ///< the place of the operator before
  bool is_frozen_{false};
  std::unordered_map<std::string, std::size_t> numbers_{};  ///< of layers of a frozen file, by kind
};

/// While it lives, sees the operators that LibTorch dispatches on this thread and that no other operator
/// calls. The model runs as ever. One at a time.
class OperatorWatch {
 public:
  using Callback = std::function<void(const at::RecordFunction&)>;
  /// `with_outputs`: the functions that `ended` gets have their outputs.
  OperatorWatch(Callback begins, Callback ended, bool with_outputs);
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;
  ~OperatorWatch();

 private:
  at::CallbackHandle handle_;
};

}  // namespace tsq::detail
