// Models with some layers in float, out of one calibration.

#include "pipeline/float_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "backends/kernels/engine.h"
#include "backends/kernels/engine_packing.h"
#include "base/libtorch_error.h"
#include "match/qconfig_lookup.h"
#include "passes/passes.h"
#include "pipeline/measure.h"

namespace tsq {
namespace detail {
namespace {

using ir::GraphModule;
using ir::Node;
using torch::jit::Module;

std::string name_of(const Node* node) {
  return node->outputs().empty() ? std::string() : node->outputs().front()->debugName();
}

GraphModule without_observers(const GraphModule& observed) {
  GraphModule gm = observed.copy();
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_observer(node)) continue;
    node->output()->replaceAllUsesWith(node->input(0));
    node->destroy();
  }
  return gm;
}

/// An operator of the model that is observed, and how a mapping names it.
struct Member {
  const Node* node{};
  std::size_t match{0};
  const Decision* decision{};
  const QConfigQuery* query{};
  std::string module_name{};  ///< empty: named by its use
  /// The match that returns what this one only moves or chooses from: it rounds nothing itself.
  std::optional<std::size_t> follows{};
};

bool is_within(const std::string& path, const std::string& module) {
  return path == module || path.starts_with(module + ".");
}

bool belong_together(const Member& a, const Member& b) {
  if (a.match == b.match || a.follows == b.match || b.follows == a.match) return true;
  return (!a.module_name.empty() && is_within(b.query->module_path, a.module_name)) ||
         (!b.module_name.empty() && is_within(a.query->module_path, b.module_name));
}

/// Groups of members by index, each sorted, in the order of their first members.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<Member>& members) {
  std::vector<std::size_t> parent(members.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto root = [&](std::size_t i) {
    while (parent[i] != i) i = parent[i];
    return i;
  };
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (!belong_together(members[i], members[k])) continue;
      const std::size_t one = root(i);
      const std::size_t other = root(k);
      parent[std::max(one, other)] = std::min(one, other);
    }
  }
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < members.size(); ++i) groups[root(i)].push_back(i);
  std::vector<std::vector<std::size_t>> result;
  result.reserve(groups.size());
  for (auto& [first, group] : groups) result.push_back(std::move(group));
  return result;
}

std::optional<std::size_t> followed_by(const passes::MatchTable& table, const passes::Match& match) {
  const auto operands = ir::operands(match.root);
  if (!match.shares_observer || operands.empty()) return std::nullopt;
  const auto maker = table.match_of.find(operands.front()->node());
  return maker == table.match_of.end() ? std::nullopt : std::optional(maker->second);
}

OperatorUse use_of(const QConfigQuery& query) {
  return {.module_name = query.is_module ? query.parent_path : query.module_path,
          .type = query.order_type ? *query.order_type : query.targets.front(),
          .index = query.order_index};
}

QuantizedLayer layer_of(const std::vector<Member>& members, const std::vector<std::size_t>& group) {
  QuantizedLayer layer;
  std::vector<std::string> ops;
  for (const std::size_t index : group) {
    const Member& member = members[index];
    layer.nodes.push_back(member.decision->node);
    if (std::ranges::find(ops, member.decision->op) == ops.end()) ops.push_back(member.decision->op);
    if (member.module_name.empty()) {
      layer.uses.push_back(use_of(*member.query));
    } else if (std::ranges::find(layer.module_names, member.module_name) == layer.module_names.end()) {
      layer.module_names.push_back(member.module_name);
    }
  }
  layer.name = members[group.front()].decision->layer;
  constexpr std::size_t kShown = 2;
  const std::size_t shown = std::min(ops.size(), kShown);
  layer.op =
      fmt::format("{}{}", fmt::join(std::span(ops).first(shown), ", "), ops.size() > shown ? ", …" : "");
  return layer;
}

std::vector<QuantizedLayer> layers_of(const Stage& stage, const GraphModule& gm) {
  const passes::MatchTable table = matched(stage, gm, stage.mapping);
  const auto queries = match::qconfig_queries(gm);
  std::unordered_map<std::string, const Decision*> decisions;
  for (const Decision& decision : stage.report.decisions) {
    if (!decision.node.empty()) decisions.emplace(decision.node, &decision);
  }
  std::vector<Member> members;
  for (const auto& [node, query] : queries) {
    const auto match = table.match_of.find(node);
    const auto decision = decisions.find(name_of(node));
    if (match == table.match_of.end() || decision == decisions.end() ||
        ir::observed_qconfig(gm, node) == nullptr)
      continue;
    const auto qconfig = table.qconfig_of.find(node);
    const bool by_use = qconfig != table.qconfig_of.end() &&
                        qconfig->second.source == QConfigSource::ModuleNameObjectTypeOrder;
    members.push_back({.node = node,
                       .match = match->second,
                       .decision = decision->second,
                       .query = &query,
                       .module_name = query.is_module && !by_use ? query.module_path : std::string(),
                       .follows = followed_by(table, table.matches[match->second])});
  }
  std::vector<QuantizedLayer> layers;
  for (const auto& group : groups_of(members)) layers.push_back(layer_of(members, group));
  return layers;
}

void refuse_standalone(const Stage& stage) {
  if (stage.standalone.empty()) return;
  throw Error(ErrorCode::Unsupported, "layers inside of standalone modules cannot be kept float one by one",
              "remove the standalone modules from the prepare custom config");
}

constexpr const char* kChosen = "kept float to preserve the model's accuracy";

std::vector<QuantizedLayer> chosen(const Calibrated& model, std::span<const std::size_t> indices) {
  std::vector<QuantizedLayer> layers;
  for (const std::size_t index : indices) layers.push_back(model.layers[index]);
  return layers;
}

/// Whose fault it is when a model does not run.
struct Runs {
  std::string_view which;
  ErrorCode fault;
  std::string_view remedy;
};
constexpr Runs kFloat{
    .which = "float", .fault = ErrorCode::BadData, .remedy = "give samples that the model takes"};
/// The float model has run on the sample.
constexpr Runs kQuantized{
    .which = "quantized", .fault = ErrorCode::Internal, .remedy = "please report it with the model"};

/// What `call` returns, which runs a model on a sample. Specialising for shapes costs more than a few runs
/// take.
template <typename Call>
at::IValue run(const Call& call, std::size_t index, const Runs& model) {
  const torch::jit::GraphOptimizerEnabledGuard no_specialisation(false);
  const at::NoGradGuard no_grad;
  try {
    return call();
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    throw Error(model.fault,
                fmt::format("the {} model cannot run on sample {}: {}", model.which, index, reason_of(error)),
                std::string(model.remedy));
  }
}

std::vector<at::Tensor> values_of(const at::IValue& result) {
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : tensors_of(result)) values.push_back(tensor);
  return values;
}

}  // namespace

Calibrated calibrated(const Prepared& prepared) {
  const Stage& stage = *prepared.stage();
  refuse_standalone(stage);
  const at::NoGradGuard no_grad;
  const EngineGuard engine(stage.backend);
  find_mean_errors(*prepared.stage());
  Calibrated model{.stage = stage, .unobserved = without_observers(stage.gm)};
  model.stage.known_results =
      std::make_shared<const std::vector<passes::ObserverResult>>(observer_results(stage));
  model.layers = layers_of(stage, model.unobserved);
  return model;
}

void measure_layers(const Prepared& prepared, const Sample& sample, std::size_t rounds,
                    std::vector<QuantizedLayer>& layers) {
  Report report = prepared.report();
  measure(prepared, sample, rounds, report);
  std::unordered_map<std::string, const Decision*> decisions;
  for (const Decision& decision : report.decisions) decisions.emplace(decision.node, &decision);
  for (QuantizedLayer& layer : layers) {
    layer.macs = 0;
    if (rounds > 0) layer.seconds = 0;
    for (const std::string& node : layer.nodes) {
      const auto found = decisions.find(node);
      if (found == decisions.end()) continue;
      *layer.macs += found->second->macs.value_or(0);
      if (layer.seconds) *layer.seconds += found->second->seconds.value_or(0);
    }
  }
}

std::map<std::string, std::string> float_nodes(const Calibrated& model, std::span<const std::size_t> kept) {
  if (kept.empty()) return {};
  const EngineGuard engine(model.stage.backend);
  const QConfigMapping mapping = keep_float(model.stage.mapping, chosen(model, kept));
  const passes::MatchTable table = matched(model.stage, model.unobserved, mapping);
  std::map<std::string, std::string> left;
  for (const auto& [node, reason] : table.left_float) left.emplace(name_of(node), reason);
  std::map<std::string, std::string> quantized;
  for (const passes::Match& match : table.matches) {
    const auto qconfig = table.qconfig_of.find(match.last);
    if (qconfig == table.qconfig_of.end() || !qconfig->second.qconfig) continue;
    for (const Node* node : match.nodes) quantized.emplace(name_of(node), "");
  }
  std::map<std::string, std::string> nodes;
  for (const QuantizedLayer& layer : model.layers) {
    for (const std::string& node : layer.nodes) {
      if (quantized.contains(node)) continue;
      const auto reason = left.find(node);
      nodes.emplace(node, reason == left.end() ? kChosen : reason->second);
    }
  }
  return nodes;
}

std::map<std::string, std::string> all_but(const Calibrated& model, std::size_t layer) {
  std::map<std::string, std::string> nodes;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (i == layer) continue;
    for (const std::string& node : model.layers[i].nodes) nodes.emplace(node, kChosen);
  }
  return nodes;
}

Reference with_float_nodes(const Calibrated& model, const BackendConfig& backend,
                           std::map<std::string, std::string> nodes, const ConvertCustomConfig& custom) {
  Stage stage = model.stage;
  stage.kept_float = std::move(nodes);
  return convert_to_reference(Prepared(std::make_shared<Stage>(std::move(stage))), backend, custom);
}

FloatOutputs::FloatOutputs(const Module& model, std::vector<Sample> samples) : samples_(std::move(samples)) {
  if (samples_.empty())
    throw Error(ErrorCode::BadData, "there are no samples to judge on", "give at least one");
  Module own = model.deepcopy();  // running a model may change its buffers
  own.eval();
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const auto call = [&] { return own.get_method("forward")(copy_of(samples_[i])); };
    wanted_.push_back(values_of(run(call, i, kFloat)));
  }
  if (wanted_.front().empty())
    throw Error(ErrorCode::BadModel, "the model returns no tensor to compare",
                "give one whose forward returns tensors");
}

FloatOutputs::Comparison FloatOutputs::compare(const Module& model, at::QEngine engine) const {
  Comparison comparison{.outputs = std::vector<Agreement>(wanted_.front().size())};
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const auto call = [&] { return kernels::run_with_engine(model, engine, copy_of(samples_[i])); };
    const std::vector<at::Tensor> got = values_of(run(call, i, kQuantized));
    for (std::size_t k = 0; k < std::min(got.size(), wanted_[i].size()); ++k) {
      if (k >= comparison.outputs.size() || got[k].sizes() != wanted_[i][k].sizes()) {
        throw Error(ErrorCode::BadModel,
                    fmt::format("output {} has another shape in float and in int8 for sample {}", k, i),
                    "leave out the samples whose outputs depend on rounding");
      }
      comparison.outputs[k].add(wanted_[i][k], got[k]);
      comparison.whole.add(wanted_[i][k], got[k]);
    }
  }
  return comparison;
}

double sqnr_of(const Agreement& agreement) {
  const double db = agreement.sqnr_db();
  return std::isnan(db) ? -std::numeric_limits<double>::infinity() : db;
}

}  // namespace detail

std::string QuantizedLayer::to_text() const {
  if (module_names.empty() && uses.size() == 1) return fmt::format("'{}' ({} {})", name, op, uses[0].index);
  return fmt::format("'{}' ({})", name, op);
}

std::vector<QuantizedLayer> quantized_layers(const Prepared& prepared) {
  const detail::Stage& stage = *prepared.stage();
  detail::refuse_standalone(stage);
  return detail::layers_of(stage, detail::without_observers(stage.gm));
}

QConfigMapping keep_float(QConfigMapping mapping, std::span<const QuantizedLayer> layers) {
  for (const QuantizedLayer& layer : layers) {
    for (const std::string& name : layer.module_names) mapping.set_module_name(name, std::nullopt);
    for (const OperatorUse& use : layer.uses)
      mapping.set_module_name_object_type_order(use.module_name, use.type, use.index, std::nullopt);
  }
  return mapping;
}

}  // namespace tsq
