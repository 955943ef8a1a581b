// Rounding a constant yields the same values in each run: it is done once.
//   linear(x, dequantize(quantize(w)))   →   linear(x, w'), w' the values that w was rounded to
//   quantized::add(x, quantize(c))       →   quantized::add(x, c'), c' a quantized tensor

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "ir/analysis.h"
#include "ir/quantize_operators.h"
#include "operators/constant_expressions.h"
#include "operators/folded_constants.h"
#include "passes/pack/passes.h"
#include "torchscript/modules/rounded_weight.h"

namespace tsq::passes {
namespace {

bool is_same_rounding(const ir::Weighted& a, const ir::Weighted& b) {
  const QParams& of_a = *a.weight_qparams;
  const QParams& of_b = *b.weight_qparams;
  return a.weight.const_data_ptr() == b.weight.const_data_ptr() && a.weight.sizes() == b.weight.sizes() &&
         a.weight.strides() == b.weight.strides() && a.group_size == b.group_size &&
         of_a.dtype == of_b.dtype && of_a.qscheme == of_b.qscheme && of_a.axis == of_b.axis &&
         at::equal(of_a.scale, of_b.scale) && at::equal(of_a.zero_point, of_b.zero_point);
}

/// Calls of one layer share its rounded weight.
class RoundedWeights {
 public:
  void round(ir::Weighted& weighted) {
    auto found = std::ranges::find_if(
        rounded_, [&](const auto& each) { return is_same_rounding(each.first, weighted); });
    if (found == rounded_.end())
      found = rounded_.emplace(found, weighted, torchscript::rounded_weight(weighted));
    weighted.weight = found->second;
    weighted.weight_qparams.reset();
    weighted.group_size = 0;
  }

 private:
  std::vector<std::pair<ir::Weighted, at::Tensor>> rounded_;
};

/// Whether a layer that got no kernel is computed with its weight as it was: nothing after it was corrected
/// for a rounding of it, where ranges are found when the model runs.
bool keeps_exact_weight(const Model& model, const PassContext& context, const Node* layer) {
  const ir::NodeRecord* record = ir::record_of(model, layer);
  return context.options.recipe == Recipe::Best && !context.trains && record != nullptr &&
         record->reason != ir::Reason::KeptReference && record->lookup.qconfig &&
         resolve(record->lookup.qconfig->activation).is_dynamic;
}

bool round_weights_of_layers(Model& model, const PassContext& context) {
  bool has_changed = false;
  RoundedWeights weights;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    ir::Weighted* weighted = ir::is_module_call(node) ? ir::weighted_of(ir::call_of(model, node)) : nullptr;
    if (weighted == nullptr || !weighted->weight_qparams ||
        weighted->weight_qparams->dtype == c10::ScalarType::Half)
      continue;
    if (keeps_exact_weight(model, context, node)) {
      weighted->weight_qparams.reset();
      weighted->group_size = 0;
    } else {
      weights.round(*weighted);
    }
    has_changed = true;
  }
  return has_changed;
}

bool fold(Model& model, std::span<const c10::Symbol> kinds) {
  bool has_changed = false;
  const operators::ConstantExpressions constants(model);
  operators::FoldedConstants folded(model);
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (std::ranges::find(kinds, node->kind()) == kinds.end()) continue;
    const auto value = constants.value_of(node->output());
    if (!value || !value->isTensor()) continue;
    folded.replace(node->output(), constants.attributes_of(node->output()), value->toTensor());
    has_changed = true;
  }
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace

bool round_constants(Model& model, const PassContext& context) {
  const bool has_rounded = round_weights_of_layers(model, context);
  // What is dequantized at once is not kept as bytes, too.
  const bool has_dequantized = fold(model, std::array{ir::kDequantize});
  const bool has_quantized = fold(model, std::array{ir::kQuantize, ir::kQuantizePerChannel});
  return has_rounded || has_dequantized || has_quantized;
}

}  // namespace tsq::passes
