#include "pipeline/reference_training.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <limits>
#include <optional>
#include <vector>

#include "base/tensor_memory.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "passes/weights/passes.h"

namespace tsq::detail {
namespace {

using torch::jit::Module;
using torch::jit::Node;
using torch::jit::Value;

/// The weights and biases of a graph's layers, rounded or not.
std::vector<at::Tensor*> parameters_of(ir::Model& model) {
  std::vector<at::Tensor*> parameters;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    ir::Weighted* layer = ir::is_module_call(node) ? ir::weighted_of(ir::call_of(model, node)) : nullptr;
    if (layer == nullptr) continue;
    for (at::Tensor* parameter : {&layer->weight, &layer->bias}) {
      if (parameter->defined() && parameter->scalar_type() == at::kFloat) parameters.push_back(parameter);
    }
  }
  return parameters;
}

/// The stage with parameters of its own, which learn; what several calls share stays one.
Stage with_own_parameters(const Stage& reference) {
  Stage stage = reference;
  stage.model = reference.model.copy();
  std::map<const void*, at::Tensor> copies;
  for (at::Tensor* parameter : parameters_of(stage.model)) {
    at::Tensor& copy = copies[parameter->const_data_ptr()];
    if (!copy.defined()) copy = parameter->detach().clone().set_requires_grad(true);
    *parameter = copy;
  }
  return stage;
}

std::map<const void*, std::string> names_by_memory(const Module& module) {
  std::map<const void*, std::string> names;
  for (const auto& parameter : module.named_parameters())
    names.emplace(memory_of(parameter.value), parameter.name);
  return names;
}

/// A whole number that a module's code reads.
std::optional<std::int64_t> number_read(const Module& module, const Value* value) {
  if (const auto constant = ir::whole_number_constant(value)) return constant;
  const Node* node = value->node();
  if (node->kind() != c10::prim::GetAttr) return std::nullopt;
  const c10::IValue held = module.attr(node->s(c10::attr::name), c10::IValue());
  return held.isInt() ? std::optional(held.toInt()) : std::nullopt;
}

/// The codes of a dtype; none for those that fake quantize operators do not have.
std::optional<std::pair<std::int64_t, std::int64_t>> codes_of(const std::optional<std::int64_t>& dtype) {
  if (dtype == static_cast<std::int64_t>(at::kQUInt8))
    return std::pair(std::numeric_limits<std::uint8_t>::min(), std::numeric_limits<std::uint8_t>::max());
  if (dtype == static_cast<std::int64_t>(at::kQInt8))
    return std::pair(std::numeric_limits<std::int8_t>::min(), std::numeric_limits<std::int8_t>::max());
  return std::nullopt;
}

/// What rounds as quantize and dequantize do, and hands gradients on; null where there is no such operator.
Value* fake_quantized(const Module& module, Node* dequantize) {
  const Node* quantize = dequantize->input(0)->node();
  const bool is_per_channel = quantize->kind() == ir::kQuantizePerChannel;
  if (quantize->kind() != ir::kQuantize && !is_per_channel) return nullptr;
  const auto codes = codes_of(number_read(module, quantize->inputs().back()));
  if (!codes) return nullptr;
  torch::jit::Graph& graph = *dequantize->owningGraph();
  const torch::jit::WithInsertPoint guard(dequantize);
  Value* input = quantize->input(0);
  Value* scale = quantize->input(1);
  Value* zero_point = quantize->input(2);
  if (!is_per_channel)
    return graph.insert(c10::Symbol::fromQualString("aten::fake_quantize_per_tensor_affine"),
                        {input, scale, zero_point, codes->first, codes->second});
  scale = graph.insert(c10::aten::to, {scale, at::kFloat});
  zero_point = graph.insert(c10::aten::to, {zero_point, at::kInt});
  return graph.insert(c10::Symbol::fromQualString("aten::fake_quantize_per_channel_affine"),
                      {input, scale, zero_point, quantize->input(3), codes->first, codes->second});
}

void round_with_gradients(const Module& module) {
  for (const auto& method : module.get_methods()) {
    const auto graph = method.graph();
    for (Node* node : ir::nodes_in_order(*graph)) {
      Value* rounded = node->kind() == ir::kDequantize ? fake_quantized(module, node) : nullptr;
      if (rounded == nullptr) continue;
      node->output()->replaceAllUsesWith(rounded);
      node->destroy();
    }
    ir::eliminate_dead_code(*graph);
  }
}

Error changed(const std::string& name, const char* how) {
  return Error(ErrorCode::BadModel,
               fmt::format("parameter '{}' of the trained reference model {}", name, how),
               "train the model that tsq prepare --qat made of the reference model, with a smaller step");
}

/// What training has made of the parameter `before`.
at::Tensor trained_value(const std::map<std::string, at::Tensor>& trained, const std::string& name,
                         const at::Tensor& before) {
  const auto found = trained.find(name);
  if (found == trained.end()) throw changed(name, "is gone");
  if (found->second.sizes() != before.sizes()) throw changed(name, "has another size");
  if (!at::isfinite(found->second).all().item<bool>()) throw changed(name, "has NaN or infinity");
  return found->second.detach();
}

}  // namespace

Module module_to_train(const Stage& reference) {
  if (!reference.standalone.empty())
    throw Error(ErrorCode::Unsupported, "a reference model with standalone modules does not train",
                "train the float model: tsq prepare --qat MODEL.pt");
  Stage stage = with_own_parameters(reference);
  Module module = module_of(stage);
  for (const Module& each : module.modules()) round_with_gradients(each);
  return module;
}

void take_parameters(Stage& reference, const std::map<std::string, at::Tensor>& trained) {
  Stage stage = with_own_parameters(reference);
  const auto names = names_by_memory(module_of(stage));
  for (at::Tensor* parameter : parameters_of(stage.model)) {
    const auto name = names.find(parameter->const_data_ptr());
    *parameter = name == names.end() ? parameter->detach() : trained_value(trained, name->second, *parameter);
  }
  reference.model = std::move(stage.model);
  // Codes that training has moved may sum to more than 16 bits.
  if (reference.options.recipe == Recipe::Best)
    passes::bound_pair_sums(reference.model, context_of(reference));
  reference.module = module_of(reference);
  reference.trained_parameters = trained;
}

}  // namespace tsq::detail
