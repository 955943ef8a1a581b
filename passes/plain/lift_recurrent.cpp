// Recurrent operators that tracing or freezing opened, or that users call themselves, become calls of
// torch.nn modules.
//   %y, %h, %c = aten::lstm(%x, %hx, %weights, …)   →   y, h, c = LSTM(x, hx)

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/entries.h"
#include "base/tensor_memory.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/origin.h"
#include "operators/arguments.h"
#include "operators/cell_patterns.h"
#include "passes/context/nodes.h"
#include "passes/plain/passes.h"
#include "torchscript/modules/operator_module.h"
#include "torchscript/modules/recurrent.h"

namespace tsq::passes {
namespace {

/// Operators, and the classes that call them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kRecurrentOperators{{
    {"aten::lstm", "torch.nn.LSTM"},
    {"aten::gru", "torch.nn.GRU"},
    {"aten::lstm_cell", "torch.nn.LSTMCell"},
    {"aten::gru_cell", "torch.nn.GRUCell"},
    {"aten::rnn_tanh_cell", "torch.nn.RNNCell"},
    {"aten::rnn_relu_cell", "torch.nn.RNNCell"},
}};

/// Null for other nodes.
const auto* row_of(const Node* node) { return find_entry(kRecurrentOperators, node->kind().toQualString()); }

/// Equal for constants that are one in memory.
std::string identity_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return "none";
    if (!is_plain(tensor)) return fmt::format("{}", fmt::ptr(tensor.unsafeGetTensorImpl()));
    return fmt::format("{} {} {}", fmt::ptr(tensor.const_data_ptr()), fmt::join(tensor.sizes(), ","),
                       fmt::join(tensor.strides(), ","));
  }
  if (value.isTensorList()) {
    std::string text;
    for (const at::Tensor& tensor : value.toTensorVector()) text += fmt::format("{};", identity_of(tensor));
    return text;
  }
  std::ostringstream text;
  text << value;
  return text.str();
}

class RecurrentLifting {
 public:
  explicit RecurrentLifting(Model& model) : model_(model), written_(ir::written_attributes(model)) {}

  bool run() {
    bool changed = false;
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (ir::is_module_call(node) && torchscript::is_recurrent(ir::call_of(model_, node).type))
        changed |= open(node);
    }
    changed |= operators::restore_cells(*model_.graph,
                                        [](const Node* node) { return ir::origin_of(node).in_module; });
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (const auto* row = row_of(node)) changed |= lift(node, symbol(row->second));
    }
    return ir::eliminate_dead_code(*model_.graph) || changed;
  }

 private:
  /// A traced module takes its arguments in any order, and a cell there is open: its graph takes the call's
  /// place, to be lifted as a module in plain form. Scripted ones, which have branches, stay.
  bool open(Node* node) {
    const ir::ModuleCall call = ir::call_of(model_, node);
    if (!call.module) return false;
    const auto body =
        torch::jit::toGraphFunction(call.module->get_method(call.method).function()).graph()->copy();
    operators::restore_cells(*body, [](const Node*) { return true; });
    const auto nodes = ir::nodes_in_order(*body);
    const bool is_plain = std::ranges::all_of(nodes, [](const Node* each) {
      return each->blocks().empty() && each->kind() != c10::prim::CallMethod;
    });
    const auto operators =
        std::ranges::count_if(nodes, [](const Node* each) { return row_of(each) != nullptr; });
    if (!is_plain || operators != 1 || body->outputs().size() != node->outputs().size()) return false;
    model_.scopes.push_back({.path = call.path, .type = call.type});
    for (Node* each : nodes) ir::set_scope(each, model_.scopes.size() - 1);
    std::vector<Value*> inputs = node->inputs().vec();
    const torch::jit::WithInsertPoint guard(node);
    std::ranges::copy(attributes_as_inputs(*body, call), std::back_inserter(inputs));
    body->eraseInput(0);
    const auto outputs = torch::jit::insertGraph(*model_.graph, *body, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) node->output(i)->replaceAllUsesWith(outputs[i]);
    node->destroy();
    return true;
  }

  /// What a module's graph reads of its module becomes further inputs; their values in the flat graph.
  std::vector<Value*> attributes_as_inputs(ir::Graph& body, const ir::ModuleCall& call) {
    std::vector<Value*> values;
    for (Node* node : ir::nodes_in_order(body)) {
      if (node->kind() != c10::prim::GetAttr || node->input(0) != body.inputs().at(0)) continue;
      const std::string& name = node->s(c10::attr::name);
      values.push_back(ir::insert_attribute(model_, fmt::format("{}_{}", call.path, name),
                                            call.module->attr(name), node->output()->type()));
      replace_node(node, body.addInput()->setType(node->output()->type()));
    }
    return values;
  }

  /// A constant or an attribute that nobody writes; lists of such.
  std::optional<c10::IValue> constant_of(const Value* value) const {
    const Node* node = value->node();
    const std::string* name = ir::attribute_read(model_, value);
    if (name != nullptr && written_.contains(*name)) return std::nullopt;
    if (node->kind() == c10::prim::ListConstruct && value->type()->isSubtypeOf(*c10::ListType::ofTensors())) {
      c10::List<at::Tensor> list;
      for (const Value* element : node->inputs()) {
        const auto tensor = constant_of(element);
        if (!tensor || !tensor->isTensor()) return std::nullopt;
        list.push_back(tensor->toTensor());
      }
      return list;
    }
    return ir::held_value(model_, value);
  }

  bool lift(Node* node, Symbol type) {
    const Value* layer_weights = operators::argument_named(node, "params");
    const Value* weights = layer_weights == nullptr ? operators::argument_named(node, "w_ih") : layer_weights;
    if (weights == nullptr || !constant_of(weights)) return false;
    std::vector<std::optional<c10::IValue>> constants;
    std::vector<Value*> inputs;
    for (Value* value : node->inputs()) {
      constants.push_back(constant_of(value));
      if (!constants.back()) inputs.push_back(value);
    }
    if (inputs.empty() || inputs.front() != node->input(0)) return false;
    const Module module = module_for(type, node, constants);
    Value* lifted = ir::Rewriter(model_, node)
                        .call({.type = type, .path = path_of(node, type), .module = module}, inputs);
    lifted->setType(module.get_method("forward").function().getSchema().returns().front().type());
    replace_outputs(node, lifted);
    node->destroy();
    return true;
  }

  /// Of the module that was opened; a frozen file has lost it.
  std::string path_of(const Node* node, Symbol type) {
    const ir::Scope& scope = ir::scope_of(model_, node);
    if (scope.type == type) return scope.path;
    const std::string name = node->kind().toUnqualString();
    return fmt::format("{}_{}", name, count_[name]++);
  }

  /// Calls with the same weights and the same arguments are calls of one module.
  Module module_for(Symbol type, const Node* node, const std::vector<std::optional<c10::IValue>>& constants) {
    std::string key = node->kind().toQualString();
    for (const auto& constant : constants)
      key += fmt::format(" {}", constant ? identity_of(*constant) : std::string("argument"));
    const auto found = modules_.find(key);
    if (found != modules_.end()) return found->second;
    return modules_.emplace(key, torchscript::module_of_operator(type, node, constants)).first->second;
  }

  void replace_outputs(Node* node, Value* lifted) {
    if (node->outputs().size() == 1) return node->output()->replaceAllUsesWith(lifted);
    Node* unpack = ir::unpack_before(node, lifted);
    for (std::size_t i = 0; i < node->outputs().size(); ++i)
      node->output(i)->replaceAllUsesWith(unpack->output(i));
  }

  Model& model_;
  std::unordered_set<std::string> written_;
  std::map<std::string, int> count_;
  std::map<std::string, Module> modules_;
};

}  // namespace

bool lift_recurrent(Model& model, const PassContext& /*context*/) { return RecurrentLifting(model).run(); }

}  // namespace tsq::passes
