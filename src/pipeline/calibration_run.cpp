#include "pipeline/calibration_run.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <optional>
#include <utility>

#include "ir/analysis.h"
#include "ir/define_method.h"
#include "ir/edit.h"
#include "ir/value_numbers.h"
#include "observers/compiled_observer.h"

namespace tsq::detail {
namespace {

using torch::jit::Stack;

/// Where the run of this thread writes what it finds besides; null: nowhere.
struct Findings {
  RangesLeft* left{};
  ir::Facts* facts{};
};
thread_local Findings findings_of_run{};

struct HeldObserver : torch::CustomClassHolder {
  explicit HeldObserver(std::unique_ptr<CompiledObserver> observer) : compiled(std::move(observer)) {}
  std::unique_ptr<CompiledObserver> compiled;
};

const c10::Symbol kObserver = c10::Symbol::attr("observer");
const c10::Symbol kNumber = c10::Symbol::attr("number");
const c10::Symbol kLooks = c10::Symbol::attr("looks");

/// tsq::observe of an observer that the node holds.
torch::jit::Operation observe_with(const ir::Node* node) {
  const auto held = c10::static_intrusive_pointer_cast<HeldObserver>(node->ival(kObserver).toCapsule());
  return [held](Stack& stack) {
    const at::Tensor& x = stack.back().toTensor();
    if (findings_of_run.left != nullptr) findings_of_run.left->add(held->compiled->module(), x);
    held->compiled->observe(x);
  };
}

/// tsq::take_note of the value with the node's number. It runs beside every operator: a look at the numbers
/// of a tensor would take as long as that does, and is left out where an observer looks.
torch::jit::Operation note_with(const ir::Node* node) {
  const auto number = static_cast<std::size_t>(node->i(kNumber));
  const bool looks = node->i(kLooks) != 0;
  return [number, looks](Stack& stack) {
    const c10::IValue value = torch::jit::pop(stack);  // None, where it is optional
    if (findings_of_run.facts == nullptr || !value.isTensor()) return;
    ir::note(*findings_of_run.facts, number, value.toTensor());
    if (looks) ir::note_range(*findings_of_run.facts, number, value.toTensor());
  };
}

constexpr const char* kObserve = "tsq::observe";
constexpr const char* kTakeNote = "tsq::take_note";

/// Of any arguments, since nodes of one such operator have an Operation each: all others of a graph share
/// one.
void register_operators() {
  // "Conservative": no pass may move or remove them.
  constexpr auto kStays = c10::AliasAnalysisKind::CONSERVATIVE;
  static const torch::jit::RegisterOperators kOperators(
      {torch::jit::Operator(c10::Symbol::fromQualString(kObserve), observe_with, kStays),
       torch::jit::Operator(c10::Symbol::fromQualString(kTakeNote), note_with, kStays)});
}

/// The module that a value is; none where that is known only when the graph runs.
std::optional<torch::jit::Module> module_read_by(const ir::Value* value, const torch::jit::Module& self) {
  const ir::Node* node = value->node();
  if (node->kind() == c10::prim::Param && node->owningBlock()->owningNode() == nullptr &&
      value->offset() == 0)
    return self;
  if (node->kind() != c10::prim::GetAttr) return std::nullopt;
  const auto owner = module_read_by(node->input(0), self);
  const bool has_module = owner && owner->attr(node->s(c10::attr::name)).isModule();
  return has_module ? std::optional(owner->attr(node->s(c10::attr::name)).toModule()) : std::nullopt;
}

/// The compiled form of the observer that a node calls; null where it is no such call.
c10::intrusive_ptr<HeldObserver> called_observer(const ir::Node* node, const torch::jit::Module& self) {
  if (node->kind() != c10::prim::CallMethod || node->s(c10::attr::name) != "forward") return {};
  const auto module = module_read_by(node->input(0), self);
  auto compiled = module ? compiled_observer(*module) : nullptr;
  return compiled ? c10::make_intrusive<HeldObserver>(std::move(compiled)) : nullptr;
}

void compile_observers(ir::Graph& graph, const torch::jit::Module& self) {
  for (ir::Node* node : ir::nodes_in_order(graph)) {
    auto observer = called_observer(node, self);
    if (!observer) continue;
    ir::Value* seen = ir::insert_before(node, kObserve, {node->input(1)});
    seen->node()->ival_(kObserver, c10::IValue::make_capsule(std::move(observer)));
    node->output()->replaceAllUsesWith(seen);
    node->destroy();
  }
}

/// After the node that makes a value; in front of a block that begins with it.
void insert_note(const ir::NumberedValue& numbered, bool looks) {
  ir::Node* maker = numbered.value->node();
  const bool is_input = maker->kind() == c10::prim::Param;
  ir::Node* next = is_input ? *maker->owningBlock()->nodes().begin() : maker->next();
  ir::Node* note =
      ir::insert_node(next, c10::Symbol::fromQualString(kTakeNote), {numbered.value}, /*outputs=*/0);
  note->i_(kNumber, static_cast<std::int64_t>(numbered.number));
  note->i_(kLooks, looks ? 1 : 0);
}

/// The inputs of another method than forward are none of the values that have their numbers.
void insert_notes(ir::Graph& graph, bool is_forward, const std::set<std::size_t>& unobserved) {
  for (const ir::NumberedValue& numbered : ir::numbered_values(graph)) {
    if (is_forward || numbered.value->node() != graph.param_node())
      insert_note(numbered, unobserved.contains(numbered.number));
  }
  ir::strip_marks(graph);
}

std::shared_ptr<ir::Graph> graph_to_run(const torch::jit::Module& self, const torch::jit::Method& method,
                                        const std::set<std::size_t>& unobserved) {
  register_operators();
  auto graph = torch::jit::toGraphFunction(method.function()).graph()->copy();
  compile_observers(*graph, self);
  insert_notes(*graph, method.name() == "forward", unobserved);
  return graph;
}

}  // namespace

CalibrationRun::CalibrationRun(torch::jit::Module prepared, const std::string& method,
                               const std::set<std::size_t>& unobserved)
    : prepared_(std::move(prepared)),
      schema_(prepared_.get_method(method).function().getSchema()),
      unit_(std::make_shared<torch::jit::CompilationUnit>()),
      function_(unit_->create_function(c10::QualifiedName("calibrate"),
                                       graph_to_run(prepared_, prepared_.get_method(method), unobserved))) {}

void CalibrationRun::operator()(const Sample& sample, RangesLeft* left, ir::Facts* facts) const {
  Stack stack{prepared_._ivalue()};
  stack.insert(stack.end(), sample.begin(), sample.end());
  schema_.checkAndNormalizeInputs(stack, {});
  findings_of_run = {.left = left, .facts = facts};
  const auto stop = c10::make_scope_exit([] { findings_of_run = {}; });
  function_->run(stack);
}

}  // namespace tsq::detail
