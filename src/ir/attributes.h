#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace tsq::ir {

/// An attribute of a module that is being made.
struct Attribute {
  std::string name{};
  c10::TypePtr type{};
  c10::IValue value{};
  bool is_parameter{false};
  bool is_buffer{false};
};

/// The attributes of a module that is being made, in their order. A torch::jit::Module compares a name with
/// that of each of its attributes; here one is found, added and copied at a cost that their number does not
/// change. Copies share tensors and objects.
class Attributes {
 public:
  [[nodiscard]] bool hasattr(const std::string& name) const { return slots_.contains(name); }
  /// Throws std::out_of_range where there is none.
  [[nodiscard]] const Attribute& at(const std::string& name) const { return all_[slots_.at(name)]; }
  [[nodiscard]] const c10::IValue& attr(const std::string& name) const { return at(name).value; }
  void setattr(const std::string& name, c10::IValue value);
  /// Throws std::logic_error where the name is taken.
  void add(Attribute attribute);

  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }

 private:
  std::vector<Attribute> all_{};
  std::unordered_map<std::string, std::size_t> slots_{};  ///< by name
};

/// The attribute of an object, by its number.
[[nodiscard]] Attribute attribute_at(const c10::ivalue::Object& object, std::size_t slot);
/// A module as an attribute of another one.
[[nodiscard]] Attribute submodule(const std::string& name, const torch::jit::Module& module);

/// A new attribute of a module. Module::register_attribute looks for its name three times among all others.
void add_attribute(torch::jit::Module& module, const Attribute& attribute);

}  // namespace tsq::ir
