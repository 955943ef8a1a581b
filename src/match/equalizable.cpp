#include "match/equalizable.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/traits.h"

namespace tsq::match {
namespace {

struct Kind {
  std::string_view name;
  int64_t channel_axis;
};
constexpr std::array kModules{
    Kind{"torch.nn.Linear", -1},
    Kind{"torch.nn.Conv1d", -2},
    Kind{"torch.nn.Conv2d", -3},
    Kind{"torch.nn.Conv3d", -4},
    Kind{"torch.ao.nn.intrinsic.LinearReLU", -1},
    Kind{"torch.ao.nn.intrinsic.ConvReLU1d", -2},
    Kind{"torch.ao.nn.intrinsic.ConvReLU2d", -3},
    Kind{"torch.ao.nn.intrinsic.ConvReLU3d", -4},
};
/// FX equalizes none of these.
constexpr std::array kWithAddend{
    Kind{"torch.ao.nn.intrinsic.ConvAdd2d", -3},
    Kind{"torch.ao.nn.intrinsic.ConvAddReLU2d", -3},
};
constexpr std::array kFunctionals{
    Kind{"torch.nn.functional.linear", -1},
    Kind{"torch.nn.functional.conv1d", -2},
    Kind{"torch.nn.functional.conv2d", -3},
    Kind{"torch.nn.functional.conv3d", -4},
};
template <std::size_t Size>
const Kind* find(const std::array<Kind, Size>& kinds, std::string_view name) {
  const auto found = std::ranges::find(kinds, name, &Kind::name);
  return found == kinds.end() ? nullptr : &*found;
}

std::optional<Equalizable> functional(const ir::Node* node, const Kind& kind) {
  const auto arguments = ir::arguments(node);
  if (arguments.size() < 2) return std::nullopt;
  Equalizable result{.channel_axis = kind.channel_axis, .weight = arguments[1].value};
  if (arguments.size() > 2 && !arguments[2].value->mustBeNone()) result.bias = arguments[2].value;
  return result;
}

}  // namespace

std::optional<Equalizable> equalizable(const ir::Model& model, const ir::Node* node) {
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(model, node);
    const Kind* kind = find(kModules, call.type.name);
    if (kind == nullptr || ir::weighted_of(call) == nullptr) return std::nullopt;
    return Equalizable{.channel_axis = kind->channel_axis};
  }
  for (const Symbol& target : ir::targets(model, node)) {
    if (const Kind* kind = find(kFunctionals, target.name)) return functional(node, *kind);
  }
  return std::nullopt;
}

std::optional<Equalizable> scalable(const ir::Model& model, const ir::Node* node) {
  if (auto kind = equalizable(model, node)) return kind;
  const ir::ModuleCall* call = ir::is_module_call(node) ? &ir::call_of(model, node) : nullptr;
  const Kind* kind = call == nullptr ? nullptr : find(kWithAddend, call->type.name);
  if (kind == nullptr || ir::weighted_of(*call) == nullptr) return std::nullopt;
  return Equalizable{.channel_axis = kind->channel_axis};
}

std::optional<at::Tensor> parameter_after(const ir::Model& model, const ir::Value* operand) {
  const ir::Node* node = operand->node();
  const std::string* name = ir::attribute_read(model, ir::is_observer(node) ? node->input(0) : operand);
  const c10::IValue value = name == nullptr ? c10::IValue() : model.attributes.attr(*name);
  return value.isTensor() ? std::optional(value.toTensor()) : std::nullopt;
}

bool is_relu(const ir::Model& model, const ir::Node* node) {
  return operators::is_one_of(model, node, {"relu"});
}

}  // namespace tsq::match
