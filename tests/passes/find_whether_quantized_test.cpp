// Passes that find out about the whole model.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "ir/edit.h"
#include "passes/plain/passes.h"
#include "passes/rewrite/passes.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace find_whether_quantized_test {

bool is_quantized(const QConfigMapping& mapping) {
  ir::Model model = testing::normalised(testing::conv_bn_relu());
  const bool changed = passes::find_whether_quantized(model, {.mapping = mapping});
  EXPECT_EQ(changed, model.is_quantized);
  return model.is_quantized;
}

TEST(FindWhetherQuantized, AMappingThatGivesSomeOperatorAQConfigQuantizes) {
  EXPECT_TRUE(is_quantized(default_qconfig_mapping("x86")));
  EXPECT_TRUE(is_quantized(QConfigMapping().set_module_name("conv", default_qconfig("x86"))));
}

TEST(FindWhetherQuantized, AMappingThatNamesNoneOfThemDoesNot) {
  EXPECT_FALSE(is_quantized({}));
  EXPECT_FALSE(is_quantized(QConfigMapping().set_module_name("elsewhere", default_qconfig("x86"))));
}

TEST(FindWhetherQuantized, WhatOneMethodHasFoundAnotherDoesNotTakeBack) {
  ir::Model model = testing::normalised(testing::conv_bn_relu());
  model.is_quantized = true;
  EXPECT_FALSE(passes::find_whether_quantized(model, {}));
  EXPECT_TRUE(model.is_quantized);
}

TEST(TakeAnySpelling, ChangesAModelOnce) {
  ir::Model model = testing::captured(testing::conv_bn_relu());
  EXPECT_FALSE(model.any_spelling);
  EXPECT_TRUE(passes::take_any_spelling(model, {}));
  EXPECT_TRUE(model.any_spelling);
  EXPECT_FALSE(passes::take_any_spelling(model, {}));
}

TEST(Normalise, SaysWhetherItHasChangedTheModel) {
  torch::jit::Module model = testing::user_module("Sum");
  model.define("def forward(self, x):\n  return x + 1\n");
  ir::Model sum = testing::captured(model);
  EXPECT_FALSE(passes::normalise(sum, {}));
  ir::Model convolution = testing::captured(testing::conv_bn_relu());
  EXPECT_TRUE(passes::normalise(convolution, {}));
}

TEST(UniqueAttributeName, NumbersNamesThatAreTaken) {
  ir::Model model = testing::captured(testing::conv_bn_relu());
  const auto add = [&](const std::string& name) {
    model.attributes.add({.name = name, .type = c10::IntType::get(), .value = 1});
  };
  EXPECT_EQ(ir::unique_attribute_name(model, "a.weight"), "a_weight");
  EXPECT_EQ(ir::unique_attribute_name(model, "a.weight"), "a_weight");
  add("a_weight");
  add("a_weight_2");
  EXPECT_EQ(ir::unique_attribute_name(model, "a.weight"), "a_weight_1");
  add("a_weight_1");
  EXPECT_EQ(ir::unique_attribute_name(model, "a.weight"), "a_weight_3");
}

}  // namespace find_whether_quantized_test
}  // namespace tsq
