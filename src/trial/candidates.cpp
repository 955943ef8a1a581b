#include "trial/candidates.h"

#include <algorithm>
#include <numeric>

namespace tsq::detail {

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
  std::vector<QuantizedLayer> chosen;
  for (const std::size_t index : indices) chosen.push_back(model_.layers[index]);
  return chosen;
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
  Made made{.reference = reference(kept_float), .module = {}};
  const Lowered lowered = lower(made.reference, backend_, lowering_);
  made.module = lowered.module();
  made.report = lowered.report();
  return made;
}

}  // namespace tsq::detail
