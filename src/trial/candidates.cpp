#include "trial/candidates.h"

#include <algorithm>
#include <numeric>

namespace tsq::detail {

Made unlowered(Reference reference) {
  return {.module = reference.module(), .report = reference.report(), .reference = std::move(reference)};
}

Made lowered(Reference reference, const BackendConfig& backend, const LoweringOptions& options) {
  const Lowered result = lower(reference, backend, options);
  return {.module = result.module(), .report = result.report(), .reference = std::move(reference)};
}

Candidates::Candidates(const Prepared& prepared, const BackendConfig& backend,
                       const ConvertCustomConfig& custom, const LoweringOptions& lowering)
    : prepared_(prepared),
      backend_(backend),
      custom_(custom),
      lowering_(lowering),
      model_(calibrated(prepared)) {}

Indices Candidates::all() const {
  Indices indices(size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

std::vector<QuantizedLayer> Candidates::layers(const Indices& indices) const {
  return chosen(model_.layers, indices);
}

void Candidates::count_work(const Sample& sample) {
  measure_layers(prepared_, sample, /*rounds=*/0, model_.layers);
}

double Candidates::work(std::size_t layer) const {
  return std::max(1.0, static_cast<double>(model_.layers[layer].macs.value_or(0)));
}

Reference Candidates::reference(const Indices& kept_float) const {
  return with_float_nodes(model_, backend_, float_nodes(model_, kept_float), custom_);
}

Made Candidates::make(const Indices& kept_float) const {
  return lowered(reference(kept_float), backend_, lowering_);
}

}  // namespace tsq::detail
