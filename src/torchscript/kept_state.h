#pragma once

#include <torch/csrc/jit/api/module.h>

#include <span>
#include <string>
#include <vector>

namespace tsq::torchscript {

/// What calls of some methods leave in a module for later calls: attributes that they assign, and tensors,
/// lists and dictionaries of attributes that they write into, running statistics of norms that train among
/// them. While this lives, calls change copies of them; then the module has its own again, as they were.
class KeptState {
 public:
  /// `apart`: modules whose state is not meant, nor that of what is in them.
  explicit KeptState(const torch::jit::Module& module, const std::vector<std::string>& methods = {"forward"},
                     std::span<const torch::jit::Module> apart = {});
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;
  ~KeptState();

  /// The next call finds the state that the module had when this was made.
  void begin() const;
  /// Whether a call may depend on those before it: they also read what they change.
  [[nodiscard]] bool is_read() const noexcept { return is_read_; }

 private:
  struct Part {
    c10::intrusive_ptr<c10::ivalue::Object> owner{};
    std::size_t slot{0};
    c10::IValue own{};
  };
  std::vector<Part> parts_{};
  bool is_read_{false};
};

/// Whether a call of a method may depend on those before it: its samples are a sequence, in their order.
[[nodiscard]] bool keeps_state(const torch::jit::Module& module, const std::string& method = "forward");

}  // namespace tsq::torchscript
