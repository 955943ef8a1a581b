#include "support/graph_model.h"

#include <torch/csrc/jit/ir/irparser.h>
#include <torch/script.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <unordered_map>

#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/edit.h"

namespace tsq::testing {
namespace {

constexpr const char* kConstants = R"(
  %scale : float = prim::Constant[value=0.05]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %quint8 : int = prim::Constant[value=13]()
  %yes : bool = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
)";

}  // namespace

ir::Model model_of_graph(const std::string& inputs, const std::string& text) {
  ir::Model model;
  model.graph = std::make_shared<ir::Graph>();
  model.scopes.emplace_back();
  std::unordered_map<std::string, ir::Value*> values;
  torch::jit::parseIR("graph(%self, " + inputs + "):" + kConstants + text, model.graph.get(), values);
  for (const auto& [name, value] : values) {
    if (!value->hasDebugName()) value->setDebugName(name);
  }
  model.graph->inputs().at(0)->setType(ir::self_type());
  return model;
}

ir::Node* node_named(const ir::Model& model, const std::string& name) {
  const auto nodes = ir::nodes_in_order(*model.graph);
  const auto found = std::ranges::find_if(nodes, [&](const ir::Node* node) {
    return node->outputs().size() == 1 && node->output()->debugName() == name;
  });
  if (found == nodes.end()) throw std::runtime_error("no value " + name);
  return *found;
}

ir::NodeRecord& quantized_record(ir::Model& model, const std::string& name, const QConfig& qconfig) {
  ir::NodeRecord& record = ir::record_for(model, node_named(model, name));
  record.lookup.qconfig = qconfig;
  record.observed = true;
  record.placement = ir::Placement::Int8;
  if (!record.is_reported) {
    model.report_order.push_back(static_cast<std::size_t>(&record - model.records.data()));
  }
  record.is_reported = true;
  record.decision.node = name;
  record.decision.quantized = true;
  return record;
}

ir::Node* put_call(ir::Model& model, const std::string& name, ir::ModuleCall call) {
  ir::Node* node = node_named(model, name);
  ir::Value* made = ir::Rewriter(model, node).call(std::move(call), node->inputs().vec());
  ir::Rewriter::replace(node, made);
  return made->node();
}

void put_attribute(ir::Model& model, const std::string& input, const c10::IValue& value) {
  const auto inputs = model.graph->inputs();
  const auto found =
      std::ranges::find_if(inputs, [&](const ir::Value* each) { return each->debugName() == input; });
  if (found == inputs.end()) throw std::runtime_error("no input " + input);
  const torch::jit::WithInsertPoint guard(*model.graph->nodes().begin());
  const c10::TypePtr type = value.isTensor() ? c10::TensorType::get() : value.type();
  (*found)->replaceAllUsesWith(ir::insert_attribute(model, input, value, type));
}

ir::Weighted rounded_linear(int64_t in, int64_t out, c10::ScalarType dtype) {
  torch::manual_seed(1);
  ir::Weighted layer;
  layer.weight = torch::randn({out, in});
  layer.bias = torch::randn({out});
  layer.weight_qparams = QParams{.scale = std::get<0>(layer.weight.abs().max(1)) / 127,
                                 .zero_point = torch::zeros({out}, torch::kLong),
                                 .dtype = dtype,
                                 .qscheme = c10::QScheme::PER_CHANNEL_AFFINE,
                                 .axis = 0};
  return layer;
}

ir::ModuleCall linear_call(const ir::Weighted& layer) {
  return {.type = symbol("torch.nn.Linear"), .path = "layer", .weighted = layer};
}

c10::IValue packed_linear(const ir::Weighted& layer) {
  return kernels::pack("quantized::linear_prepack", layer);
}

}  // namespace tsq::testing
