#include "pipeline/calibration_run.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <utility>

#include "ir/analysis.h"
#include "ir/define_method.h"
#include "ir/edit.h"
#include "ir/value_numbers.h"
#include "observers/observer_module.h"

namespace tsq::detail {
namespace {

using torch::jit::Stack;

/// Where the run of this thread writes what it finds besides; null: nowhere.
struct Findings {
  RangesLeft* left{};
  ir::Facts* facts{};
};
thread_local Findings findings_of_run{};

void run_observer(Stack& stack) {
  const at::Tensor x = torch::jit::pop(stack).toTensor();
  const torch::jit::Module observer(torch::jit::pop(stack).toObject());
  if (findings_of_run.left != nullptr) findings_of_run.left->add(observer, x);
  observe(observer, x);
  torch::jit::push(stack, x);
}

/// It runs beside every operator: a look at the numbers of a tensor would take as long as that does.
void run_note(Stack& stack) {
  const std::int64_t number = torch::jit::pop(stack).toInt();
  const c10::IValue value = torch::jit::pop(stack);  // None, where it is optional
  if (findings_of_run.facts != nullptr && value.isTensor())
    ir::note(*findings_of_run.facts, static_cast<std::size_t>(number), value.toTensor());
}

constexpr const char* kObserve = "tsq::observe";
constexpr const char* kTakeNote = "tsq::take_note";

void register_operators() {
  // "Conservative": no pass may move or remove them.
  constexpr auto kStays = c10::AliasAnalysisKind::CONSERVATIVE;
  static const torch::jit::RegisterOperators kOperators(
      {torch::jit::Operator("tsq::observe(Any observer, Tensor x) -> Tensor", run_observer, kStays),
       torch::jit::Operator("tsq::take_note(Any value, int number) -> ()", run_note, kStays)});
}

bool calls_compiled_observer(const ir::Node* node) {
  if (node->kind() != c10::prim::CallMethod || node->s(c10::attr::name) != "forward") return false;
  const auto type = node->input(0)->type()->cast<c10::ClassType>();
  return type && has_compiled_form(*type);
}

void compile_observers(ir::Graph& graph) {
  for (ir::Node* node : ir::nodes_in_order(graph)) {
    if (!calls_compiled_observer(node)) continue;
    ir::Value* seen = ir::insert_before(node, kObserve, {node->input(0), node->input(1)});
    node->output()->replaceAllUsesWith(seen);
    node->destroy();
  }
}

/// After the node that makes a value; in front of a block that begins with it.
void insert_note(const ir::NumberedValue& numbered) {
  ir::Node* maker = numbered.value->node();
  const bool is_input = maker->kind() == c10::prim::Param;
  ir::Node* next = is_input ? *maker->owningBlock()->nodes().begin() : maker->next();
  ir::Value* number = ir::constant_before(next, static_cast<std::int64_t>(numbered.number));
  ir::insert_node(next, c10::Symbol::fromQualString(kTakeNote), {numbered.value, number}, /*outputs=*/0);
}

/// The inputs of another method than forward are none of the values that have their numbers.
void insert_notes(ir::Graph& graph, bool is_forward) {
  for (const ir::NumberedValue& numbered : ir::numbered_values(graph)) {
    if (is_forward || numbered.value->node() != graph.param_node()) insert_note(numbered);
  }
  ir::strip_marks(graph);
}

std::shared_ptr<ir::Graph> graph_to_run(const torch::jit::Method& method) {
  register_operators();
  auto graph = torch::jit::toGraphFunction(method.function()).graph()->copy();
  compile_observers(*graph);
  insert_notes(*graph, method.name() == "forward");
  return graph;
}

}  // namespace

CalibrationRun::CalibrationRun(torch::jit::Module prepared, const std::string& method)
    : prepared_(std::move(prepared)),
      schema_(prepared_.get_method(method).function().getSchema()),
      unit_(std::make_shared<torch::jit::CompilationUnit>()),
      function_(unit_->create_function(c10::QualifiedName("calibrate"),
                                       graph_to_run(prepared_.get_method(method)))) {}

void CalibrationRun::operator()(const Sample& sample, RangesLeft* left, ir::Facts* facts) const {
  Stack stack{prepared_._ivalue()};
  stack.insert(stack.end(), sample.begin(), sample.end());
  schema_.checkAndNormalizeInputs(stack, {});
  findings_of_run = {.left = left, .facts = facts};
  const auto stop = c10::make_scope_exit([] { findings_of_run = {}; });
  function_->run(stack);
}

}  // namespace tsq::detail
