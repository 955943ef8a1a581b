// An operator in front of each layer looks at what the float graph gives it, twice: first at the extremes of
// each item of a batch, then at what rounding does to an item whose extremes are left out.

#include "passes/numerics/held_back_noise.h"

#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <map>
#include <utility>

#include "io/samples.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "torchscript/emit.h"

namespace tsq::passes {
namespace {

/// The noise of n items differs from the mean of many by 1 / sqrt(n) of its deviation between items.
constexpr std::size_t kMostItems = 32;

/// What goes on at a layer.
struct Watched {
  const RoundedInput* input{};
  ir::Weighted layer{};
  std::vector<at::Tensor> min{};  ///< of each item seen: [channels]
  std::vector<at::Tensor> max{};
  std::size_t next{0};  ///< the item of the second run
  double now{0};
  std::vector<double> ways{};

  [[nodiscard]] int64_t dims() const { return static_cast<int64_t>(layer.stride.size()); }
};

/// What goes on in this thread's run.
struct WatchingRun {
  std::vector<Watched>& layers;
  bool finds_extremes{};
};
thread_local const WatchingRun* watching = nullptr;

/// The items of a batch: [channels, …] each, as a batch of one.
std::vector<at::Tensor> items_of(const at::Tensor& x, int64_t dims) {
  if (x.dim() == dims + 1) return {x.unsqueeze(0)};
  return x.dim() == dims + 2 ? x.split(1) : std::vector<at::Tensor>();
}

void find_extremes(Watched& watched, const at::Tensor& item) {
  const at::Tensor rows = item.squeeze(0).flatten(1).to(at::kDouble);
  watched.min.push_back(rows.amin(1));
  watched.max.push_back(rows.amax(1));
}

double noise(const Watched& watched, const at::Tensor& item, const InputRounding& rounding) {
  std::vector<int64_t> shape(static_cast<std::size_t>(watched.dims()) + 2, 1);
  shape[1] = -1;
  const at::Tensor factors = rounding.factors.to(item.scalar_type()).reshape(shape);
  const at::Tensor codes = (item * factors / rounding.scale + static_cast<double>(rounding.zero_point))
                               .round()
                               .clamp(rounding.lowest, rounding.highest);
  const at::Tensor error =
      (codes - static_cast<double>(rounding.zero_point)) * rounding.scale / factors - item;
  const ir::Weighted& layer = watched.layer;
  return at::convolution(error, layer.weight.detach().to(item.scalar_type()), {}, layer.stride, layer.padding,
                         layer.dilation, /*transposed=*/false, std::vector<int64_t>(layer.stride.size(), 0),
                         layer.groups)
      .to(at::kDouble)
      .square()
      .sum()
      .item<double>();
}

/// The extremes of all items but one.
at::Tensor of_others(const std::vector<at::Tensor>& extremes, std::size_t left_out, bool largest) {
  std::vector<at::Tensor> others;
  for (std::size_t i = 0; i < extremes.size(); ++i) {
    if (i != left_out) others.push_back(extremes[i]);
  }
  const at::Tensor rows = at::stack(others);
  return largest ? rows.amax(0) : rows.amin(0);
}

void add_noise(Watched& watched, const at::Tensor& item) {
  const std::size_t index = watched.next++;
  if (watched.min.size() < 2 || index >= watched.min.size()) return;
  const auto ways =
      watched.input->ways(of_others(watched.min, index, false), of_others(watched.max, index, true));
  watched.ways.resize(ways.size(), 0);
  watched.now += noise(watched, item, watched.input->now);
  for (std::size_t i = 0; i < ways.size(); ++i) watched.ways[i] += noise(watched, item, ways[i]);
}

void watch(torch::jit::Stack& stack) {
  const auto index = static_cast<std::size_t>(torch::jit::pop(stack).toInt());
  const at::Tensor x = torch::jit::pop(stack).toTensor();
  if (watching != nullptr && x.is_floating_point() && x.numel() != 0) {
    Watched& watched = watching->layers[index];
    for (const at::Tensor& item : items_of(x, watched.dims())) {
      if (!watching->finds_extremes) {
        add_noise(watched, item);
      } else if (watched.min.size() < kMostItems) {
        find_extremes(watched, item);
      }
    }
  }
  torch::jit::push(stack, x);
}

const char* watch_name() {
  constexpr const char* kName = "tsq::watch_input";
  // "Conservative": no pass may move or remove it.
  static const torch::jit::RegisterOperators kOperators({torch::jit::Operator(
      "tsq::watch_input(Tensor x, int layer) -> Tensor", watch, c10::AliasAnalysisKind::CONSERVATIVE)});
  return kName;
}

/// The float graph with the operator in front of each layer.
torch::jit::Module watched_module(const Model& source, const std::vector<RoundedInput>& inputs) {
  std::map<std::string, int64_t> index_of;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    index_of.emplace(inputs[i].layer->output()->debugName(), static_cast<int64_t>(i));
  Model model = source.copy();
  change_nodes(model, ir::is_observer, bypass);  // the samples leave no trace in observers
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    const auto found = ir::is_module_call(node) ? index_of.find(node->output()->debugName()) : index_of.end();
    if (found == index_of.end()) continue;
    node->replaceInput(
        0, ir::insert_before(node, watch_name(), {node->input(0), ir::constant_before(node, found->second)}));
  }
  return torchscript::emit(model);
}

bool has_enough(const Watched& watched) { return watched.min.size() >= kMostItems; }

}  // namespace

std::vector<std::vector<double>> held_back_noise(const Model& model, const std::vector<RoundedInput>& inputs,
                                                 const PassContext& context) {
  const c10::NoGradGuard no_grad;
  const torch::jit::GraphOptimizerEnabledGuard no_specialisation(false);
  std::vector<Watched> layers;
  for (const RoundedInput& input : inputs)
    layers.push_back({.input = &input, .layer = *ir::weighted_of(ir::call_of(model, input.layer))});
  torch::jit::Module module = watched_module(model, inputs);
  const auto run = [&](const Sample& sample, bool finds_extremes) {
    const WatchingRun now{layers, finds_extremes};
    watching = &now;
    const auto guard = c10::make_scope_exit([] { watching = nullptr; });
    module.get_method("forward")(detail::copy_of(sample));
  };
  std::size_t count = 0;
  while (count < context.samples.size() && !std::ranges::all_of(layers, has_enough))
    run(context.samples[count++], /*finds_extremes=*/true);
  for (std::size_t i = 0; i < count; ++i) run(context.samples[i], /*finds_extremes=*/false);
  std::vector<std::vector<double>> result;
  for (const Watched& watched : layers) {
    result.emplace_back();
    for (const double way : watched.ways) result.back().push_back(way / watched.now);
  }
  return result;
}

}  // namespace tsq::passes
