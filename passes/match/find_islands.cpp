// Operators without a weight that do not lie between quantized ones are not observed, and filter banks that
// only float operators read are not either.
//   sqrt(float) → add → sqrt(float)
// FX quantizes both inputs and the output of this addition. That costs three roundings and takes longer than
// the addition in float. Values of a wide range (squares, attention scores with a mask of -10000) do not
// survive it.
//
// Where they lie the graph alone tells, whatever ranges, sizes and dtypes are. Calibration sees their ranges
// without observers; leave_float_islands, or a plan, decides about them then.

#include <algorithm>
#include <optional>
#include <ranges>
#include <unordered_set>
#include <vector>

#include "backends/kernels/filter_bank.h"
#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/match/matches.h"
#include "passes/match/passes.h"
#include "passes/match/value_flow.h"

namespace tsq::passes {
namespace {

using ir::Match;
using ir::Reason;

bool moves(const Node* node) {
  return node->kind() == c10::prim::ListUnpack || operators::moves_values(operators::traits_of(node));
}

bool is_squared(at::ArrayRef<const Value*> values) {
  return std::ranges::any_of(values, [](const Value* value) {
    return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
      return kernels::squared_value(use.user) != nullptr ||
             (use.offset == 0 && moves(use.user) &&
              is_squared(static_cast<const Node*>(use.user)->outputs()));
    });
  });
}

/// Collects the values of which `is_found` says so, until no more come to those that it has found already.
template <typename Values, typename IsFound>
void follow(const Values& values, std::unordered_set<const Value*>& found, const IsFound& is_found) {
  found.clear();
  const auto collect = [&](const Value* value) {
    return !found.contains(value) && is_found(value) && found.insert(value).second;
  };
  while (change_each(values, collect)) {
  }
}

/// What is known of a match, whatever is quantized around it.
struct Kind {
  bool has_weight{false};
  bool is_filter_bank{false};
};

class Islands {
 public:
  Islands(Model& model, const PassContext& context)
      : model_(model), context_(context), values_(values_in_order(*model.graph)) {
    for (const Match& match : model.matches) {
      const bool weighs = has_weight(model, match);
      kinds_.push_back({.has_weight = weighs, .is_filter_bank = weighs && is_filter_bank(match)});
    }
  }

  bool run() {
    for (std::size_t i = 0; i < kinds_.size(); ++i) quantized_.push_back(is_static(model_, match(i)));
    do {
      follow_layers();
      follow_kernels();
    } while (drop_islands());
    bool changed = false;
    for (std::size_t i = 0; i < quantized_.size(); ++i) {
      if (quantized_[i] || !is_optional(i)) continue;
      leave_match_unobserved(model_, model_.matches[i],
                             kinds_[i].is_filter_bank ? Reason::FilterBank : Reason::Island);
      changed = true;
    }
    remove_empty_matches(model_);
    return changed;
  }

 private:
  [[nodiscard]] const Match& match(std::size_t index) const { return model_.matches[index]; }

  /// The match that a node is of; empty where there is none.
  [[nodiscard]] std::optional<std::size_t> match_of(const Node* node) const {
    const ir::NodeRecord* record = ir::record_of(model_, node);
    return record == nullptr ? std::nullopt : record->match;
  }

  [[nodiscard]] std::optional<std::size_t> quantized_match_of(const Node* node) const {
    const auto found = match_of(node);
    return found && quantized_[*found] ? found : std::nullopt;
  }

  /// An STFT and its like: the bands of a signal differ so much in size that the small ones would drown in
  /// the rounding of their common range. What is squared differs twice as much, in decibels.
  [[nodiscard]] bool is_filter_bank(const Match& match) const {
    return kernels::slides_over_one_channel(context_.target, model_, match.root) ||
           is_squared(static_cast<const Node*>(match.last)->outputs());
  }

  /// What this pass may decide about.
  [[nodiscard]] bool is_optional(std::size_t index) const {
    const Match& found = match(index);
    const Kind& kind = kinds_[index];
    const MaybeQConfig& qconfig = qconfig_of(model_, found.last);
    return (!kind.has_weight || kind.is_filter_bank) && qconfig && match::is_static(*qconfig) &&
           takes_static(*found.row);
  }

  /// Finds the values that come from a layer through nothing but quantized operators. Those of a loop that
  /// read only each other do not count: no layer has quantized what they read.
  void follow_layers() {
    follow(values_, given_, [&](const Value* value) { return is_given(value); });
  }

  [[nodiscard]] bool is_given(const Value* value) const {
    const Node* node = value->node();
    if (node->kind() == c10::prim::Param || !node->blocks().empty()) {
      return std::ranges::any_of(flows_from(value),
                                 [&](const Value* source) { return given_.contains(source); }) ||
             is_quantized_input(node);
    }
    const auto found = quantized_match_of(node);
    return found && (kinds_[*found].has_weight || reads_given(match(*found)));
  }

  [[nodiscard]] bool is_quantized_input(const Node* node) const {
    return node->owningBlock()->owningNode() == nullptr && !context_.custom.input_quantized_indexes().empty();
  }

  [[nodiscard]] bool reads_given(const Match& match) const {
    return std::ranges::any_of(ir::operands(match.root), [&](const Value* value) {
      return ir::holds_tensor(value) && given_.contains(value);
    });
  }

  /// Finds the values that a kernel reads, also after operators that move them: a layer's in the end.
  void follow_kernels() {
    follow(std::views::reverse(values_), read_, [&](const Value* value) { return is_read(value); });
  }

  [[nodiscard]] bool is_read(const Value* value) const {
    return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
      const Node* user = use.user;
      if (user->kind() == c10::prim::Return && user->owningBlock()->owningNode() == nullptr)
        return !context_.custom.output_quantized_indexes().empty();
      const std::vector<const Value*> next = flows_to(use);
      if (!next.empty())
        return std::ranges::any_of(next, [&](const Value* each) { return read_.contains(each); });
      const auto found = quantized_match_of(user);
      return found && (kinds_[*found].has_weight || gives_read(match(*found)));
    });
  }

  [[nodiscard]] bool gives_read(const Match& match) const {
    return std::ranges::any_of(match.last->outputs(),
                               [&](const Value* value) { return read_.contains(value); });
  }

  /// Returns whether there were any.
  bool drop_islands() {
    bool found = false;
    for (std::size_t i = 0; i < quantized_.size(); ++i) {
      if (!quantized_[i] || is_worth_it(i)) continue;
      quantized_[i] = false;
      found = true;
    }
    return found;
  }

  /// Operators that move or choose values (views, pools) do so on fewer bytes when what they read is
  /// quantized.
  [[nodiscard]] bool is_worth_it(std::size_t index) const {
    const Match& found = match(index);
    if (kinds_[index].is_filter_bank) return gives_read(found);
    if (kinds_[index].has_weight) return true;
    if (!reads_given(found)) return false;
    const bool computes = operators::is_one_of(model_, found.root, {"cat"}) ||
                          (depends_on_arguments(found) &&
                           std::ranges::any_of(ir::operands(found.root),
                                               [&](const Value* value) { return may_be_float(value); }));
    return (found.shares_observer && !computes) || gives_read(found);
  }

  /// Sums and products, which share a range where the other operand is a number.
  static bool depends_on_arguments(const Match& match) {
    return !match.row->num_tensor_args_to_observation_type.empty();
  }

  /// Whether a branch returns a float value, or a loop whose body does.
  [[nodiscard]] bool may_be_float(const Value* value) const {
    const Node* node = value->node();
    if (node->blocks().empty()) return false;
    const auto sources = flows_from(value);
    const auto is_float = [&](const Value* source) {
      return !given_.contains(source) || may_be_float(source);
    };
    return node->kind() == c10::prim::Loop ? is_float(sources.back())
                                           : std::ranges::any_of(sources, is_float);
  }

  Model& model_;
  const PassContext& context_;
  std::vector<const Value*> values_;
  std::vector<Kind> kinds_{};                 ///< by match
  std::vector<bool> quantized_{};             ///< by match
  std::unordered_set<const Value*> given_{};  ///< what follow_layers has found
  std::unordered_set<const Value*> read_{};   ///< what follow_kernels has found
};

}  // namespace

bool find_islands(Model& model, const PassContext& context) { return Islands(model, context).run(); }

}  // namespace tsq::passes
