// The observers themselves, once all are put in. Those of a model that trains fake-quantize.

#include "config/qscheme.h"
#include "ir/analysis.h"
#include "observers/observer_module.h"
#include "operators/weighted.h"
#include "passes/observe/passes.h"
#include "torchscript/modules/training_layers.h"

namespace tsq::passes {
namespace {

int64_t channels_of(const ObserverSpec& spec, const at::Tensor& weight) {
  const int64_t axis = resolve(spec).ch_axis;
  return axis < weight.dim() ? weight.size(axis) : 1;
}

/// How many channels each observer of a model that trains sees. A weight that is computed has a size when the
/// model runs: 0 lets its observer's buffers grow then.
std::vector<int64_t> channels_of_observers(const Model& model) {
  std::vector<int64_t> channels(model.observers.size(), 0);
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_observer(node) || node->input(0)->node()->kind() != c10::prim::GetAttr) continue;
    const c10::IValue observed = model.attributes.attr(node->input(0)->node()->s(c10::attr::name));
    if (!observed.isTensor()) continue;
    channels[ir::observer_index(node)] = channels_of(ir::observer_of(model, node).spec, observed.toTensor());
  }
  return channels;
}

/// Where all values of a channel have one sign, PyTorch's fused operator leaves the symmetric grid, and what
/// it rounds to there no kernel takes (QT-56). Recipe best finds the grid as convert does (QT-100, QT-101).
ObserverSpec as_trained(ObserverSpec spec, const PassContext& context) {
  const bool leaves_grid = spec.fake_quantize == "FusedMovingAvgObsFakeQuantize" &&
                           context.options.recipe == Recipe::Best && is_symmetric(resolve(spec).qscheme);
  if (leaves_grid) spec.fake_quantize = "FakeQuantize";
  return spec;
}

void make_training_observers(Model& model, const PassContext& context) {
  const std::vector<int64_t> channels = channels_of_observers(model);
  for (std::size_t i = 0; i < model.observers.size(); ++i)
    model.observers[i].module = make_observer(as_trained(model.observers[i].spec, context), channels[i]);
}

/// One for each layer that trains, however often it is called.
void make_weight_fake_quants(Model& model, const PassContext& context) {
  for (const ir::ModuleCall& call : model.calls) {
    if (!torchscript::is_training_layer(model, call) || model.weight_fake_quants.contains(call.path))
      continue;
    const Symbol root = ir::root_of(call).type;
    const ObserverSpec spec =
        as_trained(operators::weight_observer(root, model.trained_qconfigs.at(call.path).weight), context);
    const at::Tensor weight = torchscript::weight_to_round(call);
    model.weight_fake_quants.emplace(call.path, make_observer(spec, channels_of(spec, weight)));
  }
}

}  // namespace

bool make_observers(Model& model, const PassContext& context) {
  if (context.trains) {
    make_weight_fake_quants(model, context);
    make_training_observers(model, context);
  } else {
    for (ir::ObserverEntry& entry : model.observers) entry.module = make_observer(entry.spec);
  }
  return !model.observers.empty() || !model.weight_fake_quants.empty();
}

}  // namespace tsq::passes
