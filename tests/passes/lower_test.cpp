#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace lower_test {

using torch::jit::Module;
using torch::jit::testing::FileCheck;

std::vector<Sample> samples() {
  torch::manual_seed(1);
  std::vector<Sample> result;
  for (int i = 0; i < 3; ++i) result.push_back({torch::randn({2, 3, 8, 8})});
  return result;
}

Prepared calibrated(const Module& model, std::string_view backend = "x86") {
  Prepared prepared =
      prepare(model, default_qconfig_mapping(backend), backend_config(backend), {.recipe = Recipe::Fx});
  calibrate(prepared, samples());
  return prepared;
}

std::string graph_of(const Module& module) { return module.get_method("forward").graph()->toString(); }

TEST(Lower, ConvBnReluIsOneKernel) {  // L-02
  const Module lowered = convert(calibrated(testing::conv_bn_relu()), backend_config("x86"));
  FileCheck()
      .check("aten::quantize_per_tensor")

      ->check("quantized::conv2d_relu")
      ->check("aten::dequantize")
      ->run(graph_of(lowered));
  FileCheck().check_not("aten::relu")->check_not("batch_norm")->run(graph_of(lowered));
}

TEST(Lower, AResidualAdditionWithReluIsOneKernel) {  // L-13
  Module model = testing::user_module("Residual");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  y = self.conv.forward(x)\n  y += x\n  return torch.relu(y)\n");
  FileCheck()
      .check("quantized::conv2d(")
      ->check("quantized::add_relu")
      ->run(graph_of(convert(calibrated(model), backend_config("x86"))));
}

TEST(Lower, AnAdditionWithAlphaKeepsItsAlpha) {
  Module model = testing::user_module("Alpha");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  return torch.add(self.conv.forward(x), x, alpha=3)\n");
  const Module lowered = convert(calibrated(model), backend_config("x86"));
  const auto graph = lowered.get_method("forward").graph();
  const auto nodes = graph->nodes();
  const auto addition = std::find_if(
      nodes.begin(), nodes.end(), [](const torch::jit::Node* node) { return node->kind() == at::aten::add; });
  ASSERT_NE(addition, nodes.end());
  const auto alpha = torch::jit::toIValue(addition->namedInput("alpha"));
  ASSERT_TRUE(alpha.has_value());
  EXPECT_EQ(alpha->toScalar().toDouble(), 3);
  EXPECT_EQ(graph_of(lowered).find("quantized::add"), std::string::npos);
}

TEST(Lower, ReferenceAndKernelsAgree) {
  const at::NoGradGuard no_grad;
  const Prepared prepared = calibrated(testing::conv_bn_relu());
  const Reference reference = convert_to_reference(prepared, backend_config("x86"));
  Module expected = reference.module();
  Module lowered = lower(reference, backend_config("x86"));
  const at::Tensor x = torch::randn({2, 3, 8, 8});
  const at::Tensor difference = (expected.forward({x}).toTensor() - lowered.forward({x}).toTensor()).abs();
  EXPECT_LT(difference.max().item<float>(), 0.1F);
  EXPECT_LT(difference.mean().item<float>(), 0.001F);
}

TEST(Lower, AModuleCalledTwiceKeepsTheRangeOfEachCall) {  // D-38: FX keeps the last call's only
  const at::NoGradGuard no_grad;
  Module model = testing::user_module("Twice");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  return self.conv.forward(self.conv.forward(x))\n");
  const Reference reference = convert_to_reference(calibrated(model), backend_config("x86"));
  Module expected = reference.module();
  Module lowered = lower(reference, backend_config("x86"));
  const at::Tensor x = torch::randn({2, 3, 8, 8});
  const at::Tensor wanted = expected.forward({x}).toTensor();
  EXPECT_TRUE(
      at::allclose(lowered.forward({x}).toTensor(), wanted, 0, 0.05 * wanted.abs().max().item<double>()));
  FileCheck()
      .check_count("Conv2dPackedParamsBase = prim::GetAttr[name=\"conv_packed_params\"]", 2, /*exactly=*/true)
      ->run(graph_of(lowered));
}

TEST(Lower, ACallWithoutQConfigKeepsTheFloatWeights) {  // FX swaps the module for both calls, or for none
  const at::NoGradGuard no_grad;
  Module model = testing::user_module("Twice");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.define("def forward(self, x):\n  y = self.conv.forward(x)\n  return y, self.conv.forward(y)\n");
  const QConfigMapping mapping = default_qconfig_mapping("x86").set_module_name_object_type_order(
      "", symbol("torch.nn.Conv2d"), 1, std::nullopt);
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, mapping, backend, {.recipe = Recipe::Fx});
  const at::Tensor x = torch::randn({2, 3, 8, 8});
  calibrate(prepared, std::vector<Sample>{{x}});
  const auto results = convert(prepared, backend).module().forward({x}).toTupleRef().elements().vec();
  const at::Tensor y = results[0].toTensor();
  EXPECT_FALSE(at::equal(y, model.attr("conv").toModule().forward({x}).toTensor()));
  EXPECT_TRUE(at::equal(results[1].toTensor(), model.attr("conv").toModule().forward({y}).toTensor()));
}

TEST(Lower, ABackendWithoutKernelsSaysSo) {
  const Reference reference =
      convert_to_reference(calibrated(testing::conv_bn_relu()), backend_config("x86"));
  try {
    lower(reference, backend_config("tensorrt"));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has no kernels in LibTorch"), std::string::npos);
  }
}

class Files : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const char* name) const { return folder_.file(name); }

 private:
  testing::TemporaryFolder folder_;
};

std::map<std::string, at::Tensor> buffers_of(const Module& module) {
  std::map<std::string, at::Tensor> buffers;
  for (const auto& buffer : module.named_buffers()) buffers.emplace(buffer.name, buffer.value);
  return buffers;
}

TEST_F(Files, APreparedModelGoesOnFromItsFileWithEqualResults) {
  const at::NoGradGuard no_grad;
  const Prepared prepared = calibrated(testing::conv_bn_relu());
  prepared.save(path("prepared.pt"));
  Module direct = convert(prepared, backend_config("x86"));
  Module through_file = convert(Prepared::load(path("prepared.pt")), backend_config("x86"));
  const at::Tensor x = torch::randn({2, 3, 8, 8});
  EXPECT_TRUE(at::equal(direct.forward({x}).toTensor(), through_file.forward({x}).toTensor()));
}

TEST_F(Files, APreparedFileCalibratesInPlainLibTorch) {
  const at::NoGradGuard no_grad;
  const Module model = testing::conv_bn_relu();
  Prepared fresh =
      prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  fresh.save(path("fresh.pt"));
  Module observed = torch::jit::load(path("fresh.pt"));
  for (const Sample& sample : samples()) observed.forward(sample);
  calibrate(fresh, samples());
  const auto expected = buffers_of(fresh.module());
  const auto found = buffers_of(observed);
  EXPECT_FALSE(expected.empty());
  for (const auto& [name, buffer] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(at::equal(found.at(name), buffer)) << name;
  }
}

TEST_F(Files, ALoweredModelCarriesWhatMadeIt) {
  save(convert(calibrated(testing::conv_bn_relu(), "fbgemm"), backend_config("fbgemm")), path("int8.pt"));
  const nlohmann::json metadata = read_metadata(path("int8.pt"));
  EXPECT_EQ(metadata.at("backend"), "fbgemm");
  EXPECT_EQ(metadata.at("stage"), "quantized");
  EXPECT_EQ(metadata.at("qconfig_mapping"), "default_qconfig_mapping('fbgemm')");
}

}  // namespace lower_test
}  // namespace tsq
