// Queries, keys and values stay rounded where the kernel of an attention multiplies their bytes.
//   linear(attention(observer(q), k, v))   becomes   linear(attention(q, k, v))

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "ir/analysis.h"
#include "ir/observer_results.h"
#include "operators/attention.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/place/attention_roundings.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

using operators::Attention;
using torch::jit::Use;

/// Null where nothing is rounded there, or for others too.
Node* rounding_at(const Model& model, const Use& use) {
  Node* node = use.user->input(use.offset)->node();
  return is_static_rounding(model, node) && node->output()->uses().size() == 1 ? node : nullptr;
}

std::optional<RoundingNoise> noise_of(const Model& model, const Node* rounding) {
  return ir::noise_of(ir::observer_of(model, rounding));
}

/// The operator in front of those that only move values.
const Node* maker_of(const Model& model, const Value* value) {
  const Node* node = value->node();
  const bool passes = ir::is_observer(node) || node->kind() == c10::prim::ListUnpack ||
                      operators::moves_values(operators::traits_of(model, node));
  return passes && !ir::operands(node).empty() ? maker_of(model, ir::operands(node).front()) : node;
}

/// Whether rounding what a layer returns adds no more noise than is in it: the layer reads its input and its
/// weight in 8 bits as well, and each of them adds about as much.
bool adds_little(const Model& model, const PassContext& context, const Node* rounding) {
  const Node* layer = maker_of(model, rounding->input(0));
  if (int8_layer(model, context, layer) == nullptr && !is_functional_layer(model, layer)) return false;
  const Node* before = before_channel_observers(model, ir::operands(layer).front())->node();
  if (!is_static_rounding(model, before)) return false;
  const auto noise = noise_of(model, rounding);
  const auto noise_before = noise_of(model, before);
  return noise && noise_before && noise->share() <= 2 * noise_before->share();
}

bool drop_from(Model& model, const Use& use) {
  Node* rounding = rounding_at(model, use);
  if (rounding != nullptr) bypass(rounding);
  return rounding != nullptr;
}

bool is_worth(const Model& model, const PassContext& context, const Use& use) {
  const Node* rounding = rounding_at(model, use);
  return rounding != nullptr && adds_little(model, context, rounding);
}

/// An error of the scores changes the shares that softmax makes of them by as much: one of 1/32 is 30 dB
/// below the result, and costs one of 20 dB, the least that quantize does not warn of, 0.4 dB.
constexpr double kLargestScoreError = 1.0 / 32;

/// Whether rounding queries and keys leaves the scores nearly as they are: qk/√width, on average.
bool keeps_scores(const Model& model, const Attention& attention) {
  const auto query = noise_of(model, rounding_at(model, attention.query));
  const auto key = noise_of(model, rounding_at(model, attention.key));
  return query && key &&
         query->square * key->squared_error + key->square * query->squared_error <=
             kLargestScoreError * kLargestScoreError;
}

/// The kernel multiplies bytes where both queries and keys are such. Values stay float: their rounding goes
/// into the result as it is, where softmax dampens that of the scores.
bool round_as_kernel_reads(Model& model, const PassContext& context, const Attention& attention) {
  const bool rounds_scores = is_worth(model, context, attention.query) &&
                             is_worth(model, context, attention.key) && keeps_scores(model, attention);
  bool has_changed = drop_from(model, attention.value);
  if (!rounds_scores) has_changed = drop_from(model, attention.query) || has_changed;
  if (!rounds_scores) has_changed = drop_from(model, attention.key) || has_changed;
  return has_changed;
}

}  // namespace

std::unordered_set<const Node*> attention_roundings(const Model& model, const PassContext& context) {
  if (context.target.runtime != LoweringTarget::Fused) return {};
  std::unordered_set<const Node*> found;
  for (const Attention& attention : operators::attentions(model)) {
    for (const Use& use : {attention.query, attention.key, attention.value}) {
      if (const Node* rounding = rounding_at(model, use)) found.insert(rounding);
    }
  }
  return found;
}

bool round_attention(Model& model, const PassContext& context) {
  return change_each(operators::attentions(model), [&](const Attention& attention) {
    return round_as_kernel_reads(model, context, attention);
  });
}

}  // namespace tsq::passes
