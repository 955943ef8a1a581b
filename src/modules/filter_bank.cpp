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

bool has_one_channel(const ir::Weighted& weighted) {
  return !weighted.weight_qparams && weighted.weight.dim() == 3 && weighted.weight.size(1) == 1 &&
         weighted.groups == 1;
}

}  // namespace

bool reads_one_channel(const ir::GraphModule& gm, const ir::Node* node) {
  const auto found = convolution(gm, node);
  return found && has_one_channel(*found);
}

std::optional<ir::Weighted> filter_bank(const ir::GraphModule& gm, const ir::Node* node) {
  auto found = convolution(gm, node);
  const bool is_plain = found && has_one_channel(*found) && found->dilation == std::vector<int64_t>{1} &&
                        found->padding == std::vector<int64_t>{0} && found->padding_name != "same";
  return is_plain ? std::move(found) : std::nullopt;
}

}  // namespace tsq::modules
