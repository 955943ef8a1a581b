#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tsq {

/// An attribute of an observer's TorchScript class.
struct ObserverAttribute {
  std::string name;
  c10::TypePtr type;
  bool is_buffer{false};
};
ObserverAttribute buffer(std::string name);
ObserverAttribute integer(std::string name);
ObserverAttribute optional_integer(std::string name);
ObserverAttribute real(std::string name);
ObserverAttribute boolean(std::string name);

using ObserverValues = std::vector<std::pair<std::string, c10::IValue>>;

/// A TorchScript class named as PyTorch's own observer, compiled once; its configuration and state are
/// attributes, so an instance costs microseconds. Every class has a compilation unit to itself: classes may
/// be defined from several threads.
class ObserverClass {
 public:
  /// `source` defines `observe(self, x: Tensor) -> Tensor` and what it calls. Added are forward, which calls
  /// it and takes note of ranks and of tensors that are not float32, and the attributes `training`,
  /// `is_dynamic`, `saw_other_dtype` and `ranks`.
  ObserverClass(std::string_view name, std::vector<ObserverAttribute> attributes, const std::string& source);

  /// `values` has every attribute but the added ones.
  [[nodiscard]] torch::jit::Module instance(const ObserverValues& values, bool is_dynamic) const;

 private:
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  c10::ClassTypePtr type_;
};

/// The last part of a class's qualified name: "HistogramObserver", also of a mangled class out of a file.
std::string observer_class_name(const torch::jit::Module& observer);

void set_saw_other_dtype(torch::jit::Module& observer);

}  // namespace tsq
