// Equalization observers → scales: input channels are multiplied by them, columns of the weight divided
// (torch/ao/quantization/fx/_equalize.py, update_obs_for_equalization and convert_eq_obs).
//   x → observer → equalization observer → linear   becomes   x → mul(scale) → observer → linear (weight /
//   scale)
// Between two equalized layers the scale goes into the rows of the first one's weight and into its bias.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "match/channel_scaling.h"
#include "observers/observer_module.h"
#include "passes/numerics/channel_scales.h"
#include "passes/numerics/passes.h"
#include "passes/place/idle_observers.h"

namespace tsq::passes {
namespace {

using torch::jit::Module;

struct EqualizedLayer {
  Node* op{};
  Node* equalizer{};          ///< its equalization observer; gone once the scale is placed
  match::Equalizable kind{};  ///< how its parameters are found
  at::Tensor min_input{};     ///< of each input channel
  at::Tensor max_input{};
  at::Tensor scale{};         ///< of its input channels; undefined: it is left alone
  at::Tensor output_scale{};  ///< of its output channels, the input channels of the next layer
};

bool is_equalizer(const Model& model, const Node* node) {
  return ir::is_observer(node) &&
         ir::observer_of(model, node).spec.observer == observer_classes::kInputEqualization;
}

class ConvertEqualization {
 public:
  explicit ConvertEqualization(Model& model) : model_(model) {}

  bool run() {
    find_layers();
    if (layers_.empty()) return false;
    for (EqualizedLayer& layer : layers_) find_scale(layer);
    for (EqualizedLayer& layer : layers_) place_scale(layer);
    //
    for (const EqualizedLayer& layer : layers_) {
      scale_parameters(model_, layer.op, layer.kind, {.input = layer.scale, .output = layer.output_scale});
    }
    ir::eliminate_dead_code(*model_.graph);
    return true;
  }

 private:
  void find_layers() {
    for (Node* node : ir::nodes_in_order(*model_.graph)) {
      const auto kind = match::equalizable(model_, node);
      if (!kind) continue;
      Node* equalizer = ir::arguments(node).front().value->node();
      if (is_equalizer(model_, equalizer))
        layers_.push_back({.op = node, .equalizer = equalizer, .kind = *kind});
    }
  }

  // The scale.

  void find_scale(EqualizedLayer& layer) {
    const ChannelRanges ranges = channel_ranges(ir::observer_of(model_, layer.equalizer).module.value());
    layer.min_input = ranges.min_val;
    layer.max_input = ranges.max_val;
    const at::Tensor weight = match::weight_of(model_, layer.op, layer.kind).to(at::kFloat);
    if (layer.min_input.numel() == 0) return;
    if (layer.min_input.numel() != weight.size(1)) {
      throw Error(ErrorCode::BadModel,
                  fmt::format("an equalization observer saw {} channels, the layer's weight has {}",
                              layer.min_input.numel(), weight.size(1)),
                  "prepare and calibrate the model again", Where{.layer = layer_path(model_, layer.op)});
    }
    const auto [min_weight, max_weight] = at::aminmax(weight.transpose(0, 1).flatten(1), 1);
    const at::Tensor scale = at::sqrt((max_weight - min_weight) / (layer.max_input - layer.min_input));
    layer.scale = at::nan_to_num(scale.masked_fill(scale == 0, 1), 1.0, 1.0, 1.0);
    // PyTorch does not tell a single channel with scale 1 from a scale that was not found.
    if (layer.scale.numel() == 1 && layer.scale.item<float>() == 1.0F) layer.scale.reset();
  }

  // Its place.

  void place_scale(EqualizedLayer& layer) {
    Value* observed = layer.equalizer->input(0);
    layer.equalizer->output()->replaceAllUsesWith(observed);
    layer.equalizer->destroy();
    if (!layer.scale.defined()) return;
    if (EqualizedLayer* previous = absorber(layer, observed)) {
      previous->output_scale = layer.scale;
      return;
    }
    if (must_keep_observer(observed)) {
      multiply_after(layer, observed);
    } else {
      multiply_in_front(layer, observed->node());
    }
  }

  EqualizedLayer* layer_of(const Node* node) {
    const auto found = std::ranges::find(layers_, node, &EqualizedLayer::op);
    return found == layers_.end() ? nullptr : &*found;
  }

  /// The equalized layer whose output, through a ReLU or not, is read by `layer` alone; null when the scale
  /// has to be multiplied. A ReLU lets positive factors through.
  EqualizedLayer* absorber(const EqualizedLayer& layer, const Value* observed) {
    const Value* made = observed->node()->input(0);
    if (observed->uses().size() != 1 || made->uses().size() != 1) return nullptr;
    if (match::is_relu(model_, made->node())) {
      made = ir::operands(made->node()).front();
      if (made->uses().size() != 1) return nullptr;
    }
    EqualizedLayer* previous = layer_of(made->node());
    if (previous == nullptr || previous->kind.channel_axis != layer.kind.channel_axis) return nullptr;
    if (previous->kind.bias != nullptr && !match::parameter_after(model_, previous->kind.bias))
      return nullptr;
    return match::weight_of(model_, previous->op, previous->kind).size(0) == layer.scale.numel() ? previous
                                                                                                 : nullptr;
  }

  /// FX multiplies in front of the observer always. Where others read what it observed they would get
  /// scaled values; a layer that is not followed by its observer would lose its kernel.
  bool must_keep_observer(const Value* observed) const {
    if (observed->uses().size() != 1) return true;
    if (resolve(ir::observer_of(model_, observed->node()).spec).is_dynamic) return false;
    return match::equalizable(model_, observed->node()->input(0)->node()).has_value();
  }

  /// mul(x, scale) in front of `before`.
  Value* multiply(const EqualizedLayer& layer, Node* before, Value* x) {
    const std::string name = layer_path(model_, layer.op) + "_equalization_scale";
    return multiply_channels(model_, before, x, layer.scale, name, layer.op);
  }

  /// FX gives the scaled range to the observer itself, so that a pool or view and its input, which share one,
  /// get it as well.
  void multiply_in_front(const EqualizedLayer& layer, Node* observer) {
    observer->replaceInput(0, multiply(layer, observer, observer->input(0)));
    ir::ObserverEntry& entry = ir::observer_of(model_, observer);
    entry.module = scaled_observer(layer, entry);
    entry.result.reset();
  }

  void multiply_after(const EqualizedLayer& layer, Value* observed) {
    const std::size_t index = ir::observer_index(observed->node());
    Value* product = multiply(layer, layer.op, observed);
    Node* observer = ir::insert_observer(
        model_, product, add_observer(model_, index, scaled_observer(layer, model_.observers[index])));
    ir::replace_operand(layer.op, observed, observer->output());
  }

  /// The observer of what is now multiplied. A histogram keeps its counts: as FX has it, they are spread over
  /// the new range. Observers without a range (dynamic quantization) need none.
  static Module scaled_observer(const EqualizedLayer& layer, const ir::ObserverEntry& entry) {
    Module scaled = entry.module.value().deepcopy();
    if (!scaled.hasattr("min_val")) return scaled;
    scaled.setattr("min_val", at::min(layer.min_input * layer.scale));
    scaled.setattr("max_val", at::max(layer.max_input * layer.scale));
    return scaled;
  }

  Model& model_;
  std::vector<EqualizedLayer> layers_{};
};

}  // namespace

bool convert_equalization(Model& model, const PassContext& context) {
  if (!ConvertEqualization(model).run()) return false;
  take_idle_observers_away(model, context);  // K-03 holds for those too that multiplications read now
  return true;
}

}  // namespace tsq::passes
