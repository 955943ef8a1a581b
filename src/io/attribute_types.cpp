#include "io/attribute_types.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <unordered_set>
#include <utility>
#include <vector>

namespace tsq::io {
namespace {

/// Containers have the types that the file gives them, or none: what they hold is looked at by itself.
bool is_of(const c10::IValue& value, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return value.isNone() || is_of(value, *type.expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::ListType:
      return value.isList();
    case c10::TypeKind::DictType:
      return value.isGenericDict();
    case c10::TypeKind::TupleType:
      return value.isTuple() && value.toTupleRef().elements().size() == type.containedTypes().size();
    case c10::TypeKind::TensorType:
      return value.isTensor();
    default:
      return value.type()->isSubtypeOf(type);
  }
}

class Attributes {
 public:
  explicit Attributes(const std::string& path) : path_(path) {}

  void check(const c10::IValue& root) {
    waiting_.push_back({root, ""});
    while (!waiting_.empty()) {
      const auto [value, name] = std::move(waiting_.back());
      waiting_.pop_back();
      if (value.isPtrType() && !seen_.insert(value.internalToPointer()).second) continue;
      if (value.isObject()) {
        add_slots(value.toObjectRef(), name);
      } else if (value.isTuple()) {
        for (const c10::IValue& part : value.toTupleRef().elements()) waiting_.push_back({part, name});
      } else if (value.isIntList() || value.isDoubleList() || value.isBoolList()) {
        continue;
      } else if (value.isList()) {
        for (const c10::IValue& part : value.toListRef()) waiting_.push_back({part, name});
      } else if (value.isGenericDict()) {
        for (const auto& entry : value.toGenericDict()) waiting_.push_back({entry.value(), name});
      }
    }
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorCode::BadModel, fmt::format("'{}' is damaged: {}", path_, problem),
                "export the model again");
  }

  void add_slots(const c10::ivalue::Object& object, const std::string& name) {
    const auto type = object.type();
    if (object.slots().size() < type->numAttributes())
      fail(fmt::format("its object '{}' lacks attributes that its code declares", name));
    for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const std::string inner =
          fmt::format("{}{}{}", name, name.empty() ? "" : ".", type->getAttributeName(slot));
      const c10::IValue& value = object.getSlot(slot);
      const c10::TypePtr& declared = type->getAttribute(slot);
      if (!is_of(value, *declared)) {
        fail(fmt::format("its attribute '{}' is a value of type {}, and its code declares {}", inner,
                         value.type()->repr_str(), declared->repr_str()));
      }
      waiting_.push_back({value, inner});
    }
  }

  const std::string& path_;
  std::vector<std::pair<c10::IValue, std::string>> waiting_{};
  std::unordered_set<const void*> seen_{};
};

}  // namespace

void check_attributes(const std::string& path, const torch::jit::Module& module) {
  Attributes(path).check(module._ivalue());
}

}  // namespace tsq::io
