// Embeddings and linear layers whose weights alone are quantized.

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <sstream>

#include "passes/plain/passes.h"
#include "support/pass_model.h"
#include "support/small_models.h"
#include "torchscript/modules/embedding.h"

namespace tsq {
namespace weight_only_test {

using ::testing::HasSubstr;
using torch::jit::Module;
using torch::jit::Stack;

constexpr int64_t kRows = 20;

Module leaf(const std::string& name, const at::Tensor& weight) {
  Module module("__torch__.torch.nn.modules.sparse." + name, std::make_shared<torch::jit::CompilationUnit>(),
                /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("weight", weight, false);
  module.register_attribute("max_norm", c10::OptionalType::create(c10::FloatType::get()), c10::IValue());
  module.register_attribute("norm_type", c10::FloatType::get(), 2.0);
  return module;
}

Module embedding(int64_t columns) {
  Module module = leaf("Embedding", torch::randn({kRows, columns}));
  module.define("def forward(self, x):\n  return torch.embedding(self.weight, x)\n");
  return module;
}

struct BagOptions {
  std::string mode{"mean"};
  c10::IValue padding_idx{};
};

Module bag(int64_t columns, const BagOptions& options) {
  Module module = leaf("EmbeddingBag", torch::randn({kRows, columns}));
  module.register_attribute("mode", c10::StringType::get(), options.mode);
  module.register_attribute("include_last_offset", c10::BoolType::get(), false);
  module.register_attribute("padding_idx", c10::OptionalType::create(c10::IntType::get()),
                            options.padding_idx);
  const int64_t number = options.mode == "sum" ? 0 : options.mode == "mean" ? 1 : 2;
  module.define(fmt::format(
      "def forward(self, x, offsets: Optional[Tensor] = None, weights: Optional[Tensor] = None):\n"
      "  assert offsets is not None\n"
      "  return torch.embedding_bag(self.weight, x, offsets, False, {}, False, weights, False, "
      "self.padding_idx)[0]\n",
      number));
  return module;
}

Module model_of(const Module& embedding, bool has_offsets) {
  Module model = testing::user_module("Words");
  model.register_module("words", embedding);
  model.define(has_offsets ? "def forward(self, x, offsets):\n  return self.words.forward(x, offsets)\n"
                           : "def forward(self, x):\n  return self.words.forward(x)\n");
  return model;
}

Module linear_model(int64_t in, int64_t out, bool has_relu) {
  Module model = testing::user_module("Layer");
  model.register_module("layer", testing::linear(in, out));
  model.register_module("relu", testing::relu());
  model.define(has_relu ? "def forward(self, x):\n  return self.relu.forward(self.layer.forward(x))\n"
                        : "def forward(self, x):\n  return self.layer.forward(x)\n");
  return model;
}

/// Without calibration: weights are known.
Lowered quantized(const Module& model, const QConfigMapping& mapping,
                  const BackendConfig& backend = with_weight_only(backend_config("x86"))) {
  return lower(convert_to_reference(prepare(model, mapping, backend, {.recipe = Recipe::Fx}), backend),
               backend);
}

at::Tensor run(Module module, std::vector<c10::IValue> inputs) {
  const at::NoGradGuard no_grad;
  return module.forward(std::move(inputs)).toTensor();
}

/// Decibels.
double sqnr(const at::Tensor& expected, const at::Tensor& got) {
  return 20 * std::log10(expected.norm().item<double>() / (expected - got).norm().item<double>());
}

Module saved_and_loaded(const Module& module) {
  std::stringstream stream;
  module.save(stream);
  return torch::jit::load(stream);
}

at::Tensor ids(std::vector<int64_t> values) { return torch::tensor(values); }

TEST(WeightOnly, TheKernelForBagsIgnoresTheMode) {
  torch::manual_seed(1);
  const at::Tensor rows = torch::randn({kRows, 8});
  const auto call = [](const char* name, Stack stack) {
    c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
    return stack.back().toTensor();
  };
  const at::Tensor packed = call("quantized::embedding_bag_byte_prepack", {rows});
  const auto bags = [&](int64_t mode) {
    return call("quantized::embedding_bag_byte_rowwise_offsets",
                {packed, ids({1, 2, 3}), ids({0}), false, mode, false, c10::IValue(), c10::IValue(), false});
  };
  EXPECT_TRUE(at::equal(bags(0), bags(1))) << "a mean is a sum";
  EXPECT_TRUE(at::equal(bags(0), bags(2))) << "a maximum is a sum";
}

TEST(WeightOnly, AMeanOfABagStaysAMean) {
  torch::manual_seed(2);
  for (const char* mode : {"sum", "mean", "max"}) {
    const Module model = model_of(bag(16, {.mode = mode}), true);
    const std::vector<c10::IValue> inputs{ids({1, 2, 3, 4, 4, 9}), ids({0, 4, 4})};
    const at::Tensor expected = run(model, inputs);
    const at::Tensor got = run(quantized(model, weight_only_qconfig_mapping(8)).module(), inputs);
    EXPECT_GT(sqnr(expected, got), 35) << mode;
    EXPECT_TRUE(got.select(0, 1).eq(0).all().item<bool>()) << "the empty bag of a " << mode;
  }
}

TEST(WeightOnly, RowsOfPaddingDoNotCount) {
  torch::manual_seed(3);
  for (const char* mode : {"sum", "mean", "max"}) {
    const Module model = model_of(bag(16, {.mode = mode, .padding_idx = int64_t{4}}), true);
    const std::vector<c10::IValue> inputs{ids({4, 2, 3, 4, 4, 4}), ids({0, 4})};
    const at::Tensor got = run(quantized(model, weight_only_qconfig_mapping(8)).module(), inputs);
    EXPECT_GT(sqnr(run(model, inputs), got), 35) << mode;
    EXPECT_TRUE(got.select(0, 1).eq(0).all().item<bool>()) << "nothing but padding, " << mode;
  }
}

TEST(WeightOnly, RowsAreAsSmallAsTheirBits) {
  torch::manual_seed(4);
  const Module model = model_of(embedding(13), false);
  const std::vector<c10::IValue> inputs{torch::arange(kRows).reshape({4, 5})};
  const at::Tensor expected = run(model, inputs);
  struct Size {
    int bits;
    int64_t bytes;
    double decibels;
  };
  // 13 codes, filled up to whole bytes, and two numbers of 4 or 2 bytes.
  for (const Size& size : {Size{8, 13 + 8, 40}, Size{4, 7 + 4, 15}, Size{2, 4 + 4, 3}}) {
    const Lowered result = quantized(model, weight_only_qconfig_mapping(size.bits));
    const Module loaded = saved_and_loaded(result.module());
    const at::Tensor rows = loaded.attr("words").toModule().attr("rows").toTensor();
    EXPECT_EQ(rows.sizes(), (std::vector<int64_t>{kRows, size.bytes}));
    const at::Tensor got = run(loaded, inputs);
    EXPECT_EQ(got.sizes(), expected.sizes());
    EXPECT_GT(sqnr(expected, got), size.decibels) << size.bits << " bits";
    EXPECT_TRUE(result.report().decisions.front().quantized);
    EXPECT_THAT(result.report().decisions.front().kernel, HasSubstr("rowwise_offsets"));
  }
}

TEST(WeightOnly, AnEmbeddingWithAScaleForEachColumnStaysFloatAndSaysWhy) {
  QConfig columns = embedding_weight_only_qconfig(8);
  columns.weight.ch_axis = 1;
  const Module model = model_of(embedding(16), false);
  const Lowered result = quantized(model, QConfigMapping().set_object_type("torch.nn.Embedding", columns));
  EXPECT_FALSE(result.report().decisions.front().quantized);
  EXPECT_THAT(result.report().decisions.front().reason, HasSubstr("column"));
  EXPECT_TRUE(at::equal(run(model, {ids({1, 2})}), run(result.module(), {ids({1, 2})})));
}

TEST(WeightOnly, TheTableOfOnednnTakesNoEmbeddingAndSaysWhy) {
  const Lowered result =
      quantized(model_of(embedding(16), false), weight_only_qconfig_mapping(8), backend_config("onednn"));
  EXPECT_FALSE(result.report().decisions.front().quantized);
  EXPECT_THAT(result.report().decisions.front().reason, HasSubstr("quint8"));
}

TEST(WeightOnly, AFunctionWithAParameterIsAnEmbeddingToo) {
  torch::manual_seed(5);
  Module model = testing::user_module("Words");
  model.register_parameter("table", torch::randn({kRows, 8}), false);
  model.define("def forward(self, x):\n  return torch.embedding(self.table, x)\n");
  const ir::Model made = [&] {
    ir::Model result = testing::captured(model);
    passes::lift_embeddings(result, {});
    return result;
  }();
  ASSERT_EQ(made.calls.size(), 1U);
  EXPECT_TRUE(made.calls.front().embedding.has_value());
  const Lowered result = quantized(model, weight_only_qconfig_mapping(8));
  EXPECT_GT(sqnr(run(model, {ids({1, 2})}), run(result.module(), {ids({1, 2})})), 35);
  EXPECT_LT(sqnr(run(model, {ids({1, 2})}), run(result.module(), {ids({1, 2})})), 100) << "it is float";
}

TEST(WeightOnly, ATableThatTheModelWritesIsNoEmbedding) {
  Module model = testing::user_module("Words");
  model.register_buffer("table", torch::randn({kRows, 8}));
  model.define(
      "def forward(self, x):\n  self.table = self.table * 0.5\n  return torch.embedding(self.table, x)\n");
  ir::Model made = testing::captured(model);
  passes::lift_embeddings(made, {});
  EXPECT_TRUE(made.calls.empty());
}

TEST(WeightOnly, LinearLayersReadSmallWeights) {
  torch::manual_seed(6);
  for (const bool has_relu : {false, true}) {
    for (const int64_t in : {64, 50}) {
      const Module model = linear_model(in, 23, has_relu);
      const at::Tensor x = torch::randn({2, 3, in});
      const at::Tensor expected = run(model, {x});
      const Lowered bytes = quantized(model, weight_only_qconfig_mapping(8));
      EXPECT_EQ(bytes.report().decisions.front().kernel, "aten::_weight_int8pack_mm");
      EXPECT_GT(sqnr(expected, run(bytes.module(), {x})), 35);
      const Lowered halves = quantized(model, weight_only_qconfig_mapping(4, 32));
      EXPECT_EQ(halves.report().decisions.front().kernel, "aten::_weight_int4pack_mm_for_cpu");
      EXPECT_GT(sqnr(expected, run(halves.module(), {x})), 16);
      for (const Module& module : {bytes.module(), halves.module()})
        EXPECT_TRUE(at::equal(run(module, {x}), run(saved_and_loaded(module), {x})));
    }
  }
}

Module linear_function(int64_t in) {
  Module model = testing::user_module("Function");
  model.register_parameter("weight", torch::randn({23, in}), false);
  model.register_parameter("bias", torch::randn({23}), false);
  model.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
  return model;
}

TEST(WeightOnly, ALinearFunctionWithAParameterReadsSmallWeightsToo) {
  torch::manual_seed(6);
  const Module model = linear_function(64);
  const at::Tensor x = torch::randn({3, 64});
  const Lowered bytes = quantized(model, weight_only_qconfig_mapping(8));
  EXPECT_EQ(bytes.report().decisions.front().kernel, "aten::_weight_int8pack_mm");
  EXPECT_GT(sqnr(run(model, {x}), run(bytes.module(), {x})), 35);
}

TEST(WeightOnly, ALinearFunctionWithAnotherQConfigKeepsIt) {
  const Module model = linear_function(64);
  const QConfigMapping mapping =
      weight_only_qconfig_mapping(8).set_global(tsq::qconfig("default_dynamic_qconfig"));
  const Lowered result = quantized(model, mapping);
  EXPECT_THAT(result.report().decisions.front().kernel, HasSubstr("dynamic"));
}

TEST(WeightOnly, AFloat16QConfigLeavesAnEmbeddingInFloatAndSaysWhy) {
  const Module model = model_of(embedding(16), false);
  const Lowered result =
      quantized(model, QConfigMapping().set_global(tsq::qconfig("float16_dynamic_qconfig")));
  EXPECT_FALSE(result.report().decisions.front().quantized);
  EXPECT_THAT(result.report().decisions.front().reason, HasSubstr("float16"));
  EXPECT_TRUE(at::equal(run(model, {ids({1, 2})}), run(result.module(), {ids({1, 2})})));
}

TEST(WeightOnly, TheReferenceOfALinearLayerInGroupsIsNearItsKernel) {
  torch::manual_seed(7);
  const Module model = linear_model(100, 16, false);
  const BackendConfig backend = with_weight_only(backend_config("x86"));
  Prepared prepared = prepare(model, weight_only_qconfig_mapping(4, 32), backend, {.recipe = Recipe::Fx});
  const Reference reference = convert_to_reference(prepared, backend);
  const at::Tensor x = torch::randn({5, 100});
  const at::Tensor rounded = run(reference.module(), {x});
  EXPECT_GT(sqnr(rounded, run(lower(reference, backend), {x})), 40) << "bfloat16";
  EXPECT_LT(sqnr(run(model, {x}), rounded), 30) << "nothing is rounded";
}

TEST(WeightOnly, SmallerGroupsAreNearer) {
  torch::manual_seed(8);
  const Module model = linear_model(256, 32, false);
  const at::Tensor x = torch::randn({5, 256});
  const auto decibels = [&](int64_t group) {
    return sqnr(run(model, {x}), run(quantized(model, weight_only_qconfig_mapping(4, group)).module(), {x}));
  };
  EXPECT_GT(decibels(32), decibels(256) + 1);
}

TEST(WeightOnly, ALinearLayerWithoutAKernelIsRoundedAndSaysSo) {
  QConfig affine = weight_only_qconfig(8);
  affine.weight.qscheme = c10::kPerChannelAffine;
  const Lowered result =
      quantized(linear_model(32, 8, false), QConfigMapping().set_object_type("torch.nn.Linear", affine));
  EXPECT_FALSE(result.report().decisions.front().quantized);
  EXPECT_THAT(result.report().decisions.front().reason, HasSubstr("no kernel"));
}

TEST(WeightOnly, PyTorchsTableKeepsLinearLayersInFloat) {
  const Lowered result =
      quantized(linear_model(32, 8, false), weight_only_qconfig_mapping(8), backend_config("x86"));
  EXPECT_FALSE(result.report().decisions.front().quantized);
  EXPECT_FALSE(result.report().decisions.front().reason.empty());
}

TEST(WeightOnly, OtherBitsAndGroupSizesAreRefused) {
  EXPECT_THROW(static_cast<void>(weight_only_qconfig_mapping(3)), Error);
  EXPECT_THROW(static_cast<void>(weight_only_qconfig(2)), Error);
  EXPECT_THROW(static_cast<void>(weight_only_qconfig(4, 48)), Error);
}

}  // namespace weight_only_test
}  // namespace tsq
