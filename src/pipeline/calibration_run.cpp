#include "pipeline/calibration_run.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <utility>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "observers/observer_module.h"

namespace tsq::detail {
namespace {

using torch::jit::Stack;

/// Of the run of this thread; null: nothing is counted.
thread_local RangesLeft* ranges_seen = nullptr;

void run_observer(Stack& stack) {
  const at::Tensor x = torch::jit::pop(stack).toTensor();
  const torch::jit::Module observer(torch::jit::pop(stack).toObject());
  if (ranges_seen != nullptr) ranges_seen->add(observer, x);
  observe(observer, x);
  torch::jit::push(stack, x);
}

const char* operator_name() {
  constexpr const char* kName = "tsq::observe";
  // "Conservative": no pass may move or remove it.
  static const torch::jit::RegisterOperators kOperators({torch::jit::Operator(
      "tsq::observe(Any observer, Tensor x) -> Tensor", run_observer, c10::AliasAnalysisKind::CONSERVATIVE)});
  return kName;
}

bool calls_compiled_observer(const ir::Node* node) {
  if (node->kind() != c10::prim::CallMethod || node->s(c10::attr::name) != "forward") return false;
  const auto type = node->input(0)->type()->cast<c10::ClassType>();
  return type && has_compiled_form(*type);
}

std::shared_ptr<torch::jit::Graph> with_compiled_observers(const torch::jit::Method& method) {
  auto graph = torch::jit::toGraphFunction(method.function()).graph()->copy();
  for (ir::Node* node : ir::nodes_in_order(*graph)) {
    if (!calls_compiled_observer(node)) continue;
    ir::Value* seen = ir::insert_before(node, operator_name(), {node->input(0), node->input(1)});
    node->output()->replaceAllUsesWith(seen);
    node->destroy();
  }
  return graph;
}

}  // namespace

CalibrationRun::CalibrationRun(torch::jit::Module prepared, const std::string& method)
    : prepared_(std::move(prepared)),
      schema_(prepared_.get_method(method).function().getSchema()),
      unit_(std::make_shared<torch::jit::CompilationUnit>()),
      function_(unit_->create_function(c10::QualifiedName("calibrate"),
                                       with_compiled_observers(prepared_.get_method(method)))) {}

void CalibrationRun::operator()(const Sample& sample, RangesLeft* left) const {
  Stack stack{prepared_._ivalue()};
  stack.insert(stack.end(), sample.begin(), sample.end());
  schema_.checkAndNormalizeInputs(stack, {});
  ranges_seen = left;
  const auto stop = c10::make_scope_exit([] { ranges_seen = nullptr; });
  function_->run(stack);
}

}  // namespace tsq::detail
