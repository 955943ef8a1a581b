#include "backends/kernels/filter_bank.h"

#include <algorithm>

#include "backends/kernels/costs.h"
#include "backends/kernels/float_output_kernels.h"
#include "backends/kernels/layer_kind.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/functional_weighted.h"

namespace tsq::kernels {
namespace {

std::optional<ir::Weighted> convolution(const ir::Model& model, const ir::Node* node) {
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(model, node);
    return call.type.name == "torch.nn.Conv1d" ? call.weighted : std::nullopt;
  }
  return node->kind() == c10::aten::conv1d ? operators::float_functional_parameters(model, node)
                                           : std::nullopt;
}

bool has_one_channel(const ir::Weighted& weighted) {
  return !weighted.weight_qparams && weighted.weight.dim() == 3 && weighted.weight.size(1) == 1 &&
         weighted.groups == 1;
}

bool is_plain(const ir::Weighted& weighted) {
  return has_one_channel(weighted) && weighted.dilation == std::vector<int64_t>{1} &&
         weighted.padding == std::vector<int64_t>{0} && weighted.padding_name != "same";
}

/// Whether the engine has a kernel for it that returns float.
bool may_return_float(const Target& target, const ir::Model& model, const ir::Node* layer) {
  if (ir::is_module_call(layer) && layer->inputs().size() != 1) return false;
  const auto kind = layer_kind(model, layer);
  return kind && float_output_kernel(target.engine, kind->op, kind->post_op) != nullptr;
}

/// A function's filters may be what the model changes while it runs.
bool reads_one_of(const ir::Node* node, const std::unordered_set<std::string>& attributes) {
  return std::ranges::any_of(node->inputs(), [&](const ir::Value* value) {
    return value->node()->kind() == c10::prim::GetAttr &&
           attributes.contains(value->node()->s(c10::attr::name));
  });
}

}  // namespace

bool has_few_copies(const Target& target, const ir::Weighted& filters) {
  return filters.weight.size(2) <= costs_of(target).copies_of_signal * filters.stride.front();
}

bool slides_over_one_channel(const Target& target, const ir::Model& model, const ir::Node* node) {
  const auto found = convolution(model, node);
  return found && has_one_channel(*found) &&
         (has_few_copies(target, *found) || !may_return_float(target, model, node));
}

ir::Value* squared_value(const ir::Node* node) {
  const bool squares = node->kind() == c10::aten::square ||
                       (node->kind() == c10::aten::mul && node->input(0) == node->input(1)) ||
                       (node->kind() == c10::aten::pow && ir::number_constant(node->input(1)) == 2);
  return squares ? const_cast<ir::Value*>(node->input(0)) : nullptr;
}

std::vector<FilterBank> filter_banks(ir::Model& model) {
  std::vector<FilterBank> found;
  const auto written = ir::written_attributes(model);
  for (ir::Node* node : ir::nodes_in_order(*model.graph)) {
    auto filters = reads_one_of(node, written) ? std::nullopt : convolution(model, node);
    if (!filters || !is_plain(*filters)) continue;
    const std::string& path =
        ir::is_module_call(node) ? ir::call_of(model, node).path : ir::scope_of(model, node).path;
    found.push_back({node, *std::move(filters), path});
  }
  return found;
}

}  // namespace tsq::kernels
