#include "passes/place/choice_problem.h"

#include <tsq/runtime_library.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "operators/clamp_bounds.h"
#include "operators/traits.h"
#include "passes/place/attention_roundings.h"
#include "passes/place/rounding.h"
#include "torchscript/modules/recurrent.h"

namespace tsq::passes {
namespace {

using kernels::Choice;

bool moves_values(const Model& model, const Node* node) {
  return operators::moves_values(operators::traits_of(model, node));
}

bool multiplies(const Model& model, const Node* node) {
  if (!ir::is_module_call(node)) return operators::is_functional_layer(model, node);
  const ir::ModuleCall& call = ir::call_of(model, node);
  return ir::weighted_of(call) != nullptr || torchscript::is_recurrent(call.type);
}

bool reads(const Node* node, const Value* value) {
  return std::ranges::any_of(node->inputs(), [&](const Value* each) { return each == value; });
}

bool is_observed_value(const Model& model, const Node* node) {
  return ir::is_observer(node) && is_static_rounding(model, node);
}

}  // namespace

bool is_of_reader(const Model& model, const Node* observer) {
  return is_channel_observer(model, observer) || is_dynamic_rounding(model, observer);
}

std::vector<Node*> readers_of_value(const Model& model, const Node* observer) {
  std::vector<Node*> readers;
  for (Node* reader : ir::users(observer->output())) {
    if (!is_of_reader(model, reader)) {
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
      times_(context.target, model),
      of_attention_(attention_roundings(model, context)) {
  const bool runs_programs = context_.target.runtime == LoweringTarget::Fused;
  if (context_.float_times != nullptr && !runs_programs) correct_float_times();
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

double ChoiceProblem::noise_of(const Node* node) const {
  return context_.noise == nullptr ? 0 : context_.noise->of_all(model_, node);
}

/// Of weights, and of what is rounded by ranges that are found when it runs: its part of what several read.
double ChoiceProblem::noise_of_operator(const Node* op) const {
  double noise = noise_of(op);
  for (const Value* operand : ir::operands(op)) {
    const Value* rounded = before_channel_observers(model_, const_cast<Value*>(operand));
    if (is_dynamic_rounding(model_, rounded->node()))
      noise += noise_of(rounded->node()) / static_cast<double>(rounded->uses().size());
  }
  return noise;
}

void ChoiceProblem::add_value(Node* observer) {
  const Value* value = observer->input(0);
  values_.push_back({.observer = observer,
                     .quantize = {.nanoseconds = times_.quantize(value), .noise = noise_of(observer)},
                     .dequantize = {.nanoseconds = times_.dequantize(value)}});
}

template <typename IsMeant>
ChoiceProblem::Least ChoiceProblem::least_of(const Node* node, const std::vector<Choice>& choices,
                                             const IsMeant& is_meant) const {
  Least least;
  for (const Choice& choice : choices) {
    // What a kernel takes that does an activation, too, is not the operator's alone.
    if (choice.refusal || choice.with != nullptr || !is_meant(choice)) continue;
    least.is_known = least.is_known && choice.nanoseconds.has_value();
    least.nanoseconds =
        std::min(least.nanoseconds, choice.nanoseconds.value_or(0) + times_.codes(choice, node));
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
  const std::vector<Choice> choices = catalogue_.timed_choices(node);
  const Least in_float = in_float_of(node, choices);
  const double float_time = in_float.is_possible() && in_float.is_known ? in_float.nanoseconds : 0;
  const QConfig* qconfig = ir::observed_qconfig(model_, node);
  const bool is_choosable = qconfig != nullptr &&
                            (match::is_static(*qconfig) || match::is_dynamic(*qconfig)) &&
                            is_in_int8(ir::placement_of(model_, node)) && node->outputs().size() == 1;
  if (is_folded_padding(node)) {
    if (join(node, float_time) || !is_observed_value(model_, ir::operands(node).front()->node())) return;
    add({.nodes = {node},
         .costs = {Cost{.nanoseconds = float_time}, Cost{}, Cost::impossible()},
         .moves = true});
  } else if (multiplies_attention(node)) {
    add_attention(node, choices, in_float);
  } else if (!is_choosable) {
    fixed_.nanoseconds += time_without_choice(node, choices, in_float);
  } else if (!join(node, float_time)) {
    add_choosable(node, choices, in_float);
  }
}

/// Of what calibration has not measured and the profile does not know nobody knows it: 0.
double ChoiceProblem::time_without_choice(const Node* node, const std::vector<Choice>& choices,
                                          const Least& in_float) const {
  const QConfig* qconfig = ir::observed_qconfig(model_, node);
  if (qconfig != nullptr && is_in_int8(ir::placement_of(model_, node))) {
    const Least in_int8 =
        least_of(node, choices, [&](const Choice& choice) { return kernels::suits(choice, *qconfig); });
    if (in_int8.is_possible() && in_int8.is_known) return in_int8.nanoseconds;
  }
  return in_float.is_possible() && in_float.is_known ? in_float.nanoseconds : 0;
}

/// Of the model, which arrives as bytes.
bool ChoiceProblem::reads_quantized_input(const Node* op) const {
  return std::ranges::any_of(ir::operands(op), [&](Value* operand) {
    return operand->node()->kind() == c10::prim::Param && is_rounded(model_, context_, operand);
  });
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
  ChoosableOperator op{
      .nodes = {node}, .moves = moves_values(model_, node), .is_dynamic = match::is_dynamic(qconfig)};
  // Of what a program does by the way nobody knows a time, nor of some kernels: they take the same in float
  // and in int8 then. Layers that multiply are what the table says.
  const bool is_float_known = in_float.is_possible() && in_float.is_known;
  const bool is_known = is_float_known && bytes.is_known && float_output.is_known;
  const double float_time = is_float_known ? in_float.nanoseconds : 0;
  const auto cost = [&](const Least& least) -> Cost {
    if (!least.is_possible()) return Cost::impossible();
    return {.nanoseconds = is_known ? least.nanoseconds : float_time, .noise = noise_of_operator(node)};
  };
  op.costs[operator_label::kFloat] = {.nanoseconds = float_time};
  op.costs[operator_label::kBytes] = returns_bytes(node) ? cost(bytes) : Cost::impossible();
  op.costs[operator_label::kFloatOutput] = op.moves ? Cost::impossible() : cost(float_output);
  if (op.moves && returns_bytes(node)) {
    const bool is_of_bytes_known = is_known && bytes.is_possible();
    op.costs[operator_label::kBytes] = {.nanoseconds = is_of_bytes_known ? bytes.nanoseconds : float_time};
  }
  const bool may_be_int8 =
      op.costs[operator_label::kBytes].is_possible() || op.costs[operator_label::kFloatOutput].is_possible();
  const bool is_of_table = !is_known && !in_program && multiplies(model_, node);
  if (may_be_int8 && (is_of_table || reads_quantized_input(node)))
    op.costs[operator_label::kFloat] = Cost::impossible();
  // Where nobody knows what both take, the kernel that the engine has first.
  if (!is_known && !in_program && op.costs[operator_label::kBytes].is_possible())
    op.costs[operator_label::kFloatOutput] = Cost::impossible();
  op.reads_float = std::ranges::any_of(choices, [&](const Choice& choice) {
    return !choice.refusal && choice.form == LoweringForm::FloatOutput &&
           choice.reads != kernels::Form::Bytes;
  });
  add(std::move(op));
}

/// Whether it is of a program that multiplies what it reads as bytes, where it is rounded.
bool ChoiceProblem::multiplies_attention(const Node* node) const {
  return std::ranges::any_of(ir::operands(node),
                             [&](const Value* operand) { return of_attention_.contains(operand->node()); });
}

void ChoiceProblem::add_attention(Node* node, const std::vector<Choice>& choices, const Least& in_float) {
  const Least of_bytes =
      least_of(node, choices, [](const Choice& choice) { return choice.reads == kernels::Form::Bytes; });
  const bool is_known =
      in_float.is_possible() && in_float.is_known && of_bytes.is_possible() && of_bytes.is_known;
  add({.nodes = {node},
       .costs = {Cost{.nanoseconds = is_known ? in_float.nanoseconds : 0}, Cost::impossible(),
                 Cost{.nanoseconds = is_known ? of_bytes.nanoseconds : 0}},
       .is_attention = true});
}

void ChoiceProblem::add(ChoosableOperator op) {
  index_.emplace(op.nodes.front(), operators_.size());
  operators_.push_back(std::move(op));
}

/// One kernel does an operator and the one in front of it, where nothing has observed what is between them.
/// Whether it does.
bool ChoiceProblem::join(Node* node, double in_float) {
  const auto operands = ir::operands(node);
  if (operands.empty()) return false;
  const Node* before = operands.front()->node();
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

/// Whether nothing in int8 comes after a value: float operators alone make of it what forward returns.
bool ChoiceProblem::ends_in_float(const Value* value) const {
  std::unordered_set<const Node*> seen;
  std::vector<const Value*> open{value};
  while (!open.empty()) {
    const Value* next = open.back();
    open.pop_back();
    for (const Node* reader : ir::users(next)) {
      if (!seen.insert(reader).second) continue;
      const bool is_observer = ir::is_observer(reader);
      const bool moves = operator_of(reader) != nullptr && operators_[*operator_of(reader)].moves;
      if (!is_observer && ((operator_of(reader) != nullptr && !moves) || hands_on(reader))) return false;
      for (const Value* output : reader->outputs()) open.push_back(output);
    }
  }
  return true;
}

/// Of what is returned, classes that codes make equal are lost, whatever the noise: the last linear layers
/// return floats.
bool ChoiceProblem::must_return_float(const Node* maker, const Value* rounded) const {
  const std::size_t* op = operator_of(maker);
  return op != nullptr && operators_[*op].reads_float &&
         operators_[*op].costs[operator_label::kFloatOutput].is_possible() && ends_in_float(rounded);
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
  std::vector<Cost> costs{none, never, each.quantize, noise};
  const std::size_t* maker = operator_of(each.observer->input(0)->node());
  if (maker != nullptr) {
    costs.assign(value_label::kCount, none);
    add_edge({.a = *maker,
              .b = variable_of_value(value),
              .costs = {none, never, each.quantize, noise,                             // in float
                        never, operators_[*maker].moves ? none : noise, never, never,  // returns bytes
                        none, never, each.quantize, noise}});                          // returns floats
  }
  if (must_return_float(each.observer->input(0)->node(), each.observer->output()))
    costs = {none, never, never, never};
  for (const Node* reader : readers_of_value(model_, each.observer)) {
    const std::size_t* op = operator_of(reader);
    if (op == nullptr && hands_on(reader)) {
      costs[value_label::kExact] = never;
      costs[value_label::kRoundedByKernels] = never;
    } else if (op == nullptr) {
      costs[value_label::kReturned] += each.dequantize;
    } else {
      const bool rounds_itself = operators_[*op].is_dynamic && !reads(reader, each.observer->output());
      const bool reads_floats = operators_[*op].reads_float || rounds_itself;
      add_edge({.a = *op,
                .b = variable_of_value(value),
                .costs = {none, each.dequantize, none, none,  // in float
                          never, none, none, never,           // returns bytes
                          rounds_itself ? none : never, reads_floats ? each.dequantize : none, none,
                          reads_floats ? none : never}});  // returns floats
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
