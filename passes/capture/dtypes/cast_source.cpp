#include "passes/capture/dtypes/cast_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "passes/context/names.h"

namespace tsq::passes {
namespace {

int number_of(ScalarType dtype) { return static_cast<int>(dtype); }

std::string is_now_float() { return fmt::format("x.dtype == {}", number_of(ScalarType::Float)); }

std::string cast_if(std::string_view condition, ScalarType dtype) {
  return fmt::format("    if {}:\n        x = x.to(dtype={})\n", condition, number_of(dtype));
}

/// Writes methods that cast values, those of a type calling those of its elements.
class CastMethods {
 public:
  /// `statements` change a tensor `x`.
  explicit CastMethods(std::string statements) : statements_(std::move(statements)) {}

  /// The name of the method that casts values of `type`; empty where there can be none.
  std::string method_for(const c10::TypePtr& type) {
    switch (type->kind()) {
      case TypeKind::TensorType:
        return method(type, statements_ + "    return x\n");
      case TypeKind::ListType:
        return of_elements(type, type->containedType(0),
                           "    result: {0} = []\n    for e in x:\n        result.append(self.{1}(e))\n    "
                           "return result\n");
      case TypeKind::DictType:
        return of_elements(type, type->containedType(1),
                           "    result: {0} = {{}}\n    for k, v in x.items():\n        result[k] = "
                           "self.{1}(v)\n    return result\n");
      case TypeKind::OptionalType:
        return of_elements(type, type->containedType(0),
                           "    result: {0} = None\n    if x is not None:\n        result = self.{1}(x)\n    "
                           "return result\n");
      case TypeKind::TupleType:
        return of_tuple(type);
      case TypeKind::IntType:
      case TypeKind::FloatType:
      case TypeKind::BoolType:
      case TypeKind::StringType:
        return method(type, "    return x\n");
      default:
        return {};
    }
  }

  [[nodiscard]] const std::string& source() const { return source_; }

 private:
  std::string of_elements(const c10::TypePtr& type, const c10::TypePtr& element, const std::string& body) {
    const std::string inner = method_for(element);
    return inner.empty() ? inner
                         : method(type, fmt::format(fmt::runtime(body), type->annotation_str(), inner));
  }

  std::string of_tuple(const c10::TypePtr& type) {
    if (type->cast<c10::TupleType>()->schema() != nullptr) return {};
    std::string elements;
    for (std::size_t i = 0; i < type->containedTypeSize(); ++i) {
      const std::string inner = method_for(type->containedType(i));
      if (inner.empty()) return {};
      elements += fmt::format("self.{}(x[{}]), ", inner, i);
    }
    return method(type, fmt::format("    return ({})\n", elements));
  }

  std::string method(const c10::TypePtr& type, const std::string& body) {
    const std::string name = fmt::format("cast_{}", methods_++);
    source_ += fmt::format("def {0}(self, x: {1}) -> {1}:\n{2}", name, type->annotation_str(), body);
    return name;
  }

  std::string statements_;
  std::string source_{};
  int methods_{0};
};

}  // namespace

std::string cast_to_float(const Dtypes& replaced) {
  std::vector<std::string> tests;
  for (const ScalarType dtype : replaced) tests.push_back(fmt::format("x.dtype == {}", number_of(dtype)));
  return cast_if(fmt::format("{}", fmt::join(tests, " or ")), ScalarType::Float);
}

std::string cast_from_float(ScalarType dtype) { return cast_if(is_now_float(), dtype); }

std::string cast_to_dtype_of_like(const Dtypes& replaced, std::optional<ScalarType> known) {
  std::string source = fmt::format("    if {}:\n", is_now_float());
  std::string_view branch = "if";
  const auto add = [&](const std::string& condition, ScalarType dtype) {
    source +=
        fmt::format("        {}{}:\n            x = x.to(dtype={})\n", branch, condition, number_of(dtype));
    branch = "elif";
  };
  Dtypes of_input = replaced;
  of_input.insert(ScalarType::Float);
  for (const ScalarType dtype : of_input) {
    add(fmt::format(" like.dtype == {}", number_of(dtype)), known ? c10::promoteTypes(dtype, *known) : dtype);
  }
  branch = "else";
  if (known) add("", *known);
  return source;
}

std::optional<std::string> cast_module_source(const c10::TypePtr& type, const std::string& statements) {
  CastMethods methods(statements);
  const std::string cast = methods.method_for(type);
  if (cast.empty()) return std::nullopt;
  return fmt::format("{0}def forward(self, x: {1}) -> {1}:\n    return self.{2}(x)\n", methods.source(),
                     type->annotation_str(), cast);
}

std::optional<std::string> cast_like_module_source(const c10::TypePtr& type, const std::string& statements) {
  if (type->kind() != TypeKind::TensorType) return std::nullopt;
  return fmt::format("def forward(self, x: Tensor, like: Tensor) -> Tensor:\n{}    return x\n", statements);
}

}  // namespace tsq::passes
