// What each float operator costs: probes around its node in the prepared graph tell when it runs, LibTorch's
// operator callbacks what it multiplies. Callbacks see into leaf modules of any kind.

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <tsq/error.h>
#include <tsq/measure_operators.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <unordered_map>

#include "base/libtorch_error.h"
#include "io/samples.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/is_operator.h"
#include "pipeline/operator_watch.h"
#include "pipeline/stage.h"
#include "torchscript/emit.h"
#include "torchscript/kept_state.h"

namespace tsq {
namespace detail {
namespace {

using Clock = std::chrono::steady_clock;
using Shape = std::vector<int64_t>;

/// What the runs of one decision's operator cost.
struct Cost {
  int64_t macs{0};
  double seconds{0};
};

/// What goes on in this thread's measured run.
struct Recording {
  std::vector<Cost> costs{};
  std::vector<std::pair<std::size_t, Clock::time_point>> running{};  ///< operators begun, outermost first
  int counted_depth{0};  ///< inside an operator that is counted already
};
thread_local Recording* recording = nullptr;

void probe(torch::jit::Stack& stack) {
  const bool begins = torch::jit::pop(stack).toBool();
  const auto id = static_cast<std::size_t>(torch::jit::pop(stack).toInt());
  if (recording == nullptr) return;
  if (begins) {
    recording->running.emplace_back(id, Clock::now());
    return;
  }
  const Clock::time_point now = Clock::now();
  if (recording->running.empty() || recording->running.back().first != id) return;
  const double took = std::chrono::duration<double>(now - recording->running.back().second).count();
  recording->costs[id].seconds += took;
  recording->running.pop_back();
  // A standalone module's operators have times of their own.
  if (!recording->running.empty()) recording->costs[recording->running.back().first].seconds -= took;
}

const c10::Symbol& probe_kind() {
  static const c10::Symbol kKind = [] {
    // "Conservative": no pass may move or remove it.
    static const torch::jit::RegisterOperators kOperators({torch::jit::Operator(
        "tsq::probe(int id, bool begins) -> ()", probe, c10::AliasAnalysisKind::CONSERVATIVE)});
    return c10::Symbol::fromQualString("tsq::probe");
  }();
  return kKind;
}

void insert_probe(ir::Model& gm, std::size_t id, bool begins) {
  ir::Value* which = gm.graph->insertConstant(static_cast<int64_t>(id));
  ir::Value* when = gm.graph->insertConstant(begins);
  gm.graph->insertNode(gm.graph->create(probe_kind(), {which, when}, 0));
}

/// What is forked runs in another thread, where nobody measures: here it runs first, and a future of its
/// result is forked.
void run_in_place(ir::Model& gm, ir::Node* fork) {
  const torch::jit::WithInsertPoint before(fork);
  const std::vector<ir::Value*> results =
      torch::jit::insertGraph(*gm.graph, *fork->g(c10::attr::Subgraph), fork->inputs());
  auto passes_on = std::make_shared<torch::jit::Graph>();
  fork->removeAllInputs();
  for (ir::Value* result : results) {
    passes_on->registerOutput(passes_on->addInput()->setType(result->type()));
    fork->addInput(result);
  }
  fork->g_(c10::attr::Subgraph, passes_on);
}

/// Probes around the operator of each decision about this graph. `standalone` is its path, empty for the
/// model.
void insert_probes(ir::Model& gm, const std::string& standalone, const Report& report) {
  std::unordered_map<std::string, std::size_t> decision_of;
  for (std::size_t i = 0; i < report.decisions.size(); ++i) {
    const Decision& decision = report.decisions[i];
    if (decision.standalone == standalone) decision_of.emplace(decision.node, i);
  }
  for (ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    if (node->outputs().empty() || !operators::is_operator(gm, node)) continue;
    const auto found = decision_of.find(node->outputs().front()->debugName());
    if (found == decision_of.end()) continue;
    {
      const torch::jit::WithInsertPoint before(node);
      insert_probe(gm, found->second, /*begins=*/true);
    }
    const torch::jit::WithInsertPoint after(node->next());
    insert_probe(gm, found->second, /*begins=*/false);
    if (node->kind() == c10::prim::fork) run_in_place(gm, node);
  }
}

/// The prepared model with probes in the place of observers, and with state of its own, standalone modules
/// likewise.
torch::jit::Module probed_module(const Stage& stage, const std::string& standalone, const Report& report) {
  ir::Model gm = ir::without_observers(observed_model(stage));
  insert_probes(gm, standalone, report);
  for (const auto& [path, child] : stage.standalone) {
    const std::string within = standalone.empty() ? path : fmt::format("{}.{}", standalone, path);
    set_standalone_modules(gm, path, probed_module(*child, within, report));
  }
  return torchscript::emit(gm);
}

int64_t numel(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}
/// Numbers in one slice along the first axis.
int64_t slice(const Shape& shape) { return shape.empty() || shape[0] == 0 ? 0 : numel(shape) / shape[0]; }
int64_t last(const Shape& shape) { return shape.empty() ? 1 : shape.back(); }

/// An operator that is counted: what of its arguments its multiply-accumulates follow from. Operators that it
/// calls are not counted again.
struct Counting : at::ObserverContext {
  std::string name{};
  std::vector<Shape> inputs{};
  int64_t matrix_numbers{0};  ///< of recurrent layers: numbers in all weight matrices
  bool is_transposed{false};
  bool is_outermost{false};
};

constexpr std::array<std::string_view, 15> kCounted{
    "aten::convolution", "aten::_convolution", "aten::linear",
    "aten::addmm",       "aten::mm",           "aten::bmm",
    "aten::baddbmm",     "aten::mv",           "aten::addmv",
    "aten::dot",         "aten::lstm",         "aten::gru",
    "aten::rnn_tanh",    "aten::rnn_relu",     "aten::scaled_dot_product_attention"};

bool is_counted(std::string_view name) { return std::ranges::find(kCounted, name) != kCounted.end(); }

int64_t matrix_numbers(const c10::IValue& value) {
  if (!value.isTensorList()) return 0;
  int64_t numbers = 0;
  for (const at::Tensor& tensor : value.toTensorVector()) numbers += tensor.dim() == 2 ? tensor.numel() : 0;
  return numbers;
}

std::unique_ptr<at::ObserverContext> begin_counting(const at::RecordFunction& function) {
  if (recording == nullptr || recording->running.empty() || !is_counted(function.name())) return nullptr;
  auto counting = std::make_unique<Counting>();
  counting->name = function.name();
  counting->is_outermost = ++recording->counted_depth == 1;
  std::size_t position = 0;
  for (const c10::IValue& value : arguments_of(function)) {
    counting->inputs.push_back(value.isTensor() && value.toTensor().defined() ? value.toTensor().sizes().vec()
                                                                              : Shape{});
    counting->matrix_numbers = std::max(counting->matrix_numbers, matrix_numbers(value));
    if (position++ == 6 && value.isBool()) counting->is_transposed = value.toBool();
  }
  return counting;
}

int64_t macs_of(const Counting& op, const Shape& output) {
  const auto input = [&](std::size_t i) { return i < op.inputs.size() ? op.inputs[i] : Shape{}; };
  if (op.name.ends_with("convolution"))
    return (op.is_transposed ? numel(input(0)) : numel(output)) * slice(input(1));
  if (op.name == "aten::scaled_dot_product_attention") {
    const Shape keys = input(1);
    return keys.size() < 2 ? 0 : (numel(input(0)) + numel(output)) * keys[keys.size() - 2];
  }
  if (op.matrix_numbers > 0)
    return numel(input(0)) / std::max<int64_t>(1, last(input(0))) * op.matrix_numbers;
  const bool has_addend = op.name == "aten::addmm" || op.name == "aten::baddbmm" || op.name == "aten::addmv";
  return numel(output) * last(input(has_addend ? 1 : 0));
}

void end_counting(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr || recording == nullptr) return;
  --recording->counted_depth;
  const auto& counting = static_cast<const Counting&>(*context);
  if (!counting.is_outermost || recording->running.empty()) return;
  const auto outputs = results_of(function);
  const bool is_tensor =
      !outputs.empty() && outputs.front().isTensor() && outputs.front().toTensor().defined();
  recording->costs[recording->running.back().first].macs +=
      macs_of(counting, is_tensor ? outputs.front().toTensor().sizes().vec() : Shape{});
}

std::vector<Cost> costs_of_run(torch::jit::Module& module, const Sample& sample, std::size_t operators) {
  Recording run{.costs = std::vector<Cost>(operators)};
  recording = &run;
  const auto stop = c10::make_scope_exit([] { recording = nullptr; });
  try {
    module.get_method("forward")(detail::copy_of(sample));
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    throw Error(ErrorCode::Internal,
                fmt::format("measuring fails on a sample that calibration accepted: {}", reason_of(error)),
                "please report it with the model");
  }
  return std::move(run.costs);
}

/// The same with multiply-accumulates.
std::vector<Cost> counted_costs_of_run(torch::jit::Module& module, const Sample& sample,
                                       std::size_t operators) {
  const at::CallbackHandle handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(begin_counting, end_counting)
                                     .needsInputs(true)
                                     .needsOutputs(true)
                                     .scopes({at::RecordScope::FUNCTION}));
  const auto stop = c10::make_scope_exit([handle] { at::removeCallback(handle); });
  return costs_of_run(module, sample, operators);
}

}  // namespace
}  // namespace detail

void measure_operators(const Prepared& prepared, const Sample& sample, std::size_t rounds, Report& report) {
  const at::NoGradGuard no_grad;
  const torch::jit::GraphOptimizerEnabledGuard no_specialisation(false);
  torch::jit::Module module = detail::probed_module(detail::stage_of(prepared), "", report);
  const torchscript::KeptState state(module);
  const std::size_t count = report.decisions.size();
  const std::vector<detail::Cost> costs = detail::counted_costs_of_run(module, sample, count);
  for (std::size_t i = 0; i < count; ++i) report.decisions[i].macs = costs[i].macs;
  for (std::size_t round = 0; round < rounds; ++round) {
    state.begin();
    const std::vector<detail::Cost> again = detail::costs_of_run(module, sample, count);
    for (std::size_t i = 0; i < count; ++i) {
      std::optional<double>& least = report.decisions[i].seconds;
      least = std::min(least.value_or(again[i].seconds), again[i].seconds);
    }
  }
}

}  // namespace tsq
