#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <span>
#include <string>
#include <unordered_map>

namespace tsq::detail {

/// The path in the calls that LibTorch's interpreter is in, the outermost first: "features.0" in
/// "TOP(Net)::forward", "features(Sequential)::forward", "0(Conv2d)::forward", "SELF(Conv2d)::_conv_forward".
std::string path_in_hierarchy(std::span<const std::string> calls);

/// Which layer of a model an operator belongs to: the one whose weight it takes, within the module that calls
/// it, or else that module.
class LayerNames {
 public:
  explicit LayerNames(const torch::jit::Module& module);
  /// "features.0.conv", in files of tsq's "features_0_conv"; empty where nothing tells. Of an operator that
  /// runs now, with its inputs.
  [[nodiscard]] std::string of(const at::RecordFunction& function) const;

 private:
  std::unordered_map<const void*, std::string> owners_{};
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
