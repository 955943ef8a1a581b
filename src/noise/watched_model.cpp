#include "noise/watched_model.h"

#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <tsq/agreement.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "io/samples.h"
#include "ir/analysis.h"
#include "ir/observer_results.h"
#include "match/dtype_check.h"
#include "operators/roundings.h"
#include "operators/weighted.h"
#include "torchscript/emit.h"
#include "torchscript/modules/recurrent.h"
#include "torchscript/modules/rounded_weight.h"

namespace tsq::noise {
namespace {

using ir::Model;
using ir::ModuleCall;
using ir::Node;
using torch::jit::Module;

/// How a watch rounds.
enum class How : std::int64_t { Static, EachChannel, WhenRun, Half };

constexpr const char* kWatch = R"(
def rounded(self, x: Tensor) -> Tensor:
    if x.dtype != 6 or x.numel() == 0:
        return x
    if self.how == 0:
        return torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, self.lowest, self.highest)
    if self.how == 1:
        return torch.fake_quantize_per_channel_affine(x, self.scales, self.zero_points, self.axis, self.lowest, self.highest)
    if self.how == 2:
        scale, zero_point = torch._choose_qparams_per_tensor(x, self.reduce_range)
        return torch.fake_quantize_per_tensor_affine(x, scale, zero_point, self.lowest, self.highest)
    return x.to(5).to(6)
def forward(self, x: Tensor) -> Tensor:
    if self.records:
        self.seen.append(x)
    if self.rounds:
        return self.rounded(x)
    return x
)";

Module new_watch() {
  Module watch("__torch__.tsq.noise.Watch", std::make_shared<torch::jit::CompilationUnit>());
  watch.register_attribute("seen", c10::ListType::ofTensors(), c10::List<at::Tensor>());
  watch.register_attribute("records", c10::BoolType::get(), false);
  watch.register_attribute("rounds", c10::BoolType::get(), false);
  watch.register_attribute("how", c10::IntType::get(), 0);
  watch.register_attribute("scale", c10::FloatType::get(), 1.0);
  watch.register_attribute("zero_point", c10::IntType::get(), 0);
  watch.register_attribute("scales", c10::TensorType::get(), at::ones({1}));
  watch.register_attribute("zero_points", c10::TensorType::get(), at::zeros({1}, at::kInt));
  watch.register_attribute("axis", c10::IntType::get(), 0);
  watch.register_attribute("lowest", c10::IntType::get(), 0);
  watch.register_attribute("highest", c10::IntType::get(), 0);
  watch.register_attribute("reduce_range", c10::BoolType::get(), false);
  watch.define(kWatch);
  return watch;
}

/// The codes of a dtype: quantize operators use them all, whatever range the observer kept to.
std::pair<std::int64_t, std::int64_t> codes_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::QInt8:
      return {-128, 127};
    case c10::ScalarType::QInt32:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    case c10::ScalarType::QUInt4x2:
      return {0, 15};
    default:
      return {0, 255};
  }
}

void set_qparams(Module& watch, const QParams& qparams) {
  const auto [lowest, highest] = codes_of(qparams.dtype);
  watch.setattr("lowest", lowest);
  watch.setattr("highest", highest);
  if (qparams.dtype == c10::ScalarType::Half) {
    watch.setattr("how", static_cast<std::int64_t>(How::Half));
  } else if (qparams.qscheme == c10::QScheme::PER_TENSOR_AFFINE) {
    watch.setattr("scale", qparams.scale.item<double>());
    watch.setattr("zero_point", qparams.zero_point.item<std::int64_t>());
  } else {
    watch.setattr("how", static_cast<std::int64_t>(How::EachChannel));
    watch.setattr("scales", qparams.scale.flatten().to(at::kFloat));
    const bool is_float = qparams.qscheme == c10::QScheme::PER_CHANNEL_AFFINE_FLOAT_QPARAMS;
    watch.setattr("zero_points", qparams.zero_point.flatten().to(is_float ? at::kFloat : at::kInt));
    watch.setattr("axis", qparams.axis);
  }
}

/// Empty where an observer rounds nothing.
std::optional<Module> watch_of(const Module& prototype, const ir::ObserverEntry& entry) {
  const ResolvedObserver spec = resolve(entry.spec);
  Module watch = prototype.deepcopy();
  if (spec.is_dynamic) {
    if (!c10::isQIntType(spec.dtype) && spec.dtype != c10::ScalarType::Half) return std::nullopt;
    const bool is_half = spec.dtype == c10::ScalarType::Half;
    watch.setattr("how", static_cast<std::int64_t>(is_half ? How::Half : How::WhenRun));
    watch.setattr("reduce_range", spec.reduce_range);
    watch.setattr("highest", std::int64_t{spec.reduce_range ? 127 : 255});
    return watch;
  }
  const ir::ObserverResult result = ir::result_of(entry);
  if (!result.qparams || !result.saw_data || result.saw_other_dtype) return std::nullopt;
  set_qparams(watch, *result.qparams);
  return watch;
}

bool is_of_signals(const Model& model, const Node* node) {
  return ir::display_name(model, node).ends_with("1d");
}

/// Where the channels of a value of three dimensions are: first for layers of signals, else last.
std::int64_t axis_of_three(const Model& model, const Node* observer) {
  const auto readers = ir::users(observer->output());
  const bool is_signal =
      is_of_signals(model, ir::before_observers(observer->input(0))->node()) ||
      std::ranges::any_of(readers, [&](const Node* reader) { return is_of_signals(model, reader); });
  return is_signal ? 1 : 2;
}

std::int64_t channel_axis(const at::Tensor& value, std::int64_t of_three) {
  if (value.dim() == 3) return of_three;
  return value.dim() > 3 ? 1 : std::max<std::int64_t>(0, value.dim() - 1);
}

/// With gradients of their own, and not leaves: a model may write into what it is called with.
at::IValue with_gradient(const at::IValue& value) {
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_floating_point())
    return value.toTensor().detach().requires_grad_().clone();
  if (value.isTensorList()) {
    c10::List<at::Tensor> tensors;
    for (const at::Tensor& each : value.toTensorList()) tensors.push_back(with_gradient(each).toTensor());
    return tensors;
  }
  return value.deepcopy();
}

bool is_parameter(const Module& module, const at::Tensor& tensor) {
  for (const at::Tensor& each : module.parameters()) {
    if (each.is_same(tensor)) return true;
  }
  return false;
}

/// Those that are parameters of the module, and so can be told from the user's.
std::vector<WatchedWeight> weights_of_recurrent(ModuleCall& call) {
  call.module = call.module->deepcopy();
  std::vector<WatchedWeight> weights;
  for (const at::Tensor& weight : torchscript::recurrent_weights(call).weights) {
    if (is_parameter(*call.module, weight)) weights.push_back({.used = weight});
  }
  return weights;
}

/// The weights of a layer that its QConfig rounds. The call has tensors of its own then.
std::vector<WatchedWeight> weights_of(ModuleCall& call) {
  if (ir::Weighted* weighted = ir::weighted_of(call)) {
    weighted->weight = weighted->weight.detach().clone();
    weighted->was_frozen = false;  // else it is taken for another parameter of the same memory
    if (operators::is_transposed(ir::root_of(call).type)) return {{.used = weighted->weight, .axis = 1}};
    const at::Tensor& bias = weighted->bias;
    weighted->bias =
        (bias.defined() ? bias.detach().clone() : at::zeros({weighted->weight.size(0)})).requires_grad_();
    return {{.used = weighted->weight, .axis = 0, .bias = weighted->bias}};
  }
  if (call.embedding && call.module && call.module->hasattr("weight")) {
    call.module = call.module->deepcopy();
    return {{.used = call.module->attr("weight").toTensor()}};
  }
  if (call.module && torchscript::is_recurrent(call.type)) return weights_of_recurrent(call);
  return {};
}

/// Layers of a reference graph, by the names of their nodes.
using ReferenceLayers = std::unordered_map<std::string, const ir::Weighted*>;
ReferenceLayers layers_of(const Model* rounded) {
  ReferenceLayers layers;
  if (rounded == nullptr) return layers;
  for (const Node* node : ir::nodes_in_order(*rounded->graph)) {
    const ir::Weighted* weighted =
        ir::is_module_call(node) ? ir::weighted_of(ir::call_of(*rounded, node)) : nullptr;
    if (weighted != nullptr && weighted->weight_qparams)
      layers.emplace(node->output()->debugName(), weighted);
  }
  return layers;
}

/// What a layer's weight really became; undefined where the reference graph does not tell.
at::Tensor really_rounded(const ReferenceLayers& layers, const Node* node, const at::Tensor& exact) {
  const auto found = layers.find(node->output()->debugName());
  if (found == layers.end() || found->second->weight.sizes() != exact.sizes()) return {};
  if (found->second->weight_qparams->dtype == c10::ScalarType::Half)
    return {};  // the watch rounds as it does
  return torchscript::rounded_weight(*found->second).to(exact.scalar_type());
}

/// Leaves with gradients, and what they are rounded.
std::vector<WatchedWeight> watched_weights(const Module& prototype, ModuleCall& call,
                                           const QConfig& qconfig) {
  const ObserverSpec spec = operators::weight_observer(ir::root_of(call).type, qconfig.weight);
  if (!match::weight_is_quantized(qconfig)) return {};
  std::vector<WatchedWeight> weights = weights_of(call);
  for (WatchedWeight& weight : weights) {
    weight.used.requires_grad_(true);
    weight.exact = weight.used.detach().clone();
    weight.rounded = weight.exact;
    if (resolve(spec).group_size > 0) continue;  // the reference graph tells
    Module watch = prototype.deepcopy();
    const bool is_half = resolve(spec).dtype == c10::ScalarType::Half;
    set_qparams(watch, is_half ? QParams{.dtype = c10::ScalarType::Half} : observe_once(spec, weight.exact));
    weight.rounded = watch.get_method("rounded")({weight.exact}).toTensor();
  }
  return weights;
}

}  // namespace

WatchedModel::WatchedModel(const Model& calibrated, const Model* rounded) {
  const at::NoGradGuard no_gradients;
  const Module prototype = new_watch();
  Model watched = calibrated.copy();
  const ReferenceLayers layers = layers_of(rounded);
  std::vector<ir::ObserverEntry> entries;
  const std::vector<Node*> before = ir::nodes_in_order(*calibrated.graph);
  const std::vector<Node*> nodes = ir::nodes_in_order(*watched.graph);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Part part;
    if (ir::is_observer(nodes[i])) {
      ir::ObserverEntry entry = ir::observer_of(watched, nodes[i]);
      if (!operators::is_channel_observer(watched, nodes[i])) part.watch = watch_of(prototype, entry);
      if (!part.watch) {
        nodes[i]->output()->replaceAllUsesWith(nodes[i]->input(0));
        nodes[i]->destroy();
        continue;
      }
      part.axis_of_three = axis_of_three(calibrated, before[i]);
      entry.module = part.watch;
      entry.name = fmt::format("watch_{}", entries.size());
      ir::set_observer_index(nodes[i], entries.size());
      entries.push_back(std::move(entry));
    } else if (ir::is_module_call(nodes[i])) {
      const QConfig* qconfig = ir::observed_qconfig(calibrated, before[i]);
      if (qconfig != nullptr)
        part.weights = watched_weights(prototype, ir::call_of(watched, nodes[i]), *qconfig);
      if (const ir::Weighted* weighted = ir::weighted_of(ir::call_of(watched, nodes[i])))
        part.groups = weighted->groups;
      if (part.weights.empty()) continue;
      WatchedWeight& first = part.weights.front();
      if (const at::Tensor really = really_rounded(layers, before[i], first.exact); really.defined())
        first.rounded = really;
    } else {
      continue;
    }
    nodes_.push_back(before[i]);
    parts_.push_back(std::move(part));
  }
  watched.observers = std::move(entries);
  module_ = torchscript::emit(watched);
  module_.eval();
  std::vector<Module> watches;
  for (const Part& part : parts_) {
    if (part.watch) watches.push_back(*part.watch);
  }
  state_.emplace(module_, std::vector<std::string>{"forward"}, watches);
}

std::vector<std::pair<std::string, at::Tensor>> WatchedModel::call(Sample sample) {
  const torch::jit::GraphOptimizerEnabledGuard no_optimizer(false);
  state_->begin();
  return tensors_of(module_.get_method("forward")(std::move(sample)));
}

WatchedModel::Run WatchedModel::recorded(Sample arguments) {
  for (Part& part : parts_) {
    if (!part.watch) continue;
    part.watch->setattr("seen", c10::List<at::Tensor>());
    part.watch->setattr("records", true);
  }
  const auto restore = c10::make_scope_exit([&] {
    for (Part& part : parts_) {
      if (!part.watch) continue;
      part.watch->setattr("seen", c10::List<at::Tensor>());
      part.watch->setattr("records", false);
    }
  });
  Run run{.outputs = call(std::move(arguments)),
          .rounded = std::vector<std::vector<Channels>>(parts_.size())};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    for (const WatchedWeight& weight : part.weights)
      run.rounded[i].push_back({.tensor = weight.used, .axis = weight.axis});
    if (!part.watch) continue;
    for (const at::Tensor& value : part.watch->attr("seen").toTensorVector())
      run.rounded[i].push_back({.tensor = value, .axis = channel_axis(value, part.axis_of_three)});
  }
  return run;
}

WatchedModel::Run WatchedModel::with_gradients(const Sample& sample) {
  const at::AutoGradMode gradients(true);
  Sample arguments;
  for (const at::IValue& value : sample) arguments.push_back(with_gradient(value));
  return recorded(std::move(arguments));
}

WatchedModel::Run WatchedModel::in_float(const Sample& sample) {
  const at::NoGradGuard no_gradients;
  return recorded(detail::copy_of(sample));
}

std::vector<std::pair<std::string, at::Tensor>> WatchedModel::with_roundings(const Sample& sample,
                                                                             const std::vector<bool>& on) {
  const at::NoGradGuard no_gradients;
  const auto set = [&](std::size_t i, bool is_on) {
    if (!on[i]) return;
    if (parts_[i].watch) parts_[i].watch->setattr("rounds", is_on);
    for (const WatchedWeight& weight : parts_[i].weights)
      weight.used.copy_(is_on ? weight.rounded : weight.exact);
  };
  const auto set_all = [&](bool is_on) {
    for (std::size_t i = 0; i < parts_.size(); ++i) set(i, is_on);
  };
  const auto restore = c10::make_scope_exit([&] { set_all(false); });
  set_all(true);
  return call(detail::copy_of(sample));
}

at::Tensor WatchedModel::error_of(std::size_t rounding, std::size_t place, const at::Tensor& exact) const {
  const at::NoGradGuard no_gradients;
  const Part& part = parts_[rounding];
  if (!part.watch) return part.weights[place].rounded - part.weights[place].exact;
  const at::Tensor plain = exact.detach();
  return part.watch->get_method("rounded")({plain}).toTensor() - plain;
}

double WatchedModel::step_of(std::size_t rounding) const {
  const Part& part = parts_[rounding];
  const bool has_scale =
      part.watch && part.watch->attr("how").toInt() == static_cast<std::int64_t>(How::Static);
  return has_scale ? part.watch->attr("scale").toDouble() : std::numeric_limits<double>::infinity();
}

at::Tensor WatchedModel::bias_of(std::size_t rounding) const {
  const Part& part = parts_[rounding];
  return part.weights.size() == 1 ? part.weights.front().bias : at::Tensor();
}

at::Tensor WatchedModel::mean_error_of_sums(std::size_t rounding, const at::Tensor& channel_means) const {
  const Part& part = parts_[rounding];
  const at::Tensor bias = bias_of(rounding);
  if (!bias.defined() || part.groups == 0) return {};
  const WatchedWeight& weight = part.weights.front();
  const at::Tensor error = (weight.rounded - weight.exact).to(at::kDouble);
  const at::Tensor of_inputs = error.reshape({error.size(0), error.size(1), -1}).sum(2);
  if (channel_means.numel() != of_inputs.size(1) * part.groups) return {};
  const at::Tensor of_groups = of_inputs.reshape({part.groups, -1, of_inputs.size(1)});
  return at::matmul(of_groups, channel_means.reshape({part.groups, -1, 1})).flatten();
}

}  // namespace tsq::noise
