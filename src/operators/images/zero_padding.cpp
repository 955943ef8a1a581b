#include "operators/images/zero_padding.h"

#include <algorithm>

#include "operators/arguments.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

using ir::Model;
using ir::Node;

bool adds_zeros(const Model& model, const Node* pad) {
  const auto value = argument_constant(model, pad, "value", c10::aten::pad, "value");
  if (value) {
    return value->isNone() || (value->isDouble() && value->toDouble() == 0) ||
           (value->isInt() && value->toInt() == 0);
  }
  if (ir::is_module_call(pad)) return ir::call_of(model, pad).type.name.starts_with("torch.nn.ZeroPad");
  return argument_named(pad, "value") == nullptr;
}

bool is_constant_mode(const Model& model, const Node* pad) {
  if (ir::is_module_call(pad) || argument_named(pad, "mode") == nullptr) return true;
  const auto mode = argument_constant(model, pad, "mode");
  return mode && mode->isString() && mode->toStringRef() == "constant";
}

std::optional<std::vector<int64_t>> int_list(const std::optional<c10::IValue>& value) {
  if (!value) return std::nullopt;
  if (value->isIntList()) return value->toIntVector();
  if (!value->isTuple()) return std::nullopt;
  std::vector<int64_t> list;
  for (const c10::IValue& element : value->toTupleRef().elements()) {
    if (!element.isInt()) return std::nullopt;
    list.push_back(element.toInt());
  }
  return list;
}

}  // namespace

std::optional<Padding> zero_padding(const Model& model, const Node* pad, std::size_t dims) {
  const bool is_pad = is_one_of(model, pad, {"pad", "constant_pad_nd"});
  if (!is_pad || !adds_zeros(model, pad) || !is_constant_mode(model, pad)) return std::nullopt;
  const auto sides = int_list(argument_constant(model, pad, "pad", c10::aten::pad, "padding"));
  if (!sides || sides->size() > 2 * dims || sides->size() % 2 != 0) return std::nullopt;
  if (std::ranges::any_of(*sides, [](int64_t side) { return side < 0; })) return std::nullopt;
  Padding result{.before = std::vector<int64_t>(dims, 0), .after = std::vector<int64_t>(dims, 0)};
  for (std::size_t i = 0; i < sides->size() / 2; ++i) {
    result.before[dims - 1 - i] = (*sides)[2 * i];
    result.after[dims - 1 - i] = (*sides)[2 * i + 1];
  }
  return result;
}

}  // namespace tsq::operators
