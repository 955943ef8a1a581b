#include "passes/capture/dtypes/told_dtypes.h"

#include "ir/constants.h"
#include "passes/context/names.h"

namespace tsq::passes {

std::optional<std::size_t> argument_position(const Node* node, const std::string& name) {
  const c10::FunctionSchema* schema = nullptr;
  std::size_t first = 0;
  if (node->kind() == c10::prim::CallFunction) {
    const auto function = node->input(0)->type()->cast<c10::FunctionType>();
    if (!function) return std::nullopt;
    schema = &function->function()->getSchema();
    first = 1;
  } else if (node->kind().is_aten()) {
    schema = node->maybeSchema();
  }
  if (schema == nullptr) return std::nullopt;
  const auto index = schema->argumentIndexWithName(name);
  if (!index || static_cast<std::size_t>(*index) + first >= node->inputs().size()) return std::nullopt;
  return static_cast<std::size_t>(*index) + first;
}

/// view(dtype) reads the bytes of a tensor anew: it converts nothing.
std::optional<std::size_t> dtype_position(const Node* node) {
  if (node->kind() == c10::aten::view) return std::nullopt;
  return argument_position(node, "dtype");
}

std::optional<ScalarType> constant_dtype(const Node* node) {
  const auto position = dtype_position(node);
  return position ? ir::dtype_constant(node->input(*position)) : std::nullopt;
}

}  // namespace tsq::passes
