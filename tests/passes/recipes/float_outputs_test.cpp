#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <cmath>

#include "ir/analysis.h"
#include "pipeline/stage.h"
#include "support/machine_profiles.h"
#include "support/processor.h"
#include "support/small_models.h"

namespace tsq {
namespace float_outputs_test {

using torch::jit::Module;

constexpr const char* kFloatOutput = "quantized::linear_with_input_q_dq_qweight_dq_output_fp32";

/// `body` computes y from self.fc1, self.fc2, self.fc3 (256 → 256) and x.
Module two_linears(const std::string& body) {
  Module model = testing::user_module("TwoLinears");
  model.register_module("fc1", testing::linear(256, 256));
  model.register_module("fc2", testing::linear(256, 256));
  model.register_module("fc3", testing::linear(256, 256));
  model.define("def forward(self, x):\n" + body + "  return y\n");
  return model;
}

Reference reference_of(const Module& model, const at::Tensor& x, const std::string& engine,
                       Recipe recipe = Recipe::Best, WeightRounding rounding = WeightRounding::Learned) {
  const BackendConfig backend = backend_config(engine);
  Prepared prepared =
      prepare(model, best_qconfig_mapping(engine), backend,
              {.recipe = recipe, .machine = testing::slow_in_float(), .weight_rounding = rounding});
  calibrate(prepared, std::vector<Sample>{{x}});
  return convert_to_reference(prepared, backend);
}

std::size_t count(torch::jit::Graph& graph, const std::string& kind) {
  std::size_t found = 0;
  for (const ir::Node* node : ir::nodes_in_order(graph)) found += node->kind().toQualString() == kind;
  return found;
}

std::size_t kernels(const Module& lowered, const std::string& kind) {
  return count(*lowered.get_method("forward").graph(), kind);
}

double sqnr(const at::Tensor& wanted, const at::Tensor& got) {
  return 10 * std::log10((wanted.square().sum() / (wanted - got).square().sum()).item<double>());
}

TEST(FloatOutputs, WhatOnlyFloatOperatorsReadIsNotRounded) {
  torch::manual_seed(1);
  Module model = two_linears("  y = torch.gelu(self.fc1.forward(x))\n");
  const at::Tensor x = torch::randn({4, 30, 256});
  const Reference reference = reference_of(model, x, "x86");
  EXPECT_EQ(count(*detail::stage_of(reference).model.graph, "aten::quantize_per_tensor"), 1u);
  Module lowered = lower(reference, backend_config("x86"));
  EXPECT_EQ(kernels(lowered, kFloatOutput), 1u);
  Module meaning = reference.module();
  EXPECT_TRUE(at::allclose(lowered.forward({x}).toTensor(), meaning.forward({x}).toTensor(), 1e-4, 1e-4));
  EXPECT_GT(sqnr(model.forward({x}).toTensor(), lowered.forward({x}).toTensor()), 30);
}

TEST(FloatOutputs, OperatorsThatMoveValuesAreLookedThrough) {
  torch::manual_seed(2);
  Module model = two_linears(
      "  q = self.fc1.forward(x).view([4, 30, 2, 128]).transpose(1, 2)\n"
      "  k = self.fc2.forward(x).view([4, 30, 2, 128]).transpose(1, 2)\n"
      "  y = torch.matmul(q, k.transpose(2, 3))\n");
  const at::Tensor x = torch::randn({4, 30, 256});
  const Reference reference = reference_of(model, x, "x86");
  EXPECT_EQ(count(*detail::stage_of(reference).model.graph, "aten::quantize_per_tensor"), 1u);
  Module lowered = lower(reference, backend_config("x86"));
  EXPECT_EQ(kernels(lowered, kFloatOutput), 2u);
  EXPECT_GT(sqnr(model.forward({x}).toTensor(), lowered.forward({x}).toTensor()), 30);
}

TEST(FloatOutputs, QuantizedLayersAreInInt8AsBytesOrFloatsBetweenThem) {
  torch::manual_seed(3);
  Module model = two_linears("  y = self.fc2.forward(self.fc1.forward(x).view([120, 256]))\n");
  const at::Tensor x = torch::randn({4, 30, 256});
  Module lowered = lower(reference_of(model, x, "x86"), backend_config("x86"));
  EXPECT_EQ(kernels(lowered, "quantized::linear") + kernels(lowered, kFloatOutput), 2u);
  EXPECT_GT(sqnr(model.forward({x}).toTensor(), lowered.forward({x}).toTensor()), 25);
}

TEST(FloatOutputs, AnEngineWithoutSuchAKernelFindsTheRangeOfTheInputWhenItRuns) {
  torch::manual_seed(4);
  Module model = two_linears("  y = torch.gelu(self.fc1.forward(x))\n");
  const at::Tensor x = torch::randn({4, 30, 256});
  for (const char* engine : {"onednn", "qnnpack"}) {
    Module lowered = lower(reference_of(model, x, engine), backend_config(engine));
    EXPECT_EQ(kernels(lowered, "quantized::linear_dynamic"), 1u) << engine;
    EXPECT_GT(sqnr(model.forward({x}).toTensor(), lowered.forward({x}).toTensor()), 30) << engine;
  }
}

TEST(FloatOutputs, AClampThatQuantizingDoesIsDoneWhereTheRangeIsFoundAtRunTimeToo) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(7);
  const at::Tensor x = torch::randn({120, 256});
  for (const std::string clamp : {"torch.relu({})", "torch.hardtanh({}, -0.4, 0.2)",
                                  "torch.clamp({}, max=0.1)", "torch.relu({}).unsqueeze(1)"}) {
    Module model = two_linears("  y = self.fc1.forward(x) - x\n  y = self.fc2.forward(" +
                               std::string(clamp).replace(clamp.find("{}"), 2, "y") + ")\n");
    for (const char* engine : {"onednn", "qnnpack"}) {
      // A weight of seven bits has no room for what is learned wrongly of noise.
      const auto rounding = testing::has_vnni() ? WeightRounding::Learned : WeightRounding::Nearest;
      const Reference reference = reference_of(model, x, engine, Recipe::Best, rounding);
      Module lowered = lower(reference, backend_config(engine));
      EXPECT_GT(sqnr(model.forward({x}).toTensor(), lowered.forward({x}).toTensor()), 20)
          << engine << " " << clamp;
    }
  }
}

/// With these layers returning floats of bytes, whatever that costs.
Reference with_float_outputs(const Module& model, const at::Tensor& x, const std::string& engine,
                             const std::vector<std::string>& layers) {
  const BackendConfig backend = backend_config(engine);
  Prepared prepared =
      prepare(model, best_qconfig_mapping(engine), backend, {.machine = testing::slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{x}});
  Plan plan = convert_to_reference(prepared, backend).plan();
  for (PlannedOperator& op : plan.operators) {
    const bool is_meant = std::ranges::find(layers, op.layer) != layers.end();
    op.placement = is_meant ? Placement::Int8FloatOut : op.placement;
  }
  for (PlannedValue& value : plan.values) {
    const bool is_meant = std::ranges::any_of(
        layers, [&](const std::string& layer) { return value.value.starts_with(layer + "/"); });
    value.is_rounded = !is_meant;
  }
  return convert_to_reference(prepared, backend, {.plan = plan});
}

TEST(FloatOutputs, WhatIsReturnedIsMadeOfTheCodesOfTheKernelBefore) {
  torch::manual_seed(4);
  Module model = two_linears("  y = self.fc2.forward(torch.relu(self.fc1.forward(x)))\n");
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{120, 256}, {2, 60, 256}}) {
    const at::Tensor x = torch::randn(shape);
    for (const std::string engine : {"onednn", "qnnpack"}) {
      const Reference reference = with_float_outputs(model, x, engine, {"fc2"});
      EXPECT_EQ(count(*detail::stage_of(reference).model.graph, "aten::quantize_per_tensor"), 2u)
          << engine << ": the input and what the first layer returns";
      Module lowered = lower(reference, backend_config(engine));
      EXPECT_EQ(kernels(lowered, "quantized::linear_dynamic"), 1u) << engine;
      Module meaning = reference.module();
      const c10::InferenceMode no_gradients;
      for (const double scale : {1.0, 0.05}) {  // with a part of the range, too
        const at::Tensor wanted = meaning.forward({scale * x}).toTensor();
        const at::Tensor got = lowered.forward({scale * x}).toTensor();
        // The first kernel may return the next code where the sum lies between two: of qnnpack often, of
        // onednn without VNNI hardly ever.
        EXPECT_GT(sqnr(wanted, got), engine == "onednn" ? 60 : 35) << engine << " " << scale;
        if (engine == "onednn" && testing::has_vnni()) {
          EXPECT_TRUE(at::allclose(got, wanted, 1e-4, 1e-3)) << scale;
        }
      }
    }
  }
}

TEST(FloatOutputs, TwoHeadsReadTheSameCodes) {
  torch::manual_seed(4);
  Module model =
      two_linears("  h = torch.relu(self.fc1.forward(x))\n  y = self.fc2.forward(h), self.fc3.forward(h)\n");
  const at::Tensor x = torch::randn({120, 256});
  Module lowered = lower(with_float_outputs(model, x, "qnnpack", {"fc2", "fc3"}), backend_config("qnnpack"));
  EXPECT_EQ(kernels(lowered, "aten::constant_pad_nd"), 2u);
}

TEST(FloatOutputs, ScaledDotProductAttentionStaysFloatBetweenLayersInInt8) {
  torch::manual_seed(5);
  Module model = two_linears(
      "  q = self.fc1.forward(x).view([4, 30, 2, 128]).transpose(1, 2)\n"
      "  k = self.fc2.forward(x).view([4, 30, 2, 128]).transpose(1, 2)\n"
      "  y = torch.scaled_dot_product_attention(q, k, k)\n");
  const at::Tensor x = torch::randn({4, 30, 256});
  Module lowered = lower(reference_of(model, x, "x86"), backend_config("x86"));
  EXPECT_EQ(kernels(lowered, kFloatOutput), 2u);
  EXPECT_EQ(kernels(lowered, "aten::scaled_dot_product_attention"), 1u);
  EXPECT_GT(sqnr(model.forward({x}).toTensor(), lowered.forward({x}).toTensor()), 15);
}

TEST(FloatOutputs, RecipeFxRoundsAsPyTorchDoes) {
  Module model = two_linears("  y = torch.gelu(self.fc1.forward(x))\n");
  const Reference reference = reference_of(model, torch::randn({4, 30, 256}), "x86", Recipe::Fx);
  EXPECT_GT(count(*detail::stage_of(reference).model.graph, "aten::quantize_per_tensor"), 1u);
}

}  // namespace float_outputs_test
}  // namespace tsq
