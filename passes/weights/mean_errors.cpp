// An operator after the sums of every quantized layer compares them with those of the float graph on the
// same sample, and passes them on without the error, so that the next layer's error is its own.

#include "passes/weights/mean_errors.h"

#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/kernels/packed.h"
#include "base/libtorch_error.h"
#include "io/samples.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "operators/error_passage.h"
#include "passes/context/nodes.h"
#include "passes/weights/equal_parameters.h"
#include "torchscript/emit.h"
#include "torchscript/kept_state.h"

namespace tsq::passes {
namespace {

/// A channel that passes on less is corrected by less than its error.
constexpr double kLeastShare = 0.05;

/// The shifts that items of a batch ask for, by channel.
class Shifts {
 public:
  /// `rows`: [items, channels], double.
  void add(const at::Tensor& rows) {
    sum_ = sum_ + rows.sum(0);
    squares_ = squares_ + rows.square().sum(0);
    items_ += rows.size(0);
  }

  [[nodiscard]] int64_t items() const noexcept { return items_; }

  /// The mean, less the share of it that chance explains.
  [[nodiscard]] at::Tensor certain_mean() const {
    if (items_ < 2) return at::zeros_like(sum_);
    const auto items = static_cast<double>(items_);
    const at::Tensor mean = sum_ / items;
    const double seen = mean.square().sum().item<double>();
    const double chance = (squares_ / items - mean.square()).clamp_min(0).sum().item<double>() / (items - 1);
    return seen > chance ? mean * (1 - chance / seen) : at::zeros_like(mean);
  }

 private:
  int64_t items_{0};
  at::Tensor sum_{at::zeros({1}, at::kDouble)};
  at::Tensor squares_{at::zeros({1}, at::kDouble)};
};

/// A layer's call in the graph.
struct Layer {
  std::string node{};
  int64_t dims{0};  ///< of its sums, after the channels
  operators::ErrorPassage passage{};
  std::deque<at::Tensor> wanted{};   ///< the results of the float run: [items, channels]
  std::shared_ptr<Shifts> shifts{};  ///< of all calls with the same weight, which have one bias
};

/// The mean of n items has 1 / n of the variance that the error has between items: with 32 of them, what is
/// left of it adds an eighth of a decibel. Rows of one sample may be alike, so some samples are run in any
/// case.
constexpr int64_t kEnoughItems = 32;
constexpr std::size_t kFewestSamples = 4;
bool has_enough(const Layer& layer) { return layer.shifts->items() >= kEnoughItems; }

/// What goes on in this thread's run.
struct Run {
  std::vector<Layer>& layers;
  bool is_exact{};
};
thread_local const Run* running = nullptr;

/// [items, channels]. The first axis counts items unless it counts channels.
at::Tensor item_means(const at::Tensor& values, int64_t dims) {
  const int64_t axis = values.dim() - 1 - dims;
  std::vector<int64_t> others;
  for (int64_t i = 1; i < values.dim(); ++i) {
    if (i != axis) others.push_back(i);
  }
  const at::Tensor means = others.empty() ? values : values.mean(others);
  return (axis == 0 ? means.unsqueeze(0) : means).to(at::kDouble);
}

at::Tensor shifted(const at::Tensor& sums, const at::Tensor& shift, int64_t dims) {
  std::vector<int64_t> shape(static_cast<std::size_t>(dims) + 1, 1);
  shape[0] = -1;
  return sums - shift.to(sums.scalar_type()).reshape(shape);
}

/// The shift that each item asks for, by a step of Newton's method from the one that is known; undefined
/// where the two runs do not fit.
at::Tensor shifts_of(const Layer& layer, const at::Tensor& sums, const at::Tensor& wanted) {
  const at::Tensor shift = layer.shifts->certain_mean();
  const at::Tensor values = shifted(sums, shift, layer.dims);
  const at::Tensor got = item_means(operators::passed_integral(layer.passage, values), layer.dims);
  if (got.sizes() != wanted.sizes()) return {};
  const at::Tensor share = item_means(operators::passed_share(layer.passage, values), layer.dims).mean(0);
  const at::Tensor rows = shift + (got - wanted) / share.clamp_min(kLeastShare);
  return at::isfinite(rows).all().item<bool>() ? rows : at::Tensor();
}

/// What the sums are in the model that is corrected so far.
at::Tensor without_error(Layer& layer, const at::Tensor& sums) {
  if (layer.wanted.empty()) return sums;
  const at::Tensor wanted = layer.wanted.front();
  layer.wanted.pop_front();
  const at::Tensor rows = shifts_of(layer, sums, wanted);
  if (rows.defined()) layer.shifts->add(rows);
  return shifted(sums, layer.shifts->certain_mean(), layer.dims);
}

/// Positions of images and signals, or none. Those of sequences may be padding, which would count as much.
bool has_positions_alike(const at::Tensor& sums, int64_t dims) {
  constexpr int64_t kMatrix = 2;
  return sums.numel() != 0 && sums.dim() > dims && (dims > 0 || sums.dim() <= kMatrix);
}

void compare(torch::jit::Stack& stack) {
  const auto index = static_cast<std::size_t>(torch::jit::pop(stack).toInt());
  at::Tensor sums = torch::jit::pop(stack).toTensor();
  Layer* layer = running == nullptr ? nullptr : &running->layers[index];
  if (layer != nullptr && has_positions_alike(sums, layer->dims)) {
    if (running->is_exact) {
      layer->wanted.push_back(item_means(operators::passed_integral(layer->passage, sums), layer->dims));
    } else {
      sums = without_error(*layer, sums);
    }
  }
  torch::jit::push(stack, sums);
}

const c10::Symbol& compare_kind() {
  static const c10::Symbol kKind = [] {
    // "Conservative": no pass may move or remove it.
    static const torch::jit::RegisterOperators kOperators(
        {torch::jit::Operator("tsq::compare_sums(Tensor sums, int layer) -> Tensor", compare,
                              c10::AliasAnalysisKind::CONSERVATIVE)});
    return c10::Symbol::fromQualString("tsq::compare_sums");
  }();
  return kKind;
}

Value* insert_comparison(Node* before, Value* sums, std::size_t layer) {
  return ir::insert_before(before, compare_kind().toQualString(),
                           {sums, ir::constant_before(before, static_cast<int64_t>(layer))});
}

/// The members of a fused call one by one, with a comparison of the root's sums, the other addend among them.
void compare_fused(Model& model, Node* node, std::size_t layer) {
  const ir::Rewriter rewriter(model, node);
  const ir::ModuleCall call = ir::call_of(model, node);
  Value* value = rewriter.call(call.members.front(), {node->input(0)});
  if (node->inputs().size() == 2)
    value = rewriter.op("aten::add", {value, node->input(1), rewriter.constant(int64_t{1})});
  value = insert_comparison(node, value, layer);
  for (std::size_t i = 1; i < call.members.size(); ++i) value = rewriter.call(call.members[i], {value});
  node->output()->replaceAllUsesWith(value);
  node->destroy();
}

void compare_plain(Node* node, std::size_t layer) {
  Value* compared = insert_comparison(node->next(), node->output(), layer);
  node->output()->replaceAllUsesAfterNodeWith(compared->node(), compared);
}

bool has_int8_weight(const ir::Weighted* weighted) {
  return weighted != nullptr && weighted->weight_qparams &&
         weighted->weight_qparams->dtype == c10::ScalarType::QInt8;
}

/// The weights as they are when the model runs, so that it does not round them in each run.
void round_now(ir::ModuleCall& call) {
  ir::Weighted* weighted = ir::weighted_of(call);
  if (!has_int8_weight(weighted) || weighted->group_size > 0) return;
  weighted->weight = kernels::quantized_weight(*weighted).dequantize();
  weighted->weight_qparams.reset();
}

torch::jit::Module compared_module(const Model& source, const std::vector<Layer>& layers) {
  std::unordered_map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < layers.size(); ++i) index_of.emplace(layers[i].node, i);
  Model model = source.copy();
  change_nodes(model, ir::is_observer, bypass);  // the samples leave no trace in observers
  for (ir::ModuleCall& call : model.calls) round_now(call);
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    const auto found = ir::is_module_call(node) ? index_of.find(node->output()->debugName()) : index_of.end();
    if (found == index_of.end()) continue;
    if (ir::call_of(model, node).members.empty()) {
      compare_plain(node, found->second);
    } else {
      compare_fused(model, node, found->second);
    }
  }
  return torchscript::emit(model);
}

/// The shifts of each layer, by the nodes that call it.
std::unordered_map<std::string, std::shared_ptr<Shifts>> shifts_by_node(const Model& exact) {
  Model model = exact.copy();
  join_equal_parameters(model);  // passes that scale channels have made a weight for each call
  // A matrix and its transpose lie in the same memory.
  std::map<std::pair<const void*, std::vector<int64_t>>, std::shared_ptr<Shifts>> by_weight;
  std::unordered_map<std::string, std::shared_ptr<Shifts>> by_node;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    const ir::Weighted* weighted = weighted_at(model, node);
    if (weighted == nullptr) continue;
    std::shared_ptr<Shifts>& shifts =
        by_weight[{weighted->weight.const_data_ptr(), weighted->weight.strides().vec()}];
    if (shifts == nullptr) shifts = std::make_shared<Shifts>();
    by_node.emplace(node->output()->debugName(), shifts);
  }
  return by_node;
}

std::vector<Layer> layers_of(const Model& exact, const Model& rounded) {
  const auto nodes = ir::nodes_in_order(*rounded.graph);
  std::vector<Layer> layers;
  if (std::ranges::none_of(nodes, [](const Node* node) { return node->kind() == ir::kQuantize; }))
    return layers;
  const auto shifts = shifts_by_node(exact);
  for (const Node* node : nodes) {
    const ir::Weighted* weighted = weighted_at(rounded, node);
    if (!has_int8_weight(weighted)) continue;
    const auto found = shifts.find(node->output()->debugName());
    if (found == shifts.end()) continue;
    const auto dims = static_cast<int64_t>(weighted->stride.size());
    layers.push_back({.node = node->output()->debugName(),
                      .dims = dims,
                      .passage = operators::error_passage_after(rounded, node, dims),
                      .shifts = found->second});
  }
  return layers;
}

void run(torch::jit::Module& module, const Sample& sample, const Run& run) {
  running = &run;
  const auto guard = c10::make_scope_exit([] { running = nullptr; });
  module.get_method("forward")(detail::copy_of(sample));
}

}  // namespace

std::map<std::string, at::Tensor> mean_errors(const Model& exact, const Model& rounded,
                                              const PassContext& context) {
  std::vector<Layer> layers = layers_of(exact, rounded);
  if (layers.empty() || context.samples.empty()) return {};
  const torch::jit::GraphOptimizerEnabledGuard no_specialisation(false);
  torch::jit::Module exact_module = compared_module(exact, layers);
  torch::jit::Module rounded_module = compared_module(rounded, layers);
  // Parameters are the user's own.
  const torchscript::KeptState exact_state(exact_module);
  const torchscript::KeptState rounded_state(rounded_module);
  const bool may_end = context.options.effort == Effort::Normal;
  std::size_t seen = 0;
  for (const Sample& sample : context.samples) {
    if (may_end && seen++ >= kFewestSamples && std::ranges::all_of(layers, has_enough)) {
      context.advance(Part::Sample, context.samples.size());
      continue;
    }
    for (Layer& layer : layers) layer.wanted.clear();
    try {
      run(exact_module, sample, {.layers = layers, .is_exact = true});
      run(rounded_module, sample, {.layers = layers, .is_exact = false});
    } catch (const std::exception& error) {
      // What cannot be run cannot be compared: a model whose input is to be quantized takes no float sample.
      rethrow_out_of_memory(error);
    }
    context.advance(Part::Sample, context.samples.size());
  }
  std::map<std::string, at::Tensor> errors;
  for (const Layer& layer : layers) {
    if (const at::Tensor mean = layer.shifts->certain_mean(); mean.any().item<bool>())
      errors.emplace(layer.node, mean);
  }
  return errors;
}

}  // namespace tsq::passes
