#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tsq {

/// An attribute of a module with the value that a fresh one has. Tensors are buffers.
struct ObserverAttribute {
  std::string name{};
  c10::IValue value{};
  c10::TypePtr type{};  ///< null: the value's own
  bool is_parameter{false};
};
using ObserverState = std::vector<ObserverAttribute>;

/// A TorchScript class, compiled once; the configuration and state of an observer are attributes, so an
/// instance costs microseconds. Every class has a compilation unit to itself: classes may be defined from
/// several threads.
class ObserverClass {
 public:
  /// `source` defines the methods. The attributes are those of `state`.
  ObserverClass(const std::string& name, const ObserverState& state, const std::string& source);

  /// `state` has every attribute.
  [[nodiscard]] torch::jit::Module instance(const ObserverState& state) const;

 private:
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  c10::ClassTypePtr type_;
};

/// The class of this name and source, of which there is one. `variant` tells classes apart whose attributes
/// have different types.
const ObserverClass& shared_class(const std::string& name, const ObserverState& state,
                                  const std::string& source, const std::string& variant = {});

/// Attributes of every observer.
inline constexpr const char* kSawOtherDtype = "saw_other_dtype";
inline constexpr const char* kRanks = "ranks";  ///< a bit for each

/// PyTorch's qualified name of an observer's class.
std::string observer_qualified_name(std::string_view name);
/// `state` with what every observer has: `training`, `is_dynamic`, `saw_other_dtype`, `tensors_not_finite`
/// and `ranks`.
ObserverState observer_state(ObserverState state, bool is_dynamic);
/// `source` defines `observe(self, x: Tensor) -> Tensor` and what it calls. Added are forward, which calls it
/// and takes note of ranks and of tensors that are not float32, and `_finite(self, x: Tensor) -> Tensor`,
/// which tells finite values from others and takes note of tensors that have others.
std::string observer_source(std::string_view source);

/// The last part of a class's qualified name: "HistogramObserver", also of a mangled class out of a file.
std::string observer_class_name(const torch::jit::Module& observer);

/// Adds to `into` what `from` took note of: ranks, whether there was a tensor that is not float32, and how
/// many were not finite.
void merge_notes(torch::jit::Module& into, const torch::jit::Module& from);

}  // namespace tsq
