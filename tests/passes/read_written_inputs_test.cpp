// Modules that write their result into their input.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <memory>

#include "ir/analysis.h"
#include "passes/plain/passes.h"
#include "support/best_model.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace read_written_inputs_test {

using torch::jit::Module;

/// `write` computes r from y, the layer's output; then y is read again.
Module network(const Module& relu, const std::string& write = "  r = self.relu.forward(y)\n") {
  torch::manual_seed(5);
  Module model = testing::user_module("Reads");
  model.register_module("first", testing::linear(8, 8));
  model.register_module("second", testing::linear(8, 8));
  model.register_module("relu", relu);
  model.define("def forward(self, x):\n  y = self.first.forward(x)\n" + write +
               "  return self.second.forward(y) + r\n");
  model.eval();
  return model;
}

Module relu_class() {
  return Module("__torch__.torch.nn.modules.activation.ReLU", std::make_shared<torch::jit::CompilationUnit>(),
                /*shouldMangle=*/true);
}

/// As a trace has it.
Module traced_in_place() {
  Module relu = relu_class();
  relu.define("def forward(self, x):\n  return torch.relu_(x)\n");
  return relu;
}

/// As scripting has it.
Module scripted_in_place() {
  Module relu = relu_class();
  relu.register_attribute("inplace", c10::BoolType::get(), true);
  relu.define(
      "def forward(self, x):\n"
      "  if self.inplace:\n    y = torch.relu_(x)\n  else:\n    y = torch.relu(x)\n"
      "  return y\n");
  return relu;
}

std::size_t uses_of_layer(const Module& model) {
  ir::Model made = testing::normalised(model);
  passes::read_written_inputs(made, {});
  const ir::Node* relu = nullptr;
  for (const ir::Node* node : ir::nodes_in_order(*made.graph)) {
    if (ir::is_module_call(node) && ir::call_of(made, node).path == "relu") relu = node;
  }
  return ir::operands(relu).front()->uses().size();
}

TEST(ReadWrittenInputs, LaterReadersReadTheResult) {
  EXPECT_EQ(uses_of_layer(network(traced_in_place())), 1U);
  EXPECT_EQ(uses_of_layer(network(scripted_in_place())), 1U);
}

TEST(ReadWrittenInputs, NothingChangesWhereNothingIsWritten) {
  EXPECT_EQ(uses_of_layer(network(testing::relu())), 2U);
  Module relu = scripted_in_place();
  relu.setattr("inplace", false);
  EXPECT_EQ(uses_of_layer(network(relu)), 2U);
}

TEST(ReadWrittenInputs, NothingChangesWhereABranchMayWrite) {
  const std::string branch = "  r = y\n  if x.size(0) > 2:\n    r = self.relu.forward(y)\n";
  EXPECT_EQ(uses_of_layer(network(traced_in_place(), branch)),
            uses_of_layer(network(testing::relu(), branch)));
}

TEST(ReadWrittenInputs, TheInt8ModelComputesWhatTheFloatModelDoes) {
  torch::manual_seed(6);
  const at::Tensor x = torch::randn({64, 8});
  for (const Module& relu : {traced_in_place(), scripted_in_place()}) {
    const Module model = network(relu);
    for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
      const Module result = testing::best_model(model, x, engine);
      EXPECT_GT(testing::sqnr(testing::run(model, x), testing::run(result, x)), 30) << engine;
    }
  }
}

}  // namespace read_written_inputs_test
}  // namespace tsq
