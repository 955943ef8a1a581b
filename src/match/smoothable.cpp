#include "match/smoothable.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tsq::match {
namespace {

constexpr std::array<std::string_view, 3> kLayerNorms{"torch.nn.LayerNorm", "torch.nn.functional.layer_norm",
                                                      "torch.layer_norm"};
constexpr std::array<std::string_view, 4> kTransparent{"torch.nn.Dropout", "torch.nn.Identity",
                                                       "torch.nn.functional.dropout", "torch.dropout"};

template <std::size_t Size>
bool is_one_of(const ir::GraphModule& gm, const ir::Node* node,
               const std::array<std::string_view, Size>& names) {
  return std::ranges::any_of(ir::targets(gm, node), [&](const Symbol& target) {
    return std::ranges::find(names, target.name) != names.end();
  });
}

}  // namespace

ir::Node* layer_norm_behind(const ir::GraphModule& gm, ir::Value* value) {
  ir::Node* node = value->node();
  while (ir::is_observer(node) || is_one_of(gm, node, kTransparent))
    node = ir::arguments(node).front().value->node();
  return is_one_of(gm, node, kLayerNorms) ? node : nullptr;
}

}  // namespace tsq::match
