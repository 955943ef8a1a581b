#include "trial/candidates.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_map>

#include "ir/analysis.h"

namespace tsq::detail {
namespace {

double bytes_of(const at::Tensor& weight) {
  return weight.defined() ? static_cast<double>(weight.nbytes()) : 0;
}

/// Of the weights that a call has, or the module that it calls.
double weight_bytes(const ir::ModuleCall& call) {
  if (const ir::Weighted* weighted = ir::weighted_of(call)) return bytes_of(weighted->weight);
  if (call.embedding) return bytes_of(call.embedding->weight);
  double bytes = 0;
  if (call.module) {
    for (const at::Tensor& parameter : call.module->parameters()) bytes += bytes_of(parameter);
  }
  return bytes;
}

/// Of each layer. A module that is called several times has its weights once.
std::vector<double> weight_bytes(const Calibrated& model) {
  std::unordered_map<std::string, const ir::ModuleCall*> calls;
  for (const ir::Node* node : ir::nodes_in_order(*model.stage.model.graph)) {
    if (ir::is_module_call(node))
      calls.emplace(node->output()->debugName(), &ir::call_of(model.stage.model, node));
  }
  std::vector<double> bytes;
  for (const QuantizedLayer& layer : model.layers) {
    std::map<std::string, double> of_modules;
    for (const std::string& node : layer.nodes) {
      const auto call = calls.find(node);
      if (call != calls.end()) of_modules[call->second->path] = weight_bytes(*call->second);
    }
    double sum = 0;
    for (const auto& [path, each] : of_modules) sum += each;
    bytes.push_back(sum);
  }
  return bytes;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

Indices without(const Indices& indices, const Indices& others) {
  Indices rest;
  std::ranges::copy_if(indices, std::back_inserter(rest),
                       [&](std::size_t index) { return std::ranges::find(others, index) == others.end(); });
  return rest;
}

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
      model_(calibrated(prepared)),
      weight_bytes_(weight_bytes(model_)) {}

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
  double macs = 0;
  for (const QuantizedLayer& each : model_.layers) macs += static_cast<double>(each.macs.value_or(0));
  const double bytes = std::accumulate(weight_bytes_.begin(), weight_bytes_.end(), 0.0);
  work_.clear();
  for (std::size_t i = 0; i < size(); ++i)
    work_.push_back(share(static_cast<double>(model_.layers[i].macs.value_or(0)), macs) +
                    share(weight_bytes_[i], bytes));
}

double Candidates::work(std::size_t layer) const {
  constexpr double kLeast = 1e-9;
  return work_.empty() ? 1 : std::max(kLeast, work_[layer]);
}

std::set<std::size_t> Candidates::int8(const Report& report) const {
  std::set<std::size_t> layers;
  for (std::size_t i = 0; i < size(); ++i) {
    if (is_quantized(report, model_.layers[i])) layers.insert(i);
  }
  return layers;
}

Prepared Candidates::leaving_float(const Indices& kept_float) const {
  return detail::leaving_float(prepared_, float_nodes(model_, kept_float));
}

Reference Candidates::reference(const Indices& kept_float) const {
  return with_float_nodes(model_, backend_, float_nodes(model_, kept_float), custom_);
}

Made Candidates::make(const Indices& kept_float) const {
  return lowered(reference(kept_float), backend_, lowering_);
}

}  // namespace tsq::detail
