#pragma once

#include <torch/csrc/jit/api/module.h>

#include <map>
#include <string>

namespace tsq::torchscript {

/// The module with other names for some of its methods, their calls among each other too. Attributes are
/// shared with it.
///   {generate: forward, forward: step}   →   generate is what forward(…) runs, and calls step
torch::jit::Module with_methods_renamed(const torch::jit::Module& module,
                                        const std::map<std::string, std::string>& names);

/// A method in forward's place, so that all that calls forward calls it: how names change, and change back.
struct MethodAsForward {
  MethodAsForward(const torch::jit::Module& module, const std::string& method);
  [[nodiscard]] torch::jit::Module put(const torch::jit::Module& module) const;
  [[nodiscard]] torch::jit::Module take_back(const torch::jit::Module& module) const;

 private:
  std::map<std::string, std::string> there_{};
  std::map<std::string, std::string> back_{};
};

}  // namespace tsq::torchscript
