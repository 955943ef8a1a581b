// Which operators compute in int8, and which values are rounded: what takes the least time with the price of
// its noise, over all of them together.
//   conv(observer(x)), whose rounding costs more than its kernel saves   →   conv(x)

#include <fmt/format.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <cmath>

#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/place/choice_problem.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

/// Noise under that of 40 dB, a hundredth of an output's numbers, is worth ever less: without a least noise
/// the last decibels would be worth all time.
constexpr double kLeastNoise = 1e-4;

struct Choices {
  std::vector<std::size_t> labels{};
  double price_of_noise{0};  ///< by which they are the best
};

/// None where not all can be had.
std::optional<Choices> at_price(const ChoiceProblem& problem, double price_of_noise) {
  const optimum::Solution solution = optimum::solve(problem.at(price_of_noise));
  if (!std::isfinite(solution.cost)) return std::nullopt;
  return Choices{.labels = solution.labels, .price_of_noise = price_of_noise};
}

/// What is best where a decibel of noise is worth a share of the time. That is the least ln(time) + weight ·
/// ln(noise): a logarithm is below its tangents, so that the best by the tangent at some time and noise
/// is no worse than these, and so on until nothing changes. Each beginning may end somewhere else.
class BestChoices {
 public:
  BestChoices(const ChoiceProblem& problem, double decibel_price)
      : problem_(problem), weight_(decibel_price * 10 / std::log(10)) {}

  /// None where not all can be had.
  std::optional<Choices> run() {
    std::optional<Choices> best;
    for (const double decibels : {0.0, 10.0, 20.0, 30.0, 40.0}) {
      const auto found = from({.nanoseconds = time_of_float(), .noise = std::pow(10, -decibels / 10)});
      if (found && (!best || worth(*found) < worth(*best))) best = found;
    }
    return best;
  }

 private:
  [[nodiscard]] double time_of_float() const {
    Cost sum;
    for (const ChoosableOperator& op : problem_.operators()) {
      const auto possible = std::ranges::find_if(op.costs, &Cost::is_possible);
      if (possible != op.costs.end()) sum += *possible;
    }
    return sum.nanoseconds;
  }

  [[nodiscard]] double worth(const Choices& choices) const {
    const Cost cost = problem_.cost_of(choices.labels);
    return std::log(cost.nanoseconds) + weight_ * std::log(cost.noise + kLeastNoise);
  }

  [[nodiscard]] std::optional<Choices> from(Cost at) const {
    std::optional<Choices> best;
    while (true) {
      const double price = weight_ * at.nanoseconds / (at.noise + kLeastNoise);
      const auto found = at_price(problem_, price);
      if (!found) return std::nullopt;
      if (best && !(worth(*found) < worth(*best))) return best;
      best = found;
      at = problem_.cost_of(found->labels);
    }
  }

  const ChoiceProblem& problem_;
  double weight_;
};

/// "3.1 µs, no noise", "14 µs, −38 dB".
std::string text_of(const Cost& cost) {
  const std::string time = fmt::format("{:.3g} µs", cost.nanoseconds / 1000);
  if (cost.noise <= 0) return time + ", no noise";
  return fmt::format("{}, noise of {:.0f} dB", time, 10 * std::log10(cost.noise));
}

class Choosing {
 public:
  Choosing(Model& model, const ChoiceProblem& problem, const Choices& choices)
      : model_(model), problem_(problem), choices_(choices) {}

  void run() {
    for (std::size_t i = 0; i < problem_.operators().size(); ++i) place(i);
    for (std::size_t i = problem_.values().size(); i-- > 0;) round(i);
    ir::eliminate_dead_code(*model_.graph);
  }

 private:
  [[nodiscard]] std::size_t label_of(std::size_t op) const { return choices_.labels[op]; }

  void place(std::size_t index) {
    const ChoosableOperator& op = problem_.operators()[index];
    const std::size_t label = label_of(index);
    if (label == operator_label::kBytes || op.is_attention) return;
    const bool is_float = label == operator_label::kFloat;
    const bool has_choice = op.costs[operator_label::kBytes].is_possible() ||
                            op.costs[operator_label::kFloatOutput].is_possible();
    const std::string prices = is_float && has_choice ? prices_of(index) : std::string();
    for (Node* node : op.nodes) {
      if (!is_float && node == op.nodes.front()) {
        if (!op.is_dynamic) ir::record_for(model_, node).placement = ir::Placement::Int8FloatOut;
        continue;
      }
      if (is_float && op.is_dynamic) read_unrounded(node);
      if (is_float && ir::is_module_call(node)) leave_weight(node);
      if (Decision* decision = ir::decision_of(model_, node)) decision->kernel.clear();
      if (is_float) {
        const ir::Reason reason = has_choice ? ir::Reason::Costs : ir::Reason::ReadsFloat;
        ir::leave_float(model_, node, ir::Placement::Float, reason, prices);
      } else {
        ir::leave_float(model_, node, ir::Placement::Float, ir::Reason::FloatAfterLayer);
      }
    }
  }

  /// What it is in float, and the best that it could be in int8.
  [[nodiscard]] std::string prices_of(std::size_t op) const {
    const auto around = [&](std::size_t label) {
      return problem_.cost_around(op, label, choices_.labels, choices_.price_of_noise);
    };
    const Cost bytes = around(operator_label::kBytes);
    const Cost float_output = around(operator_label::kFloatOutput);
    const bool is_bytes = bytes.at(choices_.price_of_noise) <= float_output.at(choices_.price_of_noise);
    return fmt::format("float {}; int8 {}", text_of(around(operator_label::kFloat)),
                       text_of(is_bytes ? bytes : float_output));
  }

  void leave_weight(const Node* layer) {
    ir::Weighted* weighted = ir::weighted_of(ir::call_of(model_, layer));
    if (weighted == nullptr) return;
    forget_input(*weighted);
    weighted->fold.reset();
  }

  /// What its kernel would round when it runs.
  void read_unrounded(Node* node) {
    for (Value* operand : ir::operands(node)) {
      const Node* observer = before_channel_observers(model_, operand)->node();
      if (!is_dynamic_rounding(model_, observer)) continue;
      ir::replace_operand(node, operand, const_cast<Value*>(observer->input(0)));
      drop_unread(operand->node());
    }
  }

  void round(std::size_t index) {
    Node* observer = problem_.values()[index].observer;
    if (choices_.labels[problem_.variable_of_value(index)] == value_label::kReturned) return;
    for (Node* reader : readers_of_value(model_, observer)) {
      const std::size_t* op = problem_.operator_of(reader);
      const bool reads_rounded = op != nullptr && problem_.operators()[*op].reads_rounded(label_of(*op));
      if (!reads_rounded && !problem_.hands_on(reader)) read_exact(reader, observer);
    }
    if (!observer->output()->hasUses()) observer->destroy();
  }

  /// In place of what an observer returns.
  void read_exact(Node* reader, Node* observer) {
    for (Value* operand : ir::operands(reader)) {
      Node* maker = operand->node();
      if (maker == observer) {
        ir::replace_operand(reader, operand, observer->input(0));
      } else if (is_of_reader(model_, maker) && maker->input(0) == observer->output()) {
        if (is_channel_observer(model_, maker)) {
          ir::replace_operand(reader, operand, observer->input(0));
          if (!maker->output()->hasUses()) maker->destroy();
        } else {
          maker->replaceInput(0, observer->input(0));
        }
      }
    }
  }

  /// Observers that nobody reads, one after another.
  static void drop_unread(Node* observer) {
    while (ir::is_observer(observer) && !observer->output()->hasUses()) {
      Node* before = observer->input(0)->node();
      observer->destroy();
      observer = before;
    }
  }

  Model& model_;
  const ChoiceProblem& problem_;
  const Choices& choices_;
};

}  // namespace

bool choose(Model& model, const PassContext& context) {
  const ChoiceProblem problem(model, context);
  if (problem.operators().empty()) return false;
  const auto choices = context.noise_price ? at_price(problem, *context.noise_price)
                                           : BestChoices(problem, decibel_price(context.options)).run();
  if (!choices) return false;
  Choosing(model, problem, *choices).run();
  const Cost cost = problem.cost_of(choices->labels);
  model.prediction = {.seconds = cost.nanoseconds / 1e9, .noise = cost.noise};
  return true;
}

}  // namespace tsq::passes
