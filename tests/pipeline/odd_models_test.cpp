// Models that LibTorch loads, and that no exporter of PyTorch's writes: they work, or one sentence says why
// not.

#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/error.h>
#include <tsq/quantize.h>

#include <string>
#include <vector>

#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace odd_models_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using torch::jit::Module;

Prepared prepared(const Module& model, Recipe recipe = Recipe::Best) {
  return prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = recipe});
}

/// What prepare refuses as bad model; empty where it does not.
std::string refusal_of(const Module& model) {
  try {
    prepared(model);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadModel) << error.what();
    return error.what();
  }
  return {};
}

/// first → second
Module sequence(const Module& first, const Module& second) {
  Module model = testing::user_module("Sequence");
  model.register_module("first", first);
  model.register_module("second", second);
  model.define("def forward(self, x):\n  return self.second.forward(self.first.forward(x))\n");
  model.eval();
  return model;
}

/// What a model returns once it was calibrated and converted.
at::Tensor quantized_output(const Module& model, const at::Tensor& input, Recipe recipe) {
  Prepared stage = prepared(model, recipe);
  calibrate(stage, std::vector<Sample>{{input}});
  const at::NoGradGuard no_grad;
  Module module = convert(stage, backend_config("x86")).module();
  return module.forward({input}).toTensor();
}

/// A layer of torch.nn, which does nothing, with a constant.
Module layer_with(const std::string& file, const std::string& name, const std::string& constant,
                  const c10::IValue& value) {
  Module layer("__torch__.torch.nn.modules." + file + "." + name,
               std::make_shared<torch::jit::CompilationUnit>(), /*shouldMangle=*/true);
  layer.type()->addConstant(constant, value);
  layer.define("def forward(self, x):\n  return x\n");
  return layer;
}

TEST(OddModels, AConstantOfALayerHasTheTypeOfPyTorchs) {
  const auto refusal = [](const Module& layer) { return refusal_of(sequence(testing::linear(4, 4), layer)); };
  EXPECT_THAT(refusal(layer_with("batchnorm", "BatchNorm2d", "eps", "0.1")),
              AllOf(HasSubstr("layer 'second' (BatchNorm2d): 'eps' is a value of type str, and in PyTorch's "
                              "BatchNorm2d it is a float"),
                    HasSubstr("export the model again")));
  EXPECT_THAT(refusal(layer_with("pooling", "MaxPool2d", "ceil_mode", int64_t{7})),
              HasSubstr("'ceil_mode' is a value of type int"));
  EXPECT_THAT(refusal(layer_with("activation", "MultiheadAttention", "batch_first", std::vector<int64_t>{1})),
              HasSubstr("'batch_first' is a value of type List[int]"));
  EXPECT_EQ(refusal(layer_with("activation", "LeakyReLU", "negative_slope", int64_t{0})), "");
  EXPECT_EQ(refusal(layer_with("batchnorm", "BatchNorm2d", "momentum", c10::IValue())), "");
}

TEST(OddModels, LayersWithoutInputsOrOutputsStayFloat) {
  const at::Tensor input = torch::randn({2, 8});
  const Module model = sequence(testing::linear(8, 0), testing::linear(0, 8));
  Module plain = model;
  const at::Tensor wanted = plain.forward({input}).toTensor();
  EXPECT_TRUE(at::equal(quantized_output(model, input, Recipe::Best), wanted));
  EXPECT_TRUE(at::allclose(quantized_output(model, input, Recipe::Fx), wanted, 0, 0.1))
      << "rounded around it";
  EXPECT_EQ(refusal_of(sequence(testing::conv2d(3, 0, 3), testing::relu())), "");
}

TEST(OddModels, AWeightThatItsClassCannotHaveStaysFloat) {
  const at::Tensor input = torch::randn({2, 8});
  for (const at::Tensor& weight :
       {at::eye(8).to_sparse_csr(), at::randn({8}), at::randn({8, 8}, at::kComplexFloat)}) {
    Module layer = testing::linear(8, 8);
    layer.setattr("weight", weight);
    EXPECT_EQ(refusal_of(sequence(layer, testing::relu())), "") << weight.sizes() << weight.toString();
  }
  for (const at::Tensor& weight : {at::randn({4, 3}), at::randn({4, 3, 3, 3}).to_sparse()}) {
    Module layer = testing::conv2d(3, 4, 3);
    layer.setattr("weight", weight);
    EXPECT_EQ(refusal_of(sequence(layer, testing::relu())), "") << weight.sizes();
  }
  Module norm = testing::batch_norm2d(5);
  EXPECT_EQ(refusal_of(sequence(testing::conv2d(3, 4, 3), norm)), "") << "of another number of channels";
  norm.setattr("running_mean", at::zeros({5}).to_sparse());
  EXPECT_EQ(refusal_of(sequence(testing::conv2d(3, 5, 3), norm)), "");
}

TEST(OddModels, ASparseBufferThatNothingReadsIsKept) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.file("stage.pt");
  const at::Tensor input = torch::randn({2, 8});
  for (const at::Tensor& buffer : {at::eye(3).to_sparse(), at::eye(3).to_sparse_csr()}) {
    Module model = sequence(testing::linear(8, 8), testing::relu());
    model.register_buffer("unused", buffer);
    Prepared stage = prepared(model);
    calibrate(stage, std::vector<Sample>{{input}});
    stage.save(file);
    const Module again = convert(Prepared::load(file), backend_config("x86")).module();
    EXPECT_TRUE(at::equal(again.attr("unused").toTensor().to_dense(), at::eye(3)));
  }
}

TEST(OddModels, NamesThatNoFileCanHoldAreRefused) {
  const auto refusal = [](const std::string& name) {
    Module model = sequence(testing::linear(4, 4), testing::relu());
    model.register_module(name, testing::relu());
    return refusal_of(model);
  };
  EXPECT_THAT(refusal("a\\b"), HasSubstr(R"(its attribute "a\\b" has a name that LibTorch cannot write)"));
  EXPECT_THAT(refusal("a\"b"), HasSubstr("rename it and export the model again"));
  EXPECT_THAT(refusal("a\nb"), HasSubstr(R"("a\nb")"));
  for (const char* name : {"a-b", "0", "a'b", "a\x1b"}) EXPECT_EQ(refusal(name), "") << name;
}

}  // namespace odd_models_test
}  // namespace tsq
