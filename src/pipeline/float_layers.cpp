// Models with some layers in float, out of one calibration.

#include "pipeline/float_layers.h"

#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <tsq/agreement.h>
#include <tsq/error.h>
#include <tsq/measure_operators.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <ranges>
#include <set>
#include <unordered_map>

#include "backends/kernels/engine_packing.h"
#include "base/libtorch_error.h"
#include "base/text.h"
#include "config/names/known_names.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/observer_results.h"
#include "match/qconfig_lookup.h"
#include "outputs/output_power.h"
#include "pipeline/run.h"
#include "torchscript/kept_state.h"

namespace tsq {
namespace detail {
namespace {

using ir::Model;
using ir::Node;
using torch::jit::Module;

std::string name_of(const Node* node) {
  return node->outputs().empty() ? std::string() : node->outputs().front()->debugName();
}

/// The graph matched anew, with another mapping.
Model matched(const Stage& stage, const Model& unobserved, const QConfigMapping& mapping) {
  Model model = unobserved.copy();
  for (ir::NodeRecord& record : model.records) {
    if (record.placement != ir::Placement::Written) record = {};
  }
  passes::PassContext context = context_of(stage);
  context.mapping = mapping;
  run(passes::Step::Match, model, context);
  return model;
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

/// Sets of members that stay float together.
class Unions {
 public:
  explicit Unions(std::size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t root(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    const std::size_t one = root(a);
    const std::size_t other = root(b);
    parent_[std::max(one, other)] = std::min(one, other);
  }

 private:
  std::vector<std::size_t> parent_;
};

/// Members of one match, and of one that only moves what another returns.
void join_matches(const std::vector<Member>& members, Unions& unions) {
  std::unordered_map<std::size_t, std::size_t> first_of_match;
  for (std::size_t i = 0; i < members.size(); ++i)
    unions.join(first_of_match.emplace(members[i].match, i).first->second, i);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto followed =
        members[i].follows ? first_of_match.find(*members[i].follows) : first_of_match.end();
    if (followed != first_of_match.end()) unions.join(followed->second, i);
  }
}

/// Members within a module that a mapping would name.
void join_modules(const std::vector<Member>& members, Unions& unions) {
  std::unordered_map<std::string, std::size_t> named;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].module_name.empty())
      unions.join(named.emplace(members[i].module_name, i).first->second, i);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::string path = members[i].query->module_path;
    while (true) {
      const auto found = named.find(path);
      if (found != named.end()) unions.join(found->second, i);
      const std::size_t dot = path.rfind('.');
      if (dot == std::string::npos) break;
      path.resize(dot);
    }
  }
}

/// Groups of members by index, each sorted, in the order of their first members.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<Member>& members) {
  Unions unions(members.size());
  join_matches(members, unions);
  join_modules(members, unions);
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < members.size(); ++i) groups[unions.root(i)].push_back(i);
  const auto in_order = std::views::values(groups);
  return {in_order.begin(), in_order.end()};
}

std::optional<std::size_t> followed_by(const Model& model, const ir::Match& match) {
  const auto operands = ir::operands(match.root);
  if (!match.shares_observer || operands.empty()) return std::nullopt;
  const ir::NodeRecord* maker = ir::record_of(model, operands.front()->node());
  return maker == nullptr ? std::nullopt : maker->match;
}

/// Of the names that a trace may stand for, one that PyTorch has.
Symbol known_target(const QConfigQuery& query) {
  const auto known =
      std::ranges::find_if(query.targets, [](const Symbol& each) { return !unknown_name(each); });
  return known == query.targets.end() ? query.targets.front() : *known;
}

OperatorUse use_of(const QConfigQuery& query) {
  return {.module_name = query.is_module ? query.parent_path : query.module_path,
          .type = query.order_type ? *query.order_type : known_target(query),
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
  layer.op = first_of(ops, kShown);
  return layer;
}

using RecordsByNode = std::unordered_map<std::string, const ir::NodeRecord*>;

/// As a mapping for the user's model counts them: without the operators that passes have put in since.
std::vector<std::pair<const Node*, QConfigQuery>> queries_of(const Model& model,
                                                             const RecordsByNode& observed) {
  auto queries = match::qconfig_queries(model);
  std::map<std::pair<std::string, std::string_view>, int> put_in;
  for (auto& [node, query] : queries) {
    if (query.targets.empty() || query.is_module) continue;
    int& before = put_in[{query.module_path, query.targets.front().name}];
    if (observed.contains(name_of(node)))
      query.order_index -= before;
    else
      ++before;
  }
  return queries;
}

std::vector<QuantizedLayer> layers_of(const Stage& stage, const Model& unobserved) {
  const Model model = matched(stage, unobserved, stage.mapping);
  RecordsByNode observed;
  for (const std::size_t index : stage.model.report_order) {
    const ir::NodeRecord& record = stage.model.records[index];
    if (!record.decision.node.empty()) observed.emplace(record.decision.node, &record);
  }
  const auto queries = queries_of(model, observed);
  std::vector<Member> members;
  for (const auto& [node, query] : queries) {
    const ir::NodeRecord* record = ir::record_of(model, node);
    const auto known = observed.find(name_of(node));
    if (record == nullptr || !record->match || known == observed.end() || !known->second->observed ||
        !known->second->lookup.qconfig || stage.kept_float.contains(name_of(node)))
      continue;
    const bool by_use = record->lookup.source == QConfigSource::ModuleNameObjectTypeOrder;
    members.push_back({.node = node,
                       .match = *record->match,
                       .decision = &known->second->decision,
                       .query = &query,
                       .module_name = query.is_module && !by_use ? query.module_path : std::string(),
                       .follows = followed_by(model, model.matches[*record->match])});
  }
  std::vector<QuantizedLayer> layers;
  for (const auto& group : groups_of(members)) layers.push_back(layer_of(members, group));
  return layers;
}

bool has_qconfig(const Model& model, const Node* node) {
  const ir::NodeRecord* record = ir::record_of(model, node);
  return record != nullptr && record->lookup.qconfig.has_value();
}

void refuse_standalone(const Stage& stage) {
  if (stage.standalone.empty()) return;
  throw Error(ErrorCode::Unsupported, "layers inside of standalone modules cannot be kept float one by one",
              "remove the standalone modules from the prepare custom config");
}

constexpr const char* kChosen = "kept float to preserve the model's accuracy";

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

/// The power of one output over all samples that have it; none where it has no floating-point numbers.
std::optional<double> power_of_output(const std::vector<std::vector<at::Tensor>>& results,
                                      std::size_t output) {
  std::vector<at::Tensor> of_samples;
  for (const auto& tensors : results) {
    if (output < tensors.size()) of_samples.push_back(tensors[output]);
  }
  if (!of_samples.front().is_floating_point() && !of_samples.front().is_complex()) return std::nullopt;
  const std::vector<double> powers = output_powers(of_samples);
  return std::accumulate(powers.begin(), powers.end(), 0.0);
}

/// A difference that is no number is the worst of all.
double worst_db(const std::vector<Agreement>& outputs, const std::vector<std::optional<double>>& powers) {
  double worst = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!powers[k]) continue;
    const double db = decibels(*powers[k], outputs[k].error_power());
    worst = std::min(worst, std::isnan(db) ? -std::numeric_limits<double>::infinity() : db);
  }
  return worst;
}

/// 20 where one decision of a hundred is another than in float.
double decibels_of_decisions(const std::vector<JudgedDecisions>& outputs) {
  double worst = std::numeric_limits<double>::infinity();
  for (const JudgedDecisions& output : outputs) {
    if (output.is_judged()) worst = std::min(worst, decibels(1, 1 - output.all.share()));
  }
  return worst;
}

}  // namespace

Calibrated calibrated(const Prepared& prepared) {
  const Stage& stage = stage_of(prepared);
  refuse_standalone(stage);
  const at::NoGradGuard no_grad;
  Calibrated result{.stage = stage, .unobserved = ir::without_observers(stage.model)};
  result.stage.model = with_own_observers(stage.model);
  take_measured(result.stage.model, stage);
  result.stage.kept_samples = {};  // they have served
  for (ir::ObserverEntry& observer : result.stage.model.observers) observer.result = ir::result_of(observer);
  result.layers = layers_of(stage, result.unobserved);
  return result;
}

std::vector<QuantizedLayer> chosen(std::span<const QuantizedLayer> layers,
                                   std::span<const std::size_t> indices) {
  std::vector<QuantizedLayer> result;
  for (const std::size_t index : indices) result.push_back(layers[index]);
  return result;
}

void measure_layers(const Prepared& prepared, const Sample& sample, std::size_t rounds,
                    std::vector<QuantizedLayer>& layers) {
  Report report = prepared.report();
  measure_operators(prepared, sample, rounds, report);
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
  const Model again =
      matched(model.stage, model.unobserved, keep_float(model.stage.mapping, chosen(model.layers, kept)));
  std::map<std::string, std::string> left;
  std::set<std::string> quantized;
  for (const Node* node : ir::nodes_in_order(*again.graph)) {
    const ir::NodeRecord* record = ir::record_of(again, node);
    if (record == nullptr) continue;
    if (record->placement == ir::Placement::Float) left.emplace(name_of(node), record->decision.reason);
    if (record->match && has_qconfig(again, again.matches[*record->match].last))
      quantized.insert(name_of(node));
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

bool is_quantized(const Report& report, const QuantizedLayer& layer) {
  return std::ranges::any_of(report.decisions, [&](const Decision& decision) {
    return decision.quantized && std::ranges::find(layer.nodes, decision.node) != layer.nodes.end();
  });
}

namespace {

std::shared_ptr<Stage> with_kept_float(const Stage& stage, std::map<std::string, std::string> nodes) {
  auto copy = std::make_shared<Stage>(stage);
  copy->kept_float.merge(nodes);
  copy->plan.reset();
  return copy;
}

}  // namespace

Prepared leaving_float(const Prepared& prepared, std::map<std::string, std::string> nodes) {
  return Stage::make<Prepared>(with_kept_float(stage_of(prepared), std::move(nodes)));
}

Reference with_float_nodes(const Calibrated& model, const BackendConfig& backend,
                           std::map<std::string, std::string> nodes, const ConvertCustomConfig& custom) {
  return convert_to_reference(Stage::make<Prepared>(with_kept_float(model.stage, std::move(nodes))), backend,
                              {.custom = custom});
}

FloatOutputs::FloatOutputs(const Module& model, std::vector<Sample> samples,
                           std::vector<NamedDecisions> named)
    : samples_(std::move(samples)),
      keeps_state_(torchscript::keeps_state(model)),
      decisions_(model, std::move(named)) {
  if (samples_.empty())
    throw Error(ErrorCode::BadData, "there are no samples to judge on", "give at least one");
  Module own = model.deepcopy();  // running a model may change its buffers
  own.eval();
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const auto call = [&] { return own.get_method("forward")(copy_of(samples_[i])); };
    const at::IValue result = run(call, i, kFloat);
    // It may be a part of the state, which the next call changes.
    wanted_.push_back(values_of(keeps_state_ ? result.deepcopy() : result));
    if (i == 0) names_ = mapped(tensors_of(result), &std::pair<std::string, at::Tensor>::first);
  }
  if (wanted_.front().empty())
    throw Error(ErrorCode::BadModel, "the model returns no tensor to compare",
                "give one whose forward returns tensors");
  decisions_.check_names(names_);
  for (std::size_t k = 0; k < wanted_.front().size(); ++k) powers_.push_back(power_of_output(wanted_, k));
}

FloatOutputs::Comparison FloatOutputs::compare(const Module& model, at::QEngine engine) const {
  std::vector<Agreement> outputs(wanted_.front().size());
  decisions_.clear();
  std::optional<torchscript::KeptState> state;
  if (keeps_state_) state.emplace(model);
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const auto call = [&] { return kernels::run_with_engine(model, engine, copy_of(samples_[i])); };
    const std::vector<at::Tensor> got = values_of(run(call, i, kQuantized));
    for (std::size_t k = 0; k < std::min(got.size(), wanted_[i].size()); ++k) {
      if (k >= outputs.size() || got[k].sizes() != wanted_[i][k].sizes()) {
        throw Error(ErrorCode::BadModel,
                    fmt::format("output {} has another shape in float and in int8 for sample {}", k, i),
                    "leave out the samples whose outputs depend on rounding");
      }
      outputs[k].add(wanted_[i][k], got[k]);
      decisions_.add(names_[k], wanted_[i][k], got[k]);
    }
  }
  Comparison compared{.decisions =
                          mapped(names_, [&](const std::string& name) { return decisions_.of(name); })};
  compared.worst_db = has_floats() ? worst_db(outputs, powers_) : decibels_of_decisions(compared.decisions);
  return compared;
}

}  // namespace detail

std::string QuantizedLayer::to_text() const {
  const std::string module = name.empty() ? "the model itself" : fmt::format("'{}'", name);
  if (module_names.empty() && uses.size() == 1) return fmt::format("{} ({} {})", module, op, uses[0].index);
  return fmt::format("{} ({})", module, op);
}

std::vector<QuantizedLayer> quantized_layers(const Prepared& prepared) {
  const detail::Stage& stage = detail::stage_of(prepared);
  detail::refuse_standalone(stage);
  return detail::layers_of(stage, ir::without_observers(stage.model));
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
