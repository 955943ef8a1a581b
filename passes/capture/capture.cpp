// model.pt → flat graph of leaf modules and operators (FX's symbolic trace, from TorchScript).

#include <tsq/error.h>

#include <string>
#include <unordered_set>
#include <utility>

#include "ir/analysis.h"
#include "passes/capture/capturing.h"
#include "passes/capture/evaluate_python.h"
#include "passes/capture/inline_calls.h"
#include "passes/capture/module_calls.h"
#include "passes/capture/module_choice.h"
#include "passes/capture/module_values.h"
#include "passes/capture/nested_tensors.h"
#include "passes/capture/other_methods.h"
#include "passes/capture/passes.h"

namespace tsq::passes {
namespace {

enum class Capture {
  AsFx,
  Layers,  ///< also those inside of modules of torch.nn
  ForTraining,
};

void collect_written_attributes(const std::vector<Node*>& nodes, std::unordered_set<std::string>& names) {
  for (const Node* node : nodes) {
    if (node->kind() == c10::prim::SetAttr) names.insert(node->s(c10::attr::name));
    if (node->kind() == c10::prim::fork)
      collect_written_attributes(ir::nodes_in_order(*node->g(c10::attr::Subgraph)), names);
  }
}

/// Names of attributes that some method of the model assigns: these are state, not constants.
std::unordered_set<std::string> written_attributes(const Module& module) {
  std::unordered_set<std::string> names;
  collect_written_attributes(nodes_of_methods(module), names);
  return names;
}

CaptureSource source_of(const PassContext& context, Capture how) {
  const Module& module = context.source;
  const bool looks_into_layers = how == Capture::Layers;
  CaptureSource source{.module = module,
                       .custom = context.custom,
                       .looks_into_layers = looks_into_layers,
                       .trains = how == Capture::ForTraining,
                       .opens_operators = looks_into_layers && !chooses_nested_tensors(module),
                       .opens_methods = opens_methods(module, context.custom),
                       .written = written_attributes(module)};
  for (const auto& named : module.named_modules())
    source.paths.try_emplace(named.value._ivalue().get(), named.name);
  return source;
}

torch::jit::Method forward_of(const Module& module) {
  const auto forward = module.find_method("forward");
  if (!forward) {
    throw Error(ErrorCode::BadModel, "the model has no method 'forward'",
                "script or trace a module whose forward is the computation to quantize");
  }
  return *forward;
}

void capture_methods(Capturing& state, const torch::jit::Method& forward) {
  state.model.schema = forward.function().getSchema();
  const auto graph = inline_calls(state, forward);
  merge_module_reads(state, *graph);
  evaluate_python(graph);
  make_module_calls(state);
  capture_other_methods(state);
  keep_chosen_modules(state, *graph);
}

/// Modules that turn out to be chosen when the model runs stay modules: then all is captured anew.
ir::Model captured(const CaptureSource& source) {
  const torch::jit::Method forward = forward_of(source.module);
  std::unordered_set<ObjectPointer> kept;
  for (;;) {
    Capturing state = begin_capturing(source, kept);
    capture_methods(state, forward);
    if (state.kept.size() == kept.size()) return std::move(state.model);
    kept = std::move(state.kept);
  }
}

bool capture_as(Model& model, const PassContext& context, Capture how) {
  model = captured(source_of(context, how));
  model.graph->inputs().at(0)->setType(ir::self_type());
  return true;
}

}  // namespace

bool capture(Model& model, const PassContext& context) { return capture_as(model, context, Capture::AsFx); }

bool capture_layers(Model& model, const PassContext& context) {
  return capture_as(model, context, Capture::Layers);
}

bool capture_for_training(Model& model, const PassContext& context) {
  return capture_as(model, context, Capture::ForTraining);
}

}  // namespace tsq::passes
