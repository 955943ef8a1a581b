#include "noise/noise_by_name.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "ir/analysis.h"
#include "ir/scaled_observer.h"

namespace tsq::noise {
namespace {

/// An observer whatever makes its value, and however that is scaled.
std::string name_of_observer(const ir::Model& model, const ir::Node* node) {
  return ir::unscaled_name(ir::observer_of(model, node).name) + "/";
}

std::string name_of(const ir::Model& model, const ir::Node* node) {
  if (ir::is_observer(node))
    return name_of_observer(model, node) + ir::before_observers(node->input(0))->debugName();
  return node->outputs().empty() ? std::string() : node->outputs().front()->debugName();
}

/// As JSON has it: what is not a number has ruined the output.
std::vector<double> finite(std::vector<double> shares) {
  constexpr double kRuined = 1e6;
  for (double& share : shares) {
    if (!(share < kRuined)) share = kRuined;
  }
  return shares;
}

}  // namespace

NoiseByName::NoiseByName(const ir::Model& model, const NoiseModel& noise) : outputs_(noise.outputs().size()) {
  struct Nodes {
    std::size_t scaled{0};
    std::size_t others{0};
  };
  std::map<std::string, Nodes> of_observers;
  const auto is_scaled = [&](const ir::Node* node) {
    return ir::observer_of(model, node).name.ends_with(ir::kScaledSuffix);
  };
  for (const ir::Node* node : noise.roundings()) {
    if (!ir::is_observer(node)) continue;
    Nodes& nodes = of_observers[name_of_observer(model, node)];
    ++(is_scaled(node) ? nodes.scaled : nodes.others);
  }
  for (const ir::Node* node : noise.roundings()) {
    const std::vector<double> shares = finite(noise.of(node)->of_outputs);
    if (!ir::is_observer(node)) {
      shares_.emplace(name_of(model, node), shares);
      continue;
    }
    const Nodes& nodes = of_observers.at(name_of_observer(model, node));
    if (nodes.others > 1 || nodes.scaled == 0) shares_.emplace(name_of(model, node), shares);
    if (nodes.others > 1 && !is_scaled(node)) continue;
    // What became several, each with other scales, is one before.
    std::vector<double>& sums = shares_[name_of_observer(model, node)];
    sums.resize(shares.size());
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += shares[k];
  }
}

std::span<const double> NoiseByName::of_outputs(const ir::Model& copy, const ir::Node* node) const {
  auto found = shares_.find(name_of(copy, node));
  if (found == shares_.end() && ir::is_observer(node)) found = shares_.find(name_of_observer(copy, node));
  if (found == shares_.end()) return {};
  return found->second;
}

double NoiseByName::of_all(const ir::Model& copy, const ir::Node* node) const {
  const std::span<const double> shares = of_outputs(copy, node);
  return std::accumulate(shares.begin(), shares.end(), 0.0);
}

nlohmann::json NoiseByName::to_dict() const { return {{"outputs", outputs_}, {"shares", shares_}}; }

NoiseByName NoiseByName::from_dict(const nlohmann::json& json) {
  NoiseByName noise;
  json.at("outputs").get_to(noise.outputs_);
  json.at("shares").get_to(noise.shares_);
  return noise;
}

}  // namespace tsq::noise
