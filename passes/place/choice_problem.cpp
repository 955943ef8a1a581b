#include "passes/place/choice_problem.h"

#include <tsq/runtime_library.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "backends/kernels/machine_profile.h"
#include "backends/kernels/node_work.h"
#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "operators/clamp_bounds.h"
#include "operators/traits.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

using kernels::Choice;

bool moves_values(const Model& model, const Node* node) {
  return operators::moves_values(operators::traits_of(model, node));
}

bool multiplies(const Model& model, const Node* node) {
  return operators::is_functional_layer(model, node) ||
         (ir::is_module_call(node) && ir::weighted_of(ir::call_of(model, node)) != nullptr);
}

bool is_observed_value(const Model& model, const Node* node) {
  return ir::is_observer(node) && is_static_rounding(model, node);
}

}  // namespace

std::vector<Node*> readers_of_value(const Model& model, const Node* observer) {
  std::vector<Node*> readers;
  for (Node* reader : ir::users(observer->output())) {
    if (!is_channel_observer(model, reader)) {
      readers.push_back(reader);
      continue;
    }
    for (Node* layer : ir::users(reader->output())) readers.push_back(layer);
  }
  return readers;
}

ChoiceProblem::ChoiceProblem(Model& model, const PassContext& context)
    : model_(model),
      context_(context),
      catalogue_(context.target, model, context.lowering_rows),
      profile_(kernels::profile_of(context.target)) {
  if (context_.float_times != nullptr && !runs_programs()) correct_float_times();
  for (Node* node : ir::nodes_in_order(*model_.graph)) {
    if (is_observed_value(model_, node)) {
      add_value(node);
    } else if (!ir::is_observer(node)) {
      add_operator(node);
    }
  }
  add_edges();
}

const std::size_t* ChoiceProblem::operator_of(const Node* node) const {
  const auto found = index_.find(node);
  return found == index_.end() ? nullptr : &found->second;
}

bool ChoiceProblem::runs_programs() const { return context_.target.runtime == LoweringTarget::Fused; }

double ChoiceProblem::nanoseconds_of(const char* kernel, const char* engine, const Value* value) const {
  const auto work = kernels::work_of_rounding(model_, value);
  return work ? kernels::nanoseconds(*profile_, {.name = kernel, .engine = engine}, *work).value_or(0) : 0;
}

double ChoiceProblem::noise_of(const Node* node) const {
  return context_.noise == nullptr ? 0 : context_.noise->of_all(model_, node);
}

void ChoiceProblem::add_value(Node* observer) {
  const Value* value = observer->input(0);
  const char* engine = context_.target.engine.c_str();
  const double quantize = runs_programs() ? nanoseconds_of("quantize", "fused", value)
                                          : nanoseconds_of("aten::quantize_per_tensor", "", value);
  const double dequantize = runs_programs() ? nanoseconds_of("dequantize", "fused", value)
                                            : nanoseconds_of("aten::dequantize", engine, value);
  values_.push_back({.observer = observer,
                     .quantize = {.nanoseconds = quantize, .noise = noise_of(observer)},
                     .dequantize = {.nanoseconds = dequantize}});
}

/// Kernels that return float read codes as a plain tensor, which a quantized one is copied to.
double ChoiceProblem::of_codes(const Choice& choice, const Node* node) const {
  const bool reads_codes = choice.form == LoweringForm::FloatOutput && choice.reads == kernels::Form::Bytes;
  if (!reads_codes || node->inputs().empty()) return 0;
  return nanoseconds_of("aten::int_repr", context_.target.engine.c_str(), node->input(0));
}

template <typename IsMeant>
ChoiceProblem::Least ChoiceProblem::least_of(const Node* node, const std::vector<Choice>& choices,
                                             const IsMeant& is_meant) const {
  Least least;
  for (const Choice& choice : choices) {
    // What a kernel takes that does an activation, too, is not the operator's alone.
    if (choice.refusal || choice.with != nullptr || !is_meant(choice)) continue;
    least.is_known = least.is_known && choice.nanoseconds.has_value();
    least.nanoseconds = std::min(least.nanoseconds, choice.nanoseconds.value_or(0) + of_codes(choice, node));
  }
  return least;
}

ChoiceProblem::Least ChoiceProblem::in_float_of(const Node* node, const std::vector<Choice>& choices) const {
  const auto corrected = corrected_.find(node);
  if (corrected != corrected_.end()) return {.nanoseconds = corrected->second};
  return least_of(node, choices,
                  [](const Choice& choice) { return choice.placement == ir::Placement::Float; });
}

/// Where what was measured and what the profile says are twice apart, what was measured counts: the profile
/// has not seen the like of it. How fast the machine was is seen from the other operators. Those that take
/// less than a hundredth of all have no say: they change nothing, and their times are those of the
/// interpreter.
void ChoiceProblem::correct_float_times() {
  struct Known {
    const Node* node{};
    double predicted{};
    double measured{};
  };
  std::vector<Known> known;
  double all_predicted = 0;
  double all_measured = 0;
  for (const Node* node : ir::nodes_in_order(*model_.graph)) {
    const Decision* decision = ir::decision_of(model_, node);
    if (decision == nullptr) continue;
    const auto measured = context_.float_times->find(decision->node);
    const Least predicted = in_float_of(node, catalogue_.timed_choices(node));
    if (measured == context_.float_times->end() || !predicted.is_possible() || !predicted.is_known ||
        predicted.nanoseconds <= 0)
      continue;
    known.push_back({.node = node, .predicted = predicted.nanoseconds, .measured = measured->second});
    all_predicted += predicted.nanoseconds;
    all_measured += measured->second;
  }
  constexpr double kLeastShare = 0.01;
  std::erase_if(known, [&](const Known& each) {
    return each.predicted < kLeastShare * all_predicted && each.measured < kLeastShare * all_measured;
  });
  std::vector<double> ratios;
  for (const Known& each : known) {
    if (each.predicted >= kLeastShare * all_predicted) ratios.push_back(each.measured / each.predicted);
  }
  if (ratios.empty()) return;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  for (const Known& each : known) {
    const double measured = each.measured / *middle;
    if (measured > 2 * each.predicted || 2 * measured < each.predicted)
      corrected_.emplace(each.node, measured);
  }
}

void ChoiceProblem::add_operator(Node* node) {
  std::vector<Choice> choices = catalogue_.timed_choices(node);
  const auto is_of_program = [](const Choice& choice) { return choice.kernel == kProgramOperator; };
  if (std::ranges::any_of(choices, is_of_program)) std::erase_if(choices, std::not_fn(is_of_program));
  const Least in_float = in_float_of(node, choices);
  const double float_time = in_float.is_possible() && in_float.is_known ? in_float.nanoseconds : 0;
  const QConfig* qconfig = ir::observed_qconfig(model_, node);
  const bool is_choosable = qconfig != nullptr && match::is_static(*qconfig) &&
                            is_in_int8(ir::placement_of(model_, node)) && node->outputs().size() == 1;
  if (is_folded_padding(node)) {
    if (join(node, float_time) || !is_observed_value(model_, ir::operands(node).front()->node())) return;
    add({.nodes = {node},
         .costs = {Cost{.nanoseconds = float_time}, Cost{}, Cost::impossible()},
         .moves = true});
  } else if (!is_choosable) {
    fixed_.nanoseconds += float_time;
  } else if (!join(node, float_time)) {
    add_choosable(node, choices, in_float);
  }
}

void ChoiceProblem::add_choosable(Node* node, const std::vector<Choice>& choices, const Least& in_float) {
  const QConfig& qconfig = *ir::observed_qconfig(model_, node);
  const auto returns = [&](kernels::Form form) {
    return least_of(node, choices, [&, form](const Choice& choice) {
      return kernels::suits(choice, qconfig) && choice.returns == form;
    });
  };
  const bool in_program =
      std::ranges::any_of(choices, [](const Choice& choice) { return choice.kernel == kProgramOperator; });
  const Least bytes = returns(kernels::Form::Bytes);
  const Least float_output = in_program ? bytes : returns(kernels::Form::Float);
  if (!bytes.is_possible() && !float_output.is_possible()) return;
  ChoosableOperator op{.nodes = {node}, .moves = moves_values(model_, node)};
  // Of what a program does by the way nobody knows a time, nor of some kernels: they take the same in float
  // and in int8 then. Layers that multiply are what the table says.
  const bool is_known = in_float.is_possible() && in_float.is_known && bytes.is_known;
  const auto cost = [&](const Least& least) -> Cost {
    if (!least.is_possible()) return Cost::impossible();
    return {.nanoseconds = is_known ? least.nanoseconds : 0, .noise = noise_of(node)};
  };
  op.costs[operator_label::kFloat] = {.nanoseconds = is_known ? in_float.nanoseconds : 0};
  op.costs[operator_label::kBytes] = returns_bytes(node) ? cost(bytes) : Cost::impossible();
  op.costs[operator_label::kFloatOutput] = op.moves ? Cost::impossible() : cost(float_output);
  if (op.moves && returns_bytes(node)) op.costs[operator_label::kBytes] = {};
  const bool may_be_int8 =
      op.costs[operator_label::kBytes].is_possible() || op.costs[operator_label::kFloatOutput].is_possible();
  if (!is_known && !in_program && may_be_int8 && multiplies(model_, node))
    op.costs[operator_label::kFloat] = Cost::impossible();
  op.reads_float = std::ranges::any_of(choices, [&](const Choice& choice) {
    return !choice.refusal && choice.form == LoweringForm::FloatOutput &&
           choice.reads != kernels::Form::Bytes;
  });
  add(std::move(op));
}

void ChoiceProblem::add(ChoosableOperator op) {
  index_.emplace(op.nodes.front(), operators_.size());
  operators_.push_back(std::move(op));
}

/// One kernel does an operator and the one in front of it, where nothing has observed what is between them.
/// Whether it does.
bool ChoiceProblem::join(Node* node, double in_float) {
  if (node->inputs().empty()) return false;
  const Node* before = node->input(0)->node();
  const std::size_t* found = operator_of(before);
  if (found == nullptr || ir::only_reader(before) != node || !are_of_one_kernel(node, before)) return false;
  ChoosableOperator& op = operators_[*found];
  op.nodes.push_back(node);
  op.costs[operator_label::kFloat].nanoseconds += in_float;
  op.costs[operator_label::kFloatOutput].nanoseconds += in_float;
  if (!returns_bytes(node)) op.costs[operator_label::kBytes] = Cost::impossible();
  index_.emplace(node, *found);
  return true;
}

/// Zero padding that place_padding gives to the convolution after it.
bool ChoiceProblem::is_folded_padding(const Node* node) const {
  const Decision* decision = ir::decision_of(model_, node);
  return decision != nullptr && !decision->kernel.empty() && is_in_int8(ir::placement_of(model_, node));
}

/// Whether a convolution does the padding in front of it.
bool ChoiceProblem::pads_itself(const Node* node) const {
  if (!ir::is_module_call(node)) return false;
  const ir::Weighted* weighted = ir::weighted_of(ir::call_of(model_, node));
  return weighted != nullptr && weighted->fold.has_value();
}

/// Whether one observer rounds what an operator returns, for all who read it, or an operator after it that
/// its kernel does.
bool ChoiceProblem::returns_bytes(const Node* node) const {
  const Node* reader = ir::only_reader(node);
  return reader != nullptr && (is_observed_value(model_, reader) || are_of_one_kernel(reader, node));
}

bool ChoiceProblem::are_of_one_kernel(const Node* after, const Node* before) const {
  return !after->inputs().empty() && ir::operands(after).front() == before->output() &&
         (operators::clamp_bounds(model_, after) || moves_values(model_, after) || is_folded_padding(after) ||
          kernels::post_op_of(model_, after) != kernels::PostOp::None);
}

bool ChoiceProblem::hands_on(const Node* reader) const {
  if (ir::is_observer(reader) || ir::is_opaque(model_, reader)) return true;
  const QConfig* qconfig = ir::observed_qconfig(model_, reader);
  if (operator_of(reader) == nullptr && qconfig != nullptr && match::is_static(*qconfig) &&
      is_in_int8(ir::placement_of(model_, reader)))
    return true;
  if (reader->kind() == c10::prim::Return)
    return reader->owningBlock()->owningNode() != nullptr ||
           !context_.custom.output_quantized_indexes().empty();
  return !reader->blocks().empty() || ir::is_standalone(model_, reader);
}

void ChoiceProblem::add_edge(Edge edge) {
  edges_of_[edge.a].push_back(edges_.size());
  edges_of_[edge.b].push_back(edges_.size());
  edges_.push_back(std::move(edge));
}

void ChoiceProblem::add_edges() {
  edges_of_.resize(operators_.size() + values_.size());
  for (const ChoosableOperator& op : operators_) costs_.emplace_back(op.costs.begin(), op.costs.end());
  for (std::size_t value = 0; value < values_.size(); ++value) add_edges_of_value(value);
}

void ChoiceProblem::add_edges_of_value(std::size_t value) {
  const ChoosableValue& each = values_[value];
  const Cost none{};
  const Cost never = Cost::impossible();
  const Cost noise{.noise = each.quantize.noise};
  std::vector<Cost> costs{none, never, each.quantize};
  const std::size_t* maker = operator_of(each.observer->input(0)->node());
  if (maker != nullptr) {
    costs = {none, none, none};
    add_edge({.a = *maker,
              .b = variable_of_value(value),
              .costs = {none, never, each.quantize,                             // in float
                        never, operators_[*maker].moves ? none : noise, never,  // returns bytes
                        none, never, each.quantize}});                          // returns floats
  }
  for (const Node* reader : readers_of_value(model_, each.observer)) {
    const std::size_t* op = operator_of(reader);
    if (op == nullptr && hands_on(reader)) {
      costs[value_label::kExact] = never;
    } else if (op == nullptr) {
      costs[value_label::kReturned] += each.dequantize;
    } else {
      const Cost of_floats = operators_[*op].reads_float ? each.dequantize : none;
      add_edge({.a = *op,
                .b = variable_of_value(value),
                .costs = {none, each.dequantize, none,  // in float
                          never, none, none,            // returns bytes
                          never, of_floats, none}});    // returns floats
    }
    if (maker != nullptr && op != nullptr && pads_itself(reader))  // who pads reads what is not padded
      add_edge({.a = *maker,
                .b = *op,
                .costs = {none, never, never,  //
                          none, none, none,    //
                          none, never, never}});
  }
  costs_.push_back(std::move(costs));
}

optimum::Problem ChoiceProblem::at(double price_of_noise) const {
  const auto numbers = [&](const std::vector<Cost>& costs) {
    std::vector<double> result;
    for (const Cost& cost : costs) result.push_back(cost.at(price_of_noise));
    return result;
  };
  optimum::Problem problem;
  for (const std::vector<Cost>& costs : costs_) problem.costs.push_back(numbers(costs));
  for (const Edge& edge : edges_)
    problem.edges.push_back({.a = edge.a, .b = edge.b, .costs = numbers(edge.costs)});
  return problem;
}

const Cost& ChoiceProblem::cost_of(const Edge& edge, const std::vector<std::size_t>& labels) const {
  return edge.costs[labels[edge.a] * costs_[edge.b].size() + labels[edge.b]];
}

Cost ChoiceProblem::cost_of(const std::vector<std::size_t>& labels) const {
  Cost sum = fixed_;
  for (std::size_t variable = 0; variable < costs_.size(); ++variable)
    sum += costs_[variable][labels[variable]];
  for (const Edge& edge : edges_) sum += cost_of(edge, labels);
  return sum;
}

Cost ChoiceProblem::cost_around(std::size_t op, std::size_t label, std::vector<std::size_t> labels,
                                double price_of_noise) const {
  labels[op] = label;
  const auto of_edges = [&](std::size_t variable) {
    Cost sum = costs_[variable][labels[variable]];
    for (const std::size_t i : edges_of_[variable]) sum += cost_of(edges_[i], labels);
    return sum;
  };
  Cost sum = costs_[op][label];
  std::set<std::size_t> seen;
  for (const std::size_t i : edges_of_[op]) {
    const std::size_t other = edges_[i].a == op ? edges_[i].b : edges_[i].a;
    if (other >= operators_.size() && !seen.insert(other).second) continue;
    if (other < operators_.size()) {
      sum += cost_of(edges_[i], labels);
      continue;
    }
    Cost best = Cost::impossible();
    std::size_t best_label = labels[other];
    for (std::size_t l = 0; l < costs_[other].size(); ++l) {
      labels[other] = l;
      const Cost cost = of_edges(other);
      if (cost.at(price_of_noise) < best.at(price_of_noise)) {
        best = cost;
        best_label = l;
      }
    }
    labels[other] = best_label;
    sum += best;
  }
  return sum;
}

}  // namespace tsq::passes
