#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstddef>
#include <memory>
#include <optional>

namespace tsq {

/// An observer at work in this process. It does what the module's forward does, by compiled code, in the
/// module's own buffers: the state is the same after each tensor, bit for bit. It holds on to the buffers
/// that it was made with: nothing else may put others in their place.
class CompiledObserver {
 public:
  explicit CompiledObserver(const torch::jit::Module& observer);
  virtual ~CompiledObserver() = default;
  CompiledObserver(const CompiledObserver&) = delete;
  CompiledObserver& operator=(const CompiledObserver&) = delete;

  void observe(const at::Tensor& x);
  [[nodiscard]] const torch::jit::Module& module() const noexcept { return module_; }

 protected:
  /// False: forward must do it, for this tensor.
  virtual bool observe_values(const at::Tensor& x) = 0;

 private:
  void take_note_of(const at::Tensor& x);

  torch::jit::Module module_;
  std::size_t saw_other_dtype_;  ///< the slot of an attribute
  std::size_t ranks_;
};

/// Null where an observer has no compiled form: forward does it all.
std::unique_ptr<CompiledObserver> compiled_observer(const torch::jit::Module& observer);

struct Extremes {
  float lowest{};
  float highest{};
};
/// The extremes of a tensor that is not empty; none where they or their difference are not finite.
std::optional<Extremes> finite_extremes(const at::Tensor& x);
/// at::min and at::max of them, also as to which zero of two it is.
Extremes joined(const Extremes& one, const Extremes& other);

/// The buffers min_val and max_val of an observer of one range.
class RangeBuffers {
 public:
  /// None where they are not a float32 number each in this machine's memory.
  static std::optional<RangeBuffers> of(const torch::jit::Module& observer);

  [[nodiscard]] Extremes get() const;
  void set(const Extremes& extremes) const;

 private:
  RangeBuffers(at::Tensor min_val, at::Tensor max_val);

  at::Tensor min_val_;
  at::Tensor max_val_;
};

/// Whether a buffer is float32 without gaps, in this machine's memory.
bool is_plain_buffer(const at::Tensor& buffer);

}  // namespace tsq
