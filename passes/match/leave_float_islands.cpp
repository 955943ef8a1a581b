// Operators without a weight that do not lie between quantized ones stay float. So do filter banks that only
// float operators read, layers whose output goes to a logarithm or the like, tables that rounding makes
// larger, and activations that are as fast in float after a layer that returns its output in float.
//   sqrt(float) → add → sqrt(float)
// FX quantizes both inputs and the output of this addition. That costs three roundings and takes longer than
// the addition in float. Values of a wide range (squares, attention scores with a mask of -10000) do not
// survive it.

#include <algorithm>
#include <optional>
#include <ranges>
#include <unordered_set>
#include <vector>

#include "backends/kernels/filter_bank.h"
#include "backends/kernels/float_output.h"
#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "operators/amplified.h"
#include "operators/functional_weighted.h"
#include "operators/images/whole_average.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/match/matches.h"
#include "passes/match/passes.h"
#include "passes/match/value_flow.h"
#include "torchscript/modules/embedding.h"
#include "torchscript/modules/recurrent.h"

namespace tsq::passes {
namespace {

using ir::Match;
using ir::Reason;

bool is_integer(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::QUInt8 || dtype == c10::ScalarType::QInt8;
}

bool takes_static(const BackendPatternConfig& row) {
  return std::ranges::any_of(row.dtype_configs, [](const DTypeConfig& config) {
    return config.input_dtype.dtype && is_integer(*config.input_dtype.dtype) &&
           !config.is_dynamic.value_or(false);
  });
}

bool has_weight(const Model& model, const Match& match) {
  if (ir::is_module_call(match.root)) {
    const ir::ModuleCall& call = ir::call_of(model, match.root);
    return ir::is_opaque(call) || ir::weighted_of(call) != nullptr || torchscript::is_recurrent(call.type);
  }
  return std::ranges::any_of(ir::targets(model, match.root), [](const Symbol& target) {
    return !operators::module_of_functional(target.name).empty();
  });
}

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
struct Facts {
  bool has_weight{false};
  bool is_filter_bank{false};
};

class Islands {
 public:
  Islands(Model& model, const PassContext& context)
      : model_(model), context_(context), values_(values_in_order(*model.graph)) {
    for (const Node* node : ir::nodes_in_order(*model.graph)) {
      const Node* layer = quantized_layer(node);
      if (layer != nullptr && kernels::is_done_by_kernel(context.target, model, layer, node))
        done_by_layers_.insert(node);
    }
    for (const Match& match : model.matches) {
      const bool weighs = has_weight(model, match);
      facts_.push_back({.has_weight = weighs, .is_filter_bank = weighs && is_filter_bank(match)});
    }
  }

  bool run() {
    for (std::size_t i = 0; i < facts_.size(); ++i) quantized_.push_back(may_be_quantized(i));
    do {
      follow_layers();
      follow_kernels();
    } while (drop_islands());
    bool changed = false;
    for (std::size_t i = 0; i < quantized_.size(); ++i) {
      if (quantized_[i] || !is_optional(i)) continue;
      leave_match_float(model_, model_.matches[i], reason_of(i));
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

  [[nodiscard]] bool may_be_quantized(std::size_t index) const {
    const Match& found = match(index);
    if (ir::is_standalone(model_, found.root)) return true;
    const MaybeQConfig& qconfig = qconfig_of(model_, found.last);
    if (ir::is_opaque(model_, found.root)) return qconfig && match::is_static(*qconfig);
    return qconfig && match::is_static(*qconfig) && takes_static(*found.row) &&
           !operators::is_of_attention(model_, found.root) &&
           !operators::is_whole_average(model_, found.root) && !is_amplified(found) &&
           !rounds_for_nothing(index);
  }

  /// A logarithm and its like are steep where the values are small: those that rounding makes zero would be
  /// its largest results.
  [[nodiscard]] bool is_amplified(const Match& match) const {
    return std::ranges::any_of(match.last->outputs(),
                               [&](const Value* value) { return operators::is_amplified(model_, value); });
  }

  /// An activation that takes no longer in float than on bytes, the layer in front of it giving float.
  [[nodiscard]] bool rounds_for_nothing(std::size_t index) const {
    const Match& found = match(index);
    if (facts_[index].has_weight || found.root != found.last) return false;
    const Node* layer = quantized_layer(found.root);
    return layer != nullptr && kernels::stays_float_after(context_.target, model_, layer, found.root);
  }

  /// The quantized layer that returns what an operator reads; null where there is none.
  [[nodiscard]] const Node* quantized_layer(const Node* reader) const {
    const auto operands = ir::operands(reader);
    if (operands.empty()) return nullptr;
    const Node* layer = operands.front()->node();
    const auto found = match_of(layer);
    if (!found) return nullptr;
    const MaybeQConfig& qconfig = qconfig_of(model_, layer);
    return qconfig && match::is_static(*qconfig) && takes_static(*match(*found).row) ? layer : nullptr;
  }

  /// An STFT and its like: the bands of a signal differ so much in size that the small ones would drown in
  /// the rounding of their common range. What is squared differs twice as much, in decibels.
  [[nodiscard]] bool is_filter_bank(const Match& match) const {
    return kernels::slides_over_one_channel(context_.target, model_, match.root) ||
           is_squared(static_cast<const Node*>(match.last)->outputs());
  }

  /// The table whose rows a match looks up; null for others.
  [[nodiscard]] const ir::EmbeddingTable* table_of(const Match& match) const {
    if (!ir::is_module_call(match.root)) return nullptr;
    const auto& table = ir::call_of(model_, match.root).embedding;
    return table ? &*table : nullptr;
  }

  /// A few columns take less than their scale and smallest value do.
  [[nodiscard]] bool grows(const Match& match) const {
    const ir::EmbeddingTable* table = table_of(match);
    const MaybeQConfig& qconfig = qconfig_of(model_, match.last);
    if (table == nullptr || !qconfig || !match::is_weight_only(*qconfig) || table->weight.dim() != 2)
      return false;
    const int64_t row = torchscript::bytes_of_row(table->weight.size(1), resolve(qconfig->weight).dtype);
    return row >= table->weight.size(1) * static_cast<int64_t>(sizeof(float));
  }

  /// What this pass may decide about.
  [[nodiscard]] bool is_optional(std::size_t index) const {
    const Match& found = match(index);
    const MaybeQConfig& qconfig = qconfig_of(model_, found.last);
    if (!qconfig) return false;
    if (table_of(found) != nullptr) return grows(found) || is_amplified(found);
    const bool is_static = match::is_static(*qconfig) && takes_static(*found.row);
    if (!facts_[index].has_weight || facts_[index].is_filter_bank) return is_static;
    return (is_static || resolve(qconfig->activation).is_dynamic) && is_amplified(found);
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
    if (done_by_layers_.contains(node)) return true;
    const auto found = quantized_match_of(node);
    return found && (facts_[*found].has_weight || reads_given(match(*found)));
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
      if (done_by_layers_.contains(user)) return true;
      const auto found = quantized_match_of(user);
      return found && (facts_[*found].has_weight || gives_read(match(*found)));
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
    if (facts_[index].is_filter_bank) return gives_read(found);
    if (facts_[index].has_weight) return true;
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

  [[nodiscard]] Reason reason_of(std::size_t index) const {
    const Match& found = match(index);
    if (grows(found)) return Reason::ShortRows;
    if (operators::is_of_attention(model_, found.root)) return Reason::OfAttention;
    if (operators::is_whole_average(model_, found.root)) return Reason::WholeAverage;
    if (is_amplified(found)) return Reason::Amplified;
    if (rounds_for_nothing(index)) return Reason::FloatAfterLayer;
    if (facts_[index].is_filter_bank) return Reason::FilterBank;
    return Reason::Island;
  }

  Model& model_;
  const PassContext& context_;
  std::vector<const Value*> values_;
  std::unordered_set<const Node*> done_by_layers_{};  ///< in the kernel of a layer in front
  std::vector<Facts> facts_{};                        ///< by match
  std::vector<bool> quantized_{};                     ///< by match
  std::unordered_set<const Value*> given_{};          ///< what follow_layers has found
  std::unordered_set<const Value*> read_{};           ///< what follow_kernels has found
};

}  // namespace

bool leave_float_islands(Model& model, const PassContext& context) { return Islands(model, context).run(); }

}  // namespace tsq::passes
