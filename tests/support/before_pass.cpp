#include "support/before_pass.h"

#include <torch/script.h>

#include <algorithm>
#include <stdexcept>

#include "ir/analysis.h"
#include "passes/flow.h"
#include "support/machine_profiles.h"

namespace tsq::testing {
namespace {

template <typename Condition>
ir::Node* first_node(const ir::Model& model, std::string_view name, const Condition& is_it) {
  const auto nodes = ir::nodes_in_order(*model.graph);
  const auto found = std::ranges::find_if(nodes, is_it);
  if (found == nodes.end()) throw std::runtime_error("no node " + std::string(name));
  return *found;
}

}  // namespace

CalibratedModel before_pass(const Prepared& prepared, std::string_view pass) {
  CalibratedModel result = calibrated_model(prepared);
  for (const passes::FlowRow& row : passes::flow()) {
    if (row.name == pass) return result;
    const bool is_between = row.step >= passes::Step::Settle && row.step <= passes::Step::Place;
    if (is_between && passes::is_taken(row, result.model, result.context))
      passes::run_row(row, result.model, result.context);
  }
  throw std::runtime_error("no pass " + std::string(pass));
}

CalibratedModel before_pass(const torch::jit::Module& model, const at::Tensor& input,
                            const std::string& engine, std::string_view pass) {
  Prepared prepared =
      prepare(model, best_qconfig_mapping(engine), backend_config(engine), {.machine = slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{input}});
  return before_pass(prepared, pass);
}

ir::Node* call_node(const ir::Model& model, std::string_view path) {
  return first_node(model, path, [&](const ir::Node* node) {
    return ir::is_module_call(node) && ir::call_of(model, node).path == path;
  });
}

ir::Node* node_of_kind(const ir::Model& model, std::string_view kind) {
  return first_node(model, kind, [&](const ir::Node* node) { return node->kind().toQualString() == kind; });
}

ir::Node* input_observer(const ir::Node* node) {
  ir::Node* made_by = const_cast<ir::Node*>(node)->input(0)->node();
  return ir::is_observer(made_by) ? made_by : nullptr;
}

ir::Node* output_observer(const ir::Node* node) {
  ir::Node* reader = ir::only_reader(node);
  return reader != nullptr && ir::is_observer(reader) ? reader : nullptr;
}

}  // namespace tsq::testing
