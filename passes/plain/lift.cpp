// What freezing opened becomes a call of a leaf module again.
//   conv2d(x, constant, constant, …) written in torch/nn/modules/conv.py   →   Conv2d(x)
// Functional calls in the user's own code stay what they are; a file without debug information does not tell,
// and then the module is meant.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/origin.h"
#include "operators/arguments.h"
#include "operators/traits.h"
#include "operators/weighted.h"
#include "passes/context/nodes.h"
#include "passes/plain/passes.h"
#include "torchscript/modules/synthesized.h"

namespace tsq::passes {
namespace {

using ir::ModuleCall;

/// The constant arguments of an operator by name.
class Arguments {
 public:
  Arguments(const Model& model, const Node* node) : model_(model), node_(node) {}

  [[nodiscard]] std::optional<c10::IValue> at(const char* name) const {
    const Value* value = operators::argument_named(node_, name);
    return value == nullptr ? std::nullopt : ir::held_value(model_, value);
  }
  [[nodiscard]] std::optional<at::Tensor> tensor(const char* name) const {
    const auto value = at(name);
    return value && value->isTensor() ? std::optional(value->toTensor()) : std::nullopt;
  }
  /// The tensor, undefined for None; empty when it is not known now.
  [[nodiscard]] std::optional<at::Tensor> optional_tensor(const char* name) const {
    const auto value = at(name);
    if (!value) return std::nullopt;
    return value->isTensor() ? std::optional(value->toTensor())
                             : (value->isNone() ? std::optional(at::Tensor()) : std::nullopt);
  }
  [[nodiscard]] std::vector<int64_t> list(const char* name) const {
    const auto value = at(name);
    return value && value->isIntList() ? value->toIntVector() : std::vector<int64_t>();
  }

 private:
  const Model& model_;
  const Node* node_;
};

std::optional<ModuleCall> sound_call(Symbol type, ir::Weighted weighted) {
  if (!operators::is_sound(type, weighted)) return std::nullopt;
  return ModuleCall{.type = type, .weighted = std::move(weighted)};
}

std::optional<ModuleCall> lifted_linear(const Model& model, const Node* node) {
  const Arguments arguments(model, node);
  const auto weight = arguments.tensor("weight");
  const auto bias = arguments.optional_tensor("bias");
  if (!weight || weight->dim() != 2 || !bias) return std::nullopt;
  const bool was_frozen = !weight->requires_grad() && weight->is_floating_point();
  return sound_call(symbol("torch.nn.Linear"),
                    {.weight = *weight, .bias = *bias, .was_frozen = was_frozen, .origin = *weight});
}

std::optional<ModuleCall> lifted_convolution(const Model& model, const Node* node, bool transposed) {
  const Arguments arguments(model, node);
  const auto weight = arguments.tensor("weight");
  const auto bias = arguments.optional_tensor("bias");
  const auto stride = arguments.list("stride");
  const auto groups = arguments.at("groups");
  const auto padding = arguments.at("padding");
  const auto dilation = arguments.list("dilation");
  const std::vector<int64_t> none(stride.size(), 0);
  const auto output_padding = transposed ? arguments.list("output_padding") : none;
  // What is computed when the model runs is no module's constant.
  if (!weight || !bias || stride.empty() || dilation.empty() || output_padding.empty() || !groups || !padding)
    return std::nullopt;
  const bool is_word = padding->isString();
  return sound_call(symbol(fmt::format("torch.nn.Conv{}{}d", transposed ? "Transpose" : "", stride.size())),
                    {.weight = *weight,
                     .bias = *bias,
                     .stride = stride,
                     .padding = is_word ? none : arguments.list("padding"),
                     .output_padding = output_padding,
                     .dilation = dilation,
                     .groups = groups->toInt(),
                     .padding_name = is_word ? padding->toStringRef() : std::string(),
                     .origin = *weight});
}

/// BatchNorm2d asserts that its input has 4 dimensions, the others likewise.
std::optional<Symbol> asserted_class(const Value* input) {
  for (const auto& use : input->uses()) {
    if (use.user->kind() != c10::aten::dim) continue;
    for (const auto& comparison : use.user->output()->uses()) {
      if (comparison.user->kind() != c10::aten::ne) continue;
      const auto dims = ir::whole_number_constant(comparison.user->input(1));
      if (dims == 2 || dims == 3) return symbol("torch.nn.BatchNorm1d");
      if (dims == 4) return symbol("torch.nn.BatchNorm2d");
      if (dims == 5) return symbol("torch.nn.BatchNorm3d");
    }
  }
  return std::nullopt;
}

/// Whether a result has as many dimensions as the first operand.
bool keeps_dimensions(const Model& model, const Node* node) {
  return operators::has(operators::traits_of(model, node), operators::KeepsRank);
}

/// flatten(x, 1) has two dimensions.
bool flattens_to_rows(const Node* node) {
  const auto number = [&](const char* name) {
    const Value* value = operators::argument_named(node, name);
    return value == nullptr ? std::nullopt : ir::whole_number_constant(value);
  };
  return node->kind() == c10::aten::flatten && number("start_dim") == 1 && number("end_dim") == -1;
}

/// The class of a batch norm beside an operator, which tells the number of dimensions.
std::optional<Symbol> class_beside(const Model& model, const Node* node) {
  const std::string name = ir::display_name(model, node);
  for (const char* dims : {"1d", "2d", "3d"}) {
    if (name.ends_with(dims)) return symbol(fmt::format("torch.nn.BatchNorm{}", dims));
  }
  const bool is_linear = name == "torch.nn.Linear" || node->kind() == c10::aten::linear;
  return is_linear ? std::optional(symbol("torch.nn.BatchNorm1d")) : std::nullopt;
}

std::optional<Symbol> class_before(const Model& model, const Value* value) {
  while (value->node()->kind() != c10::prim::Param) {
    const Node* node = value->node();
    if (const auto found = class_beside(model, node)) return found;
    if (flattens_to_rows(node)) return symbol("torch.nn.BatchNorm1d");
    const auto operands = ir::operands(node);
    if (!keeps_dimensions(model, node) || operands.empty() || !ir::holds_tensor(operands.front()))
      return std::nullopt;
    value = operands.front();
  }
  return std::nullopt;
}

std::optional<Symbol> class_after(const Model& model, const Value* value) {
  for (const Node* user : ir::users(value)) {
    if (const auto found = class_beside(model, user)) return found;
    if (!keeps_dimensions(model, user) || user->outputs().size() != 1) continue;
    if (const auto found = class_after(model, user->output())) return found;
  }
  return std::nullopt;
}

/// A batch norm does not say how many dimensions its input has: its assertion does, or an operator before or
/// after it.
std::optional<Symbol> batch_norm_class(const Model& model, const Node* node) {
  if (const auto asserted = asserted_class(node->input(0))) return asserted;
  const auto before = class_before(model, node->input(0));
  return before ? before : class_after(model, node->output());
}

std::optional<ModuleCall> lifted_batch_norm(const Model& model, const Node* node) {
  const Arguments arguments(model, node);
  const auto mean = arguments.tensor("running_mean");
  const auto variance = arguments.tensor("running_var");
  const auto weight = arguments.optional_tensor("weight");
  const auto bias = arguments.optional_tensor("bias");
  const auto eps = arguments.at("eps");
  const auto training = arguments.at("training");
  const auto type = batch_norm_class(model, node);
  if (!mean || !variance || !weight || !bias || !eps || !training || training->toBool()) return std::nullopt;
  const Symbol likeliest = type.value_or(symbol("torch.nn.BatchNorm2d"));
  return ModuleCall{.type = likeliest,
                    .module = torchscript::make_batch_norm(likeliest, {.weight = *weight,
                                                                       .bias = *bias,
                                                                       .running_mean = *mean,
                                                                       .running_var = *variance,
                                                                       .eps = eps->toDouble()}),
                    .has_unknown_rank = !type};
}

std::optional<ModuleCall> lifted_prelu(const Model& model, const Node* node) {
  const auto weight = Arguments(model, node).tensor("weight");
  if (!weight) return std::nullopt;
  return ModuleCall{.type = symbol("torch.nn.PReLU"), .module = torchscript::make_prelu(*weight)};
}

std::optional<ModuleCall> lifted_softmax(const Model& model, const Node* node) {
  const Arguments arguments(model, node);
  const auto dim = arguments.at("dim");
  const auto dtype = arguments.at("dtype");
  if (!dim || !dtype || !dtype->isNone()) return std::nullopt;
  return ModuleCall{.type = symbol("torch.nn.Softmax"), .module = torchscript::make_softmax(dim->toInt())};
}

/// Whether an operator stands for a call of a torch.nn module. Batch norms and PReLUs hardly ever are
/// anything else; a softmax must be known to be.
bool is_of_a_module(const Node* node) {
  const ir::Origin origin = ir::origin_of(node);
  switch (node->kind()) {
    case c10::aten::batch_norm:
      return true;
    case c10::aten::softmax:
      return origin.in_module;
    default:
      return origin.in_module || origin.writer == ir::Origin::Writer::Unknown;
  }
}

std::optional<ModuleCall> lifted(const Model& model, const Node* node) {
  switch (node->kind()) {
    case c10::aten::linear:
      return lifted_linear(model, node);
    case c10::aten::conv1d:
    case c10::aten::conv2d:
    case c10::aten::conv3d:
      return lifted_convolution(model, node, /*transposed=*/false);
    case c10::aten::conv_transpose1d:
    case c10::aten::conv_transpose2d:
    case c10::aten::conv_transpose3d:
      return lifted_convolution(model, node, /*transposed=*/true);
    case c10::aten::batch_norm:
      return lifted_batch_norm(model, node);
    case c10::aten::prelu:
      return lifted_prelu(model, node);
    case c10::aten::softmax:
      return lifted_softmax(model, node);
    default:
      return std::nullopt;
  }
}

/// Whether an argument is state that the model writes: then it is no parameter of a layer.
bool reads_state(const Node* node, const std::unordered_set<std::string>& written) {
  return std::any_of(node->inputs().begin(), node->inputs().end(), [&](const Value* input) {
    return input->node()->kind() == c10::prim::GetAttr && written.contains(input->node()->s(c10::attr::name));
  });
}

/// A layer with a computed weight has the path of its module. Others have lost theirs: "conv2d_0", "conv2d_1"
/// … keep the layers of a report apart, after the path of what they are part of, where that is known.
std::string path_of(const Model& model, const Node* node, std::map<std::string, int>& counts) {
  const ir::Scope& scope = ir::scope_of(model, node);
  const bool is_layer = scope.type.name.starts_with("torch.nn.utils.parametrize.Parametrized") ||
                        operators::is_weighted(scope.type);
  if (is_layer && !scope.path.empty()) return scope.path;
  const std::string name =
      fmt::format("{}{}{}", scope.path, scope.path.empty() ? "" : ".", node->kind().toUnqualString());
  return fmt::format("{}_{}", name, counts[name]++);
}

}  // namespace

bool lift(Model& model, const PassContext& /*context*/) {
  bool changed = false;
  std::map<std::string, int> counts;
  const auto written = ir::written_attributes(model);
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (!node->kind().is_aten() || !is_of_a_module(node) || reads_state(node, written)) continue;
    auto call = lifted(model, node);
    if (!call) continue;
    call->path = path_of(model, node, counts);
    Value* made = ir::Rewriter(model, node).call(std::move(*call), {node->input(0)});
    replace_node(node, made->setType(node->output()->type()));
    changed = true;
  }
  return ir::eliminate_dead_code(*model.graph) || changed;
}

}  // namespace tsq::passes
