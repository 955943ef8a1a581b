// Squeeze and excitation: maps multiplied by what is made of their averages.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <string>

#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace gates_test {

using testing::count;
using torch::jit::Module;

/// `maps` of x, here called h → their averages → `hidden` channels g → `gate` of g → `product` → point.
Module gated(int64_t hidden, const std::string& product = "g * h",
             const std::string& maps = "torch.relu(self.conv.forward(x))",
             const std::string& gate = "torch.sigmoid(g)") {
  torch::manual_seed(1);
  Module model = testing::user_module("Gated");
  model.register_module("conv", testing::conv2d(16, 64, 3));
  model.register_module("squeeze", testing::conv2d(64, hidden, 1));
  model.register_module("excite", testing::conv2d(hidden, 64, 1));
  model.register_module("point", testing::conv2d(64, 64, 1));
  model.define("def forward(self, x):\n  h = " + maps +
               "\n"
               "  g = torch.adaptive_avg_pool2d(h, [1, 1])\n"
               "  g = self.excite.forward(torch.relu(self.squeeze.forward(g)))\n"
               "  g = " +
               gate +
               "\n"
               "  return self.point.forward(" +
               product + ")\n");
  return model;
}

at::Tensor image() {
  torch::manual_seed(2);
  return torch::randn({2, 16, 24, 24});
}

Module quantized(const Module& model, const std::string& engine) {
  return testing::best_model(model, image(), engine, machine_profile("avx512-vnni"));
}

double sqnr(const Module& model, const Module& lowered) {
  return testing::sqnr(testing::run(model, image()), testing::run(lowered, image()));
}

class Gates : public ::testing::TestWithParam<const char*> {};

TEST_P(Gates, AreAsInFloatFromEitherSideHoweverTheyEnd) {
  const std::string relu = "torch.relu(self.conv.forward(x))";
  for (Module model : {gated(4, "g * h"), gated(4, "h * g"), gated(4096),
                       gated(4, "g * h", "torch.hardswish(self.conv.forward(x))"),
                       gated(4, "g * h", relu, "torch.clamp(g * 0.2 + 0.5, 0, 1)")}) {
    testing::scale_as_trained(model);  // of large sums, a gate is open or closed by chance
    EXPECT_GT(sqnr(model, quantized(model, GetParam())), 30);
  }
}

/// The layers of the gate in float, the others in int8.
Module with_layers_in_float(const Module& model, const std::string& engine) {
  QConfigMapping mapping = best_qconfig_mapping(engine);
  for (const char* layer : {"squeeze", "excite"}) mapping.set_module_name(layer, std::nullopt);
  const BackendConfig backend = backend_config(engine);
  Prepared prepared = prepare(model, mapping, backend, {.machine = testing::slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{image()}});
  return convert(prepared, backend);
}

TEST_P(Gates, LayersInFloatAreLinear) {
  for (const std::string maps :
       {"torch.relu(self.conv.forward(x))", "torch.hardswish(self.conv.forward(x))"}) {
    const Module model = gated(4, "g * h", maps);
    const Module lowered = with_layers_in_float(model, GetParam());
    EXPECT_EQ(count(lowered, "aten::linear"), 2U);
    EXPECT_EQ(count(lowered, "aten::unsqueeze"), 2U);
    EXPECT_GT(sqnr(model, lowered), 30);
  }
}

TEST_P(Gates, ThatAreReadElsewhereStayImages) {
  const Module model = gated(4, "g * h + torch.abs(g)");
  const Module lowered = with_layers_in_float(model, GetParam());
  EXPECT_EQ(count(lowered, "aten::linear"), 0U);
  EXPECT_EQ(count(lowered, "aten::conv2d"), 2U);
  EXPECT_GT(sqnr(model, lowered), 30);
}

INSTANTIATE_TEST_SUITE_P(Engines, Gates, ::testing::Values("x86", "fbgemm", "onednn", "qnnpack"));

/// Channels in front of a hardswish, half of whose values lie far below -3.
TEST(ClampObserved, ValuesThatHardswishTakesForZeroCostNoCodes) {
  torch::manual_seed(1);
  Module conv = testing::conv2d(16, 16, 3);
  const torch::NoGradGuard no_grad;
  conv.attr("bias").toTensor().copy_(at::where(at::arange(16) < 8, at::full({16}, -300.0), at::zeros({16})));
  Module model = testing::user_module("FarBelow");
  model.register_module("conv", conv);
  model.register_module("point", testing::conv2d(16, 16, 1));
  model.define("def forward(self, x):\n  return self.point.forward(torch.hardswish(self.conv.forward(x)))\n");
  const Module lowered = quantized(model, "fbgemm");
  EXPECT_EQ(count(lowered, "aten::clamp"), 0U);
  EXPECT_GT(sqnr(model, lowered), 30);
}

}  // namespace gates_test
}  // namespace tsq
