#include "match/root_modules.h"

#include <algorithm>
#include <array>

namespace tsq::match {
namespace {

/// Classes with weights that are no convolutions or linear layers.
constexpr std::array<std::string_view, 7> kOtherRoots{
    "torch.nn.Embedding", "torch.nn.EmbeddingBag", "torch.nn.LSTM",   "torch.nn.GRU",
    "torch.nn.LSTMCell",  "torch.nn.GRUCell",      "torch.nn.RNNCell"};

bool is_fused_class(const BackendConfig& backend, const Symbol& type) {
  return std::ranges::any_of(backend.configs(),
                             [&](const BackendPatternConfig& row) { return row.fused_module == type; });
}

}  // namespace

std::optional<Symbol> reference_module_of(const BackendConfig& backend, const ir::ModuleCall& call) {
  if (!call.members.empty() && !is_fused_class(backend, call.type)) return std::nullopt;
  const Symbol& root = call.members.empty() ? call.type : call.members.front().type;
  std::optional<Symbol> reference;
  for (const BackendPatternConfig& row : backend.configs()) {
    if (row.root_module == root && row.reference_quantized_module) reference = row.reference_quantized_module;
  }
  return reference;
}

bool lacks_reference_module(const BackendConfig& backend, const ir::ModuleCall& call) {
  const bool has_weight =
      ir::weighted_of(call) != nullptr || std::ranges::find(kOtherRoots, call.type.name) != kOtherRoots.end();
  return has_weight && !reference_module_of(backend, call);
}

}  // namespace tsq::match
