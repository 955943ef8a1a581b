// Recurrent operators that freezing opened, or that users call themselves, become calls of torch.nn modules.
//   %y, %h, %c = aten::lstm(%x, %hx, %weights, …)   →   y, h, c = LSTM(x, hx)

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_set>

#include "modules/kernel_arguments.h"
#include "modules/operator_module.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

struct RecurrentOperator {
  std::string_view op;
  std::string_view type;
};
constexpr std::array kOperators{
    RecurrentOperator{"aten::lstm", "torch.nn.LSTM"},
    RecurrentOperator{"aten::gru", "torch.nn.GRU"},
    RecurrentOperator{"aten::lstm_cell", "torch.nn.LSTMCell"},
    RecurrentOperator{"aten::gru_cell", "torch.nn.GRUCell"},
    RecurrentOperator{"aten::rnn_tanh_cell", "torch.nn.RNNCell"},
    RecurrentOperator{"aten::rnn_relu_cell", "torch.nn.RNNCell"},
};

class RecurrentLifting {
 public:
  explicit RecurrentLifting(GraphModule& gm) : gm_(gm), written_(ir::written_attributes(gm)) {}

  void run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      const auto row = std::find_if(kOperators.begin(), kOperators.end(), [&](const RecurrentOperator& each) {
        return each.op == node->kind().toQualString();
      });
      if (row != kOperators.end()) lift(node, symbol(row->type));
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  /// A constant or an attribute that nobody writes; lists of such.
  std::optional<c10::IValue> constant_of(const Value* value) const {
    const Node* node = value->node();
    if (node->kind() == c10::prim::GetAttr && node->input(0) == gm_.graph->inputs().at(0)) {
      const std::string& name = node->s(c10::attr::name);
      return written_.contains(name) ? std::nullopt : std::optional(gm_.attributes.attr(name));
    }
    if (node->kind() == c10::prim::ListConstruct && is_tensor_list(value)) {
      c10::List<at::Tensor> list;
      for (const Value* element : node->inputs()) {
        const auto tensor = constant_of(element);
        if (!tensor || !tensor->isTensor()) return std::nullopt;
        list.push_back(tensor->toTensor());
      }
      return list;
    }
    return modules::constant_value(value);
  }

  static bool is_tensor_list(const Value* value) {
    return value->type()->isSubtypeOf(*c10::ListType::ofTensors());
  }

  void lift(Node* node, Symbol type) {
    const Value* layer_weights = modules::argument_named(node, "params");
    const Value* weights = layer_weights == nullptr ? modules::argument_named(node, "w_ih") : layer_weights;
    if (weights == nullptr || !constant_of(weights)) return;
    std::vector<std::optional<c10::IValue>> constants;
    std::vector<Value*> inputs;
    for (Value* value : node->inputs()) {
      constants.push_back(constant_of(value));
      if (!constants.back()) inputs.push_back(value);
    }
    if (inputs.empty() || inputs.front() != node->input(0)) return;
    const auto module = modules::module_of_operator(type, node, constants);
    const std::string name = node->kind().toUnqualString();
    ir::ModuleCall call{.type = type, .path = fmt::format("{}_{}", name, count_[name]++), .module = module};
    Node* lifted = ir::create_module_call(gm_, std::move(call), inputs, ir::scope_index(node).value_or(0));
    lifted->insertBefore(node);
    lifted->setSourceRange(node->sourceRange());
    lifted->output()->setType(module.get_method("forward").function().getSchema().returns().front().type());
    replace_outputs(node, lifted);
    node->destroy();
  }

  void replace_outputs(Node* node, Node* lifted) {
    if (node->outputs().size() == 1) return node->output()->replaceAllUsesWith(lifted->output());
    Node* unpack = gm_.graph->createTupleUnpack(lifted->output());
    unpack->insertBefore(node);
    for (std::size_t i = 0; i < node->outputs().size(); ++i)
      node->output(i)->replaceAllUsesWith(unpack->output(i));
  }

  GraphModule& gm_;
  std::unordered_set<std::string> written_;
  std::map<std::string, int> count_;
};

}  // namespace

void lift_recurrent(GraphModule& gm) { RecurrentLifting(gm).run(); }

}  // namespace tsq::passes
