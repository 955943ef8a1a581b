// Linear layers that quantize one input at run time quantize it once, as one layer with the rows of all.
//   linear_dynamic(x, q), linear_dynamic(x, k)   →   split(linear_dynamic(x, [q; k]), [rows of q, rows of k])

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "operators/traits.h"
#include "passes/tune/passes.h"

namespace tsq::passes {
namespace {

constexpr std::array<std::string_view, 2> kLinearKernels{"quantized::linear_dynamic",
                                                         "quantized::linear_relu_dynamic"};
constexpr const char* kNote =
    "its input is quantized once, together with the other linear layers that read it";

struct Layer {
  Node* node{};
  kernels::UnpackedParams params{};  ///< the weight is [rows, columns], quantized per channel
  std::vector<Node*> views{};        ///< of its output, that would refuse a part of a tensor
};

bool is_linear(const Node* node) {
  return std::ranges::find(kLinearKernels, std::string_view(node->kind().toQualString())) !=
         kLinearKernels.end();
}

bool shares_memory(const Node* node) {
  return std::ranges::any_of(node->schema().arguments(),
                             [](const auto& argument) { return argument.alias_info() != nullptr; });
}

/// Whether nobody can tell that a value, or a view of it, is not contiguous. Views that would refuse it go to
/// `views`.
bool may_be_strided(const Model& model, const Value* value, std::vector<Node*>& views) {
  return std::ranges::all_of(ir::users(value), [&](Node* reader) {
    if (!reader->kind().is_aten() || reader->maybeSchema() == nullptr || ir::stays_float(model, reader))
      return false;
    if (!operators::has(operators::traits_of(reader), operators::IsView))
      return !shares_memory(reader) || reader->kind() == c10::aten::contiguous;
    if (reader->kind() == c10::aten::view_as) return false;
    if (reader->kind() == c10::aten::view) {
      if (reader->input(1)->type()->kind() != c10::TypeKind::ListType) return false;
      views.push_back(reader);
    }
    return may_be_strided(model, reader->output(), views);
  });
}

class Joining {
 public:
  explicit Joining(Model& model) : model_(model) {
    for (Node* node : ir::nodes_in_order(*model.graph)) {
      if (node->kind() == c10::prim::GetAttr) ++readers_[node->s(c10::attr::name)];
      if (is_linear(node)) linear_.push_back(node);
    }
  }

  bool run() {
    bool has_changed = false;
    for (Node* node : linear_) {
      if (done_.contains(node)) continue;
      const std::vector<Layer> layers = layers_like(node);
      if (layers.size() < 2) continue;
      for (const Layer& layer : layers) {
        if (Decision* decision = ir::decision_of(model_, layer.node)) decision->notes.emplace_back(kNote);
        for (Node* view : layer.views) ir::reshape_for_view(model_, view);
      }
      join(layers);
      has_changed = true;
    }
    ir::eliminate_dead_code(*model_.graph);
    return has_changed;
  }

 private:
  /// The layers that quantize what `node` quantizes in the same way.
  std::vector<Layer> layers_like(const Node* node) {
    std::vector<Layer> layers;
    const auto uses = node->input(0)->uses();
    for (const auto& [reader, offset] : uses) {
      const bool reads_alike = offset == 0 && reader->kind() == node->kind() &&
                               reader->owningBlock() == node->owningBlock() &&
                               ir::constant_value(reader->input(2)) == ir::constant_value(node->input(2));
      if (!reads_alike || !done_.insert(reader).second) continue;
      auto layer = layer_of(reader);
      if (layer && may_be_strided(model_, reader->output(), layer->views))
        layers.push_back(std::move(*layer));
    }
    return layers;
  }

  /// What a node computes, when its packed params are its own; empty for others.
  std::optional<Layer> layer_of(Node* node) const {
    if (node->input(1)->uses().size() != 1) return std::nullopt;
    auto params = kernels::unpacked(model_, node->input(1), "quantized::linear_unpack");
    if (!params || params->weight.qscheme() != c10::kPerChannelAffine) return std::nullopt;
    const bool is_own = readers_.at(node->input(1)->node()->s(c10::attr::name)) == 1;
    return is_own ? std::optional(Layer{.node = node, .params = std::move(*params)}) : std::nullopt;
  }

  static c10::IValue packed(std::span<const Layer> layers) {
    std::vector<at::Tensor> codes;
    std::vector<at::Tensor> scales;
    std::vector<at::Tensor> zero_points;
    std::vector<at::Tensor> biases;
    for (const Layer& layer : layers) {
      const auto& [weight, bias] = layer.params;
      codes.push_back(weight.int_repr());
      scales.push_back(weight.q_per_channel_scales());
      zero_points.push_back(weight.q_per_channel_zero_points());
      biases.push_back(bias.defined() ? bias : at::zeros({weight.size(0)}));
    }
    const at::Tensor weight = at::_make_per_channel_quantized_tensor(at::cat(codes), at::cat(scales),
                                                                     at::cat(zero_points), /*axis*/ 0);
    return kernels::call_operator("quantized::linear_prepack", {weight, at::cat(biases)}).back();
  }

  /// Puts one node in front of the layers, and its parts in their place.
  void join(std::span<const Layer> layers) {
    Node* first = layers.front().node;
    for (const Layer& layer : layers) {
      if (layer.node->isBefore(first)) first = layer.node;
    }
    const torch::jit::WithInsertPoint guard(first);
    const c10::IValue params = packed(layers);
    std::vector<Value*> inputs = first->inputs().vec();
    const std::string& name = inputs[1]->node()->s(c10::attr::name);
    inputs[1] = ir::insert_attribute(model_, name + "_joined", params, params.type());
    const ir::Rewriter in_front(model_, first);
    Value* all = in_front.op(first->kind().toQualString(), inputs);
    std::vector<int64_t> rows;
    for (const Layer& layer : layers) rows.push_back(layer.params.weight.size(0));
    Value* parts =
        in_front.op("aten::split_with_sizes", {all, in_front.constant(rows), in_front.constant(int64_t{-1})},
                    c10::ListType::ofTensors());
    Node* part = in_front.node(c10::prim::ListUnpack, {parts}, layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers[i].node->output()->replaceAllUsesWith(part->output(i));
      layers[i].node->destroy();
    }
  }

  Model& model_;
  std::vector<Node*> linear_;
  std::unordered_map<std::string, int> readers_;  ///< of an attribute
  std::unordered_set<const Node*> done_;
};

}  // namespace

bool join_linear_layers(Model& model, const PassContext& context) {
  const kernels::EnginePacking engine(context.target);  // what was packed apart is packed together
  return Joining(model).run();
}

}  // namespace tsq::passes
