#include "modules/filter_bank.h"

#include <algorithm>

#include "modules/functional_weighted.h"

namespace tsq::modules {
namespace {

std::optional<ir::Weighted> convolution(const ir::GraphModule& gm, const ir::Node* node) {
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(gm, node);
    return call.type.name == "torch.nn.Conv1d" ? call.weighted : std::nullopt;
  }
  return node->kind() == c10::aten::conv1d ? float_functional_parameters(gm, node) : std::nullopt;
}

}  // namespace

std::optional<ir::Weighted> filter_bank(const ir::GraphModule& gm, const ir::Node* node) {
  auto found = convolution(gm, node);
  const bool slides_over_one_channel =
      found && !found->weight_qparams && found->weight.dim() == 3 && found->weight.size(1) == 1 &&
      found->groups == 1 && found->dilation == std::vector<int64_t>{1} &&
      found->padding == std::vector<int64_t>{0} && found->padding_name != "same";
  return slides_over_one_channel ? std::move(found) : std::nullopt;
}

}  // namespace tsq::modules
