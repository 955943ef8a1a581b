// Operators without a weight that do not lie between quantized ones stay float. So do filter banks that only
// float operators read, layers whose output goes to a logarithm or the like, tables that rounding makes
// larger, and activations that are as fast in float after a layer that returns its output in float.
//   sqrt(float) → add → sqrt(float)
// FX quantizes both inputs and the output of this addition. That costs three roundings and takes longer than
// the addition in float. Values of a wide range (squares, attention scores with a mask of -10000) do not
// survive it.

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <unordered_set>

#include "backends/kernels/filter_bank.h"
#include "backends/kernels/float_output.h"
#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "operators/amplified.h"
#include "operators/functional_weighted.h"
#include "operators/traits.h"
#include "operators/whole_average.h"
#include "passes/placement/passes.h"
#include "torchscript/embedding.h"
#include "torchscript/recurrent.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// Products of two activations, what normalises them, and GELU: of a wide range, and no engine is fast with
/// them.
bool is_of_attention(const Model& gm, const Node* node) {
  return operators::is_one_of(gm, node, {"matmul", "bmm", "softmax", "layer_norm", "group_norm", "gelu"});
}

bool is_integer(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::QUInt8 || dtype == c10::ScalarType::QInt8;
}

bool takes_static(const BackendPatternConfig& row) {
  return std::any_of(row.dtype_configs.begin(), row.dtype_configs.end(), [](const DTypeConfig& config) {
    return config.input_dtype.dtype && is_integer(*config.input_dtype.dtype) &&
           !config.is_dynamic.value_or(false);
  });
}

class Islands {
 public:
  Islands(const Model& gm, const PrepareCustomConfig& custom, MatchTable& table)
      : gm_(gm), custom_(custom), table_(table) {}

  void run() {
    for (const Match& match : table_.matches) quantized_.push_back(may_be_quantized(match));
    std::vector<bool> before;
    while (before != quantized_) {
      before = quantized_;
      for (std::size_t i = 0; i < quantized_.size(); ++i)
        quantized_[i] = quantized_[i] && is_worth_it(table_.matches[i]);
    }
    for (std::size_t i = 0; i < quantized_.size(); ++i) {
      Match& match = table_.matches[i];
      if (!quantized_[i] && is_optional(match)) leave_float(match);
    }
    remove_empty_matches(table_);
  }

 private:
  [[nodiscard]] const MaybeQConfig& qconfig_of(const Node* node) const {
    static const MaybeQConfig kNone;
    const auto found = table_.qconfig_of.find(node);
    return found == table_.qconfig_of.end() ? kNone : found->second.qconfig;
  }

  [[nodiscard]] bool has_weight(const Match& match) const {
    if (ir::is_module_call(match.root)) {
      const ir::ModuleCall& call = ir::call_of(gm_, match.root);
      return call.standalone || ir::weighted_of(call) != nullptr || torchscript::is_recurrent(call.type);
    }
    const auto targets = ir::targets(gm_, match.root);
    return std::any_of(targets.begin(), targets.end(), [](const Symbol& target) {
      return !operators::module_of_functional(target.name).empty();
    });
  }

  [[nodiscard]] bool may_be_quantized(const Match& match) const {
    if (ir::is_standalone(gm_, match.root)) return true;
    const MaybeQConfig& qconfig = qconfig_of(match.last);
    return qconfig && match::is_static(*qconfig) && takes_static(*match.row) &&
           !is_of_attention(gm_, match.root) && !operators::is_whole_average(gm_, match.root) &&
           !is_amplified(match) && !rounds_for_nothing(match);
  }

  /// A logarithm and its like are steep where the values are small: those that rounding makes zero would be
  /// its largest results.
  [[nodiscard]] bool is_amplified(const Match& match) const {
    return std::ranges::any_of(match.last->outputs(),
                               [&](const Value* value) { return operators::is_amplified(gm_, value); });
  }

  /// An activation that takes no longer in float than on bytes, the layer in front of it giving float.
  [[nodiscard]] bool rounds_for_nothing(const Match& match) const {
    const Node* layer = has_weight(match) || match.root != match.last ? nullptr : quantized_layer(match.root);
    return layer != nullptr && kernels::stays_float_after(gm_, layer, match.root);
  }

  /// The quantized layer that returns what an operator reads; null where there is none.
  [[nodiscard]] const Node* quantized_layer(const Node* reader) const {
    const auto operands = ir::operands(reader);
    if (operands.empty()) return nullptr;
    const auto layer = table_.match_of.find(operands.front()->node());
    if (layer == table_.match_of.end()) return nullptr;
    const MaybeQConfig& qconfig = qconfig_of(layer->first);
    const bool is_quantized =
        qconfig && match::is_static(*qconfig) && takes_static(*table_.matches[layer->second].row);
    return is_quantized ? layer->first : nullptr;
  }

  /// An STFT and its like: the bands of a signal differ so much in size that the small ones would drown in
  /// the rounding of their common range. What is squared differs twice as much, in decibels.
  [[nodiscard]] bool is_filter_bank(const Match& match) const {
    return has_weight(match) &&
           (kernels::slides_over_one_channel(gm_, match.root) || is_squared(match.last->outputs()));
  }

  [[nodiscard]] static bool is_squared(at::ArrayRef<Value*> values) {
    return std::ranges::any_of(values, [](const Value* value) {
      return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
        return kernels::squared_value(use.user) != nullptr ||
               (use.offset == 0 && moves(use.user) && is_squared(use.user->outputs()));
      });
    });
  }

  [[nodiscard]] static bool moves(const Node* node) {
    return node->kind() == c10::prim::ListUnpack || operators::moves_values(operators::traits_of(node));
  }

  /// The table whose rows a match looks up; null for others.
  [[nodiscard]] const ir::EmbeddingTable* table_of(const Match& match) const {
    if (!ir::is_module_call(match.root)) return nullptr;
    const auto& table = ir::call_of(gm_, match.root).embedding;
    return table ? &*table : nullptr;
  }

  /// A few columns take less than their scale and smallest value do.
  [[nodiscard]] bool grows(const Match& match) const {
    const ir::EmbeddingTable* table = table_of(match);
    const MaybeQConfig& qconfig = qconfig_of(match.last);
    if (table == nullptr || !qconfig || !match::is_weight_only(*qconfig) || table->weight.dim() != 2)
      return false;
    const int64_t row = torchscript::bytes_of_row(table->weight.size(1), resolve(qconfig->weight).dtype);
    return row >= table->weight.size(1) * static_cast<int64_t>(sizeof(float));
  }

  /// What this pass may decide about.
  [[nodiscard]] bool is_optional(const Match& match) const {
    const MaybeQConfig& qconfig = qconfig_of(match.last);
    if (!qconfig) return false;
    if (table_of(match) != nullptr) return grows(match) || is_amplified(match);
    const bool is_dynamic = resolve(qconfig->activation).is_dynamic;
    if (has_weight(match) && !is_filter_bank(match))
      return is_amplified(match) && (is_dynamic || (match::is_static(*qconfig) && takes_static(*match.row)));
    return match::is_static(*qconfig) && takes_static(*match.row);
  }

  /// What was looked at on the way along values: a loop leads back to where it began.
  using Seen = std::unordered_set<const void*>;

  /// Whether a value comes from a layer through nothing but quantized operators. Those of a loop that read
  /// only each other do not count: nothing is quantized there but by them.
  [[nodiscard]] bool gives_quantized(const Value* value, Seen& seen) const {
    if (!seen.insert(value).second) return false;
    const Node* node = value->node();
    if (node->kind() == c10::prim::Param || !node->blocks().empty()) {
      const std::vector<const Value*> sources = flows_from(value);
      return std::ranges::any_of(sources,
                                 [&](const Value* source) { return gives_quantized(source, seen); }) ||
             is_quantized_input(node);
    }
    if (is_done_by_layer(node)) return true;
    const auto found = table_.match_of.find(node);
    if (found == table_.match_of.end() || !quantized_[found->second]) return false;
    const Match& match = table_.matches[found->second];
    return has_weight(match) || reads_quantized(match, seen);
  }

  [[nodiscard]] bool is_quantized_input(const Node* node) const {
    return node->owningBlock()->owningNode() == nullptr && !custom_.input_quantized_indexes().empty();
  }

  /// The values that an output of a branch or loop, or what a loop carries, may be.
  static std::vector<const Value*> flows_from(const Value* value) {
    const Node* node = value->node();
    if (node->kind() == c10::prim::If)
      return {node->blocks()[0]->outputs()[value->offset()], node->blocks()[1]->outputs()[value->offset()]};
    if (node->kind() == c10::prim::Loop) return carried(node, value->offset());
    const Node* owner = node->owningBlock()->owningNode();
    if (owner == nullptr || owner->kind() != c10::prim::Loop || value->offset() == 0) return {};
    return carried(owner, value->offset() - 1);
  }

  /// What goes into a loop, and what its body returns: its inputs begin with the number of rounds and a
  /// condition, the values of its body with the condition.
  static std::vector<const Value*> carried(const Node* loop, std::size_t index) {
    return {loop->input(index + 2), loop->blocks()[0]->outputs()[index + 1]};
  }

  /// The values that one becomes as the operand of a branch, a loop, or the end of their blocks.
  static std::vector<const Value*> flows_to(const torch::jit::Use& use) {
    constexpr std::size_t kBeforeInputs = 2;
    if (use.user->kind() == c10::prim::Loop)
      return use.offset < kBeforeInputs ? std::vector<const Value*>{}
                                        : carriers(use.user, use.offset - kBeforeInputs);
    const Node* owner = use.user->owningBlock()->owningNode();
    if (use.user->kind() != c10::prim::Return || owner == nullptr) return {};
    if (owner->kind() == c10::prim::If) return {owner->output(use.offset)};
    return use.offset == 0 ? std::vector<const Value*>{} : carriers(owner, use.offset - 1);
  }

  static std::vector<const Value*> carriers(const Node* loop, std::size_t index) {
    return {loop->output(index), loop->blocks()[0]->inputs()[index + 1]};
  }

  [[nodiscard]] bool is_done_by_layer(const Node* node) const {
    const Node* layer = quantized_layer(node);
    return layer != nullptr && kernels::is_done_by_kernel(gm_, layer, node);
  }

  [[nodiscard]] bool reads_quantized(const Match& match, Seen& seen) const {
    const auto operands = ir::operands(match.root);
    return std::any_of(operands.begin(), operands.end(), [&](const Value* value) {
      return ir::holds_tensor(value) && gives_quantized(value, seen);
    });
  }

  /// Whether a kernel reads what a match returns, also after operators that move it: a layer's in the end.
  [[nodiscard]] bool is_read_by_kernel(const Match& match, Seen& seen) const {
    return std::ranges::any_of(match.last->outputs(),
                               [&](const Value* value) { return is_read_by_kernel(value, seen); });
  }

  [[nodiscard]] bool is_read_by_kernel(const Value* value, Seen& seen) const {
    if (!seen.insert(value).second) return false;
    return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
      const Node* user = use.user;
      if (user->kind() == c10::prim::Return && user->owningBlock()->owningNode() == nullptr)
        return !custom_.output_quantized_indexes().empty();
      const std::vector<const Value*> next = flows_to(use);
      if (!next.empty())
        return std::ranges::any_of(next, [&](const Value* each) { return is_read_by_kernel(each, seen); });
      if (is_done_by_layer(user)) return true;
      const auto found = table_.match_of.find(user);
      if (found == table_.match_of.end() || !quantized_[found->second]) return false;
      const Match& reader = table_.matches[found->second];
      return has_weight(reader) || is_read_by_kernel(reader, seen);
    });
  }

  /// Operators that move or choose values (views, pools) do so on fewer bytes when what they read is
  /// quantized.
  [[nodiscard]] bool is_worth_it(const Match& match) const {
    Seen readers;
    if (is_filter_bank(match)) return is_read_by_kernel(match, readers);
    if (has_weight(match)) return true;
    if (Seen sources; !reads_quantized(match, sources)) return false;
    return (match.shares_observer && !operators::is_one_of(gm_, match.root, {"cat"})) ||
           is_read_by_kernel(match, readers);
  }

  [[nodiscard]] const char* reason_of(const Match& match) const {
    if (grows(match)) return "its rows are so short that a scale for each makes them larger";
    if (is_of_attention(gm_, match.root))
      return "recipe best computes products of activations, softmax, LayerNorm, GroupNorm and GELU in float";
    if (operators::is_whole_average(gm_, match.root))
      return "an average of a whole map uses a small part of the map's range, in which the quantized kernel "
             "rounds";
    if (is_amplified(match))
      return "a logarithm, root, reciprocal or division reads it, which is steep where rounding loses small "
             "values";
    if (rounds_for_nothing(match)) return kernels::kFloatAfterLayer;
    if (is_filter_bank(match))
      return "it is a filter bank that float operators read: its quiet bands would disappear in the rounding";
    return "it does not lie between quantized operators: rounding its values would cost accuracy and save no "
           "time";
  }

  void leave_float(Match& match) {
    const char* reason = reason_of(match);
    // Calibration may show that it is too small for that.
    const bool may_be_lowered = std::string_view(reason) == kernels::kFloatAfterLayer;
    for (const Node* node : match.nodes) {
      if (!may_be_lowered) table_.qconfig_of[node].qconfig.reset();
      table_.left_float[node] = reason;
      table_.match_of.erase(node);
    }
    match.nodes.clear();
  }

  const Model& gm_;
  const PrepareCustomConfig& custom_;
  MatchTable& table_;
  std::vector<bool> quantized_;  ///< by match
};

}  // namespace

void leave_float_islands(const Model& gm, const PrepareCustomConfig& custom, MatchTable& table) {
  Islands(gm, custom, table).run();
}

}  // namespace tsq::passes
