#include "match/root_modules.h"

#include <algorithm>
#include <array>

#include "match/dtype_check.h"

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

/// The class that a class of layers trains in place of; others are their own.
Symbol class_after_training(const BackendConfig& backend, Symbol type) {
  const auto row = std::ranges::find_if(
      backend.configs(), [&](const BackendPatternConfig& each) { return each.qat_module == type; });
  return row == backend.configs().end() ? type : row->key().symbol;
}

}  // namespace

std::optional<Symbol> reference_module_of(const BackendConfig& backend, const ir::ModuleCall& call) {
  const Symbol type = class_after_training(backend, call.type);
  const bool is_container = !call.members.empty() && type != call.members.front().type;
  if (is_container && !is_fused_class(backend, type)) return std::nullopt;
  const Symbol root = call.members.empty() ? type : call.members.front().type;
  std::optional<Symbol> reference;
  for (const BackendPatternConfig& row : backend.configs()) {
    if (row.root_module == root && row.reference_quantized_module) reference = row.reference_quantized_module;
  }
  return reference;
}

bool lacks_reference_module(const BackendConfig& backend, const ir::ModuleCall& call) {
  const Symbol type = class_after_training(backend, call.type);
  const bool has_weight =
      ir::weighted_of(call) != nullptr || std::ranges::find(kOtherRoots, type.name) != kOtherRoots.end();
  return has_weight && !reference_module_of(backend, call);
}

bool takes_quantized_weight(const BackendConfig& backend, const ir::ModuleCall& call,
                            const QConfig& qconfig) {
  if (call.type.kind == SymbolKind::Module && !reference_module_of(backend, call)) return false;
  const auto row = std::ranges::find_if(
      backend.configs(), [&](const BackendPatternConfig& each) { return each.key() == Pattern(call.type); });
  return row != backend.configs().end() && dtypes_supported(qconfig, row->dtype_configs) &&
         weight_is_quantized(qconfig);
}

}  // namespace tsq::match
