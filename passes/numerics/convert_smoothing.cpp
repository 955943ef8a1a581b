// The channels that smooth() observed → scales, which take the outliers of activations into the weights (Xiao
// et al., "SmoothQuant", 2023).
//   ln → observer → equalization observer → linear   becomes   ln → mul(1 / scale) → observer → linear
//   (weight · scale)
// Where the linear layers are the only readers of the LayerNorm its own weight and bias are divided instead.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <map>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "match/channel_scaling.h"
#include "match/smoothable.h"
#include "observers/observer_module.h"
#include "operators/traits.h"
#include "passes/numerics/channel_scales.h"
#include "passes/numerics/passes.h"
#include "torchscript/modules/tied_table.h"

namespace tsq::passes {
namespace {

using torch::jit::Module;

/// No scale is derived from less: of a channel that is always zero, or a column of zeros.
constexpr double kSmallest = 1e-5;

struct SmoothedLayer {
  Node* op{};
  match::Equalizable kind{};
};

/// Linear layers that read one smoothed tensor.
struct Group {
  Value* observed{};
  std::vector<SmoothedLayer> layers{};
  at::Tensor min_input{};  ///< of each channel
  at::Tensor max_input{};
  at::Tensor largest_input{};  ///< its magnitude, over all calls of the layers
  at::Tensor scale{};          ///< the activations are divided by it
};

class ConvertSmoothing {
 public:
  ConvertSmoothing(Model& model, double alpha) : model_(model), alpha_(alpha) {}

  bool run() {
    std::vector<Group> groups;
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (ir::is_observer(node) &&
          ir::observer_of(model_, node).spec.observer == observer_classes::kInputEqualization)
        groups.push_back(take_group(node));
    }
    const bool has_changed = !groups.empty();
    std::erase_if(groups,
                  [](const Group& group) { return group.min_input.numel() == 0 || group.layers.empty(); });
    find_largest_inputs(groups);
    for (Group& group : groups) smooth(group);
    ir::eliminate_dead_code(*model_.graph);
    return has_changed;
  }

 private:
  /// The layers after an observer of channels, which is removed.
  Group take_group(Node* channel_observer) const {
    const ChannelRanges seen = channel_ranges(ir::observer_of(model_, channel_observer).module.value());
    Group group{.observed = channel_observer->input(0), .min_input = seen.min_val, .max_input = seen.max_val};
    for (const torch::jit::Use& use : channel_observer->output()->uses()) {
      if (const auto kind = match::equalizable(model_, use.user)) group.layers.push_back({use.user, *kind});
    }
    channel_observer->output()->replaceAllUsesWith(group.observed);
    channel_observer->destroy();
    return group;
  }

  /// Layers that are called several times keep one set of weights: one scale for all of their calls.
  void find_largest_inputs(std::vector<Group>& groups) const {
    std::map<const void*, at::Tensor> largest;
    const auto key = [&](const Group& group) {
      const SmoothedLayer& layer = group.layers.front();
      return match::weight_of(model_, layer.op, layer.kind).const_data_ptr();
    };
    for (const Group& group : groups) {
      const at::Tensor input = at::maximum(group.min_input.abs(), group.max_input.abs());
      at::Tensor& of_layer = largest[key(group)];
      of_layer = of_layer.defined() ? at::maximum(of_layer, input) : input;
    }
    for (Group& group : groups) group.largest_input = largest.at(key(group));
  }

  void smooth(Group& group) {
    find_scale(group);
    if (is_tied(group) && !halves_error(group)) return;
    if (!divide_layer_norm(group, group.observed->node())) divide_in_front(group, group.observed);
    for (const SmoothedLayer& layer : group.layers) {
      scale_parameters(model_, layer.op, layer.kind, {.input = at::reciprocal(group.scale)});
    }
  }

  /// Equation 4: max|x|^α / max|w|^(1 - α), for each channel.
  void find_scale(Group& group) const {
    at::Tensor largest_weight;
    for (const SmoothedLayer& layer : group.layers) {
      const at::Tensor weight = match::weight_of(model_, layer.op, layer.kind).to(at::kFloat).abs().amax(0);
      if (weight.numel() != group.min_input.numel()) {
        throw Error(ErrorCode::BadModel,
                    fmt::format("a smoothing observer saw {} channels, the layer's weight has {}",
                                group.min_input.numel(), weight.numel()),
                    "prepare and calibrate the model again", Where{.layer = layer_path(model_, layer.op)});
      }
      largest_weight = largest_weight.defined() ? at::maximum(largest_weight, weight) : weight;
    }
    group.scale = group.largest_input.clamp_min(kSmallest).pow(alpha_) /
                  largest_weight.clamp_min(kSmallest).pow(1 - alpha_);
  }

  bool is_tied(const Group& group) const {
    return std::ranges::any_of(group.layers, [&](const SmoothedLayer& layer) {
      return torchscript::is_quantized_table(model_, match::weight_of(model_, layer.op, layer.kind));
    });
  }

  /// Whether scaling halves what rounding the input adds to the layers' outputs, in squares: a weight that is
  /// a table of an embedding, too, becomes two by it.
  bool halves_error(const Group& group) const {
    const auto range = [&](const at::Tensor& scale) {
      return ((group.max_input / scale).max() - (group.min_input / scale).min()).to(at::kDouble);
    };
    const auto energy = [&](const at::Tensor& scale) {
      at::Tensor sum = at::zeros({}, at::kDouble);
      for (const SmoothedLayer& layer : group.layers)
        sum += (match::weight_of(model_, layer.op, layer.kind).to(at::kDouble) * scale).square().sum();
      return sum;
    };
    const auto error = [&](const at::Tensor& scale) {
      return (range(scale).square() * energy(scale)).item<double>();
    };
    return 2 * error(group.scale) < error(at::ones_like(group.scale));
  }

  /// False when others read the LayerNorm's output, or its parameters are not the model's.
  bool divide_layer_norm(const Group& group, Node* observer) {
    Value* normalized = observer->input(0);
    Node* layer_norm = normalized->node();
    if (layer_norm != match::layer_norm_after(model_, normalized)) return false;
    if (operators::readers_of_numbers(normalized).size() != 1 ||
        operators::readers_of_numbers(observer->output()).size() != group.layers.size())
      return false;
    const bool divided = ir::is_module_call(layer_norm) ? divide_module(layer_norm, group.scale)
                                                        : divide_function(layer_norm, group.scale);
    if (divided) ir::set_observer_index(observer, add_smoothed_observer(group, ir::observer_index(observer)));
    return divided;
  }

  bool divide_module(const Node* node, const at::Tensor& scale) {
    ir::ModuleCall& call = ir::call_of(model_, node);
    if (!call.module || !call.module->hasattr("weight") || !call.module->attr("weight").isTensor())
      return false;
    Module divided = call.module->deepcopy();
    for (const char* name : {"weight", "bias"}) {
      if (!divided.hasattr(name) || !divided.attr(name).isTensor()) continue;
      const at::Tensor parameter = divided.attr(name).toTensor();
      if (parameter.sizes() != scale.sizes()) return false;
      divided.setattr(name, (parameter / scale).set_requires_grad(parameter.requires_grad()));
    }
    call.module = divided;
    return true;
  }

  bool divide_function(Node* node, const at::Tensor& scale) {
    const auto arguments = ir::arguments(node);
    constexpr std::size_t kWeight = 2;
    constexpr std::size_t kBias = 3;
    if (arguments.size() <= kBias) return false;
    std::vector<std::pair<Value*, at::Tensor>> divided;
    for (const std::size_t position : {kWeight, kBias}) {
      Value* value = arguments[position].value;
      if (position == kBias && value->mustBeNone()) continue;
      const auto parameter = match::parameter_after(model_, value);
      if (!parameter || parameter->sizes() != scale.sizes() || ir::is_observer(value->node())) return false;
      divided.emplace_back(value, *parameter / scale);
    }
    for (const auto& [value, parameter] : divided) {
      const std::string name = value->node()->s(c10::attr::name) + "_smoothed";
      ir::replace_operand(node, value, ir::attribute_before(model_, node, name, parameter));
    }
    return true;
  }

  /// What is observed is multiplied, not what its observer returns: that may be rounded for other readers.
  void divide_in_front(const Group& group, Value* observed) {
    const std::size_t index = add_smoothed_observer(group, ir::observer_index(observed->node()));
    const Node* first = group.layers.front().op;
    Value* product =
        multiply_channels(model_, observed->node()->next(), observed->node()->input(0),
                          at::reciprocal(group.scale), layer_path(model_, first) + "_smoothing_scale", first);
    Value* smoothed = ir::insert_observer(model_, product, index)->output();
    for (const SmoothedLayer& layer : group.layers) ir::replace_operand(layer.op, observed, smoothed);
  }

  /// The range of what is now divided: from its channels' extremes. Observers of dynamic quantization and
  /// of float16 need none.
  std::size_t add_smoothed_observer(const Group& group, std::size_t like) {
    const ObserverSpec old = model_.observers[like].spec;
    const ResolvedObserver resolved = resolve(old);
    if (resolved.is_dynamic || !c10::isQIntType(resolved.dtype))
      return add_observer(model_, like, model_.observers[like].module.value());
    const ObserverSpec spec{.observer = observer_classes::kMinMax,
                            .dtype = old.dtype,
                            .qscheme = old.qscheme,
                            .reduce_range = old.reduce_range,
                            .quant_min = old.quant_min,
                            .quant_max = old.quant_max,
                            .eps = old.eps};
    Module observer = make_observer(spec);
    observer.setattr("min_val", at::min(group.min_input / group.scale));
    observer.setattr("max_val", at::max(group.max_input / group.scale));
    const std::size_t index = add_observer(model_, like, std::move(observer));
    model_.observers[index].spec = spec;
    return index;
  }

  Model& model_;
  double alpha_;
};

}  // namespace

bool convert_smoothing(Model& model, const PassContext& context) {
  const auto alpha = migration_strength(context.options);
  return alpha && ConvertSmoothing(model, *alpha).run();
}

}  // namespace tsq::passes
