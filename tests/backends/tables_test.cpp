// Facts about every shipped table that need no PyTorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tsq/backend_config.h>
#include <tsq/error.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/symbols.h"

namespace tsq {
namespace {

const BackendPatternConfig* row(const BackendConfig& backend, const Pattern& pattern) {
  for (const BackendPatternConfig& config : backend.configs()) {
    if (config.key() == pattern) return &config;
  }
  return nullptr;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BackendEntry& entry : backend_entries()) names.emplace_back(entry.name);
  return names;
}

class Table : public testing::TestWithParam<std::string> {
 protected:
  BackendConfig backend_{backend_config(GetParam())};
};

TEST_P(Table, RoundTripsThroughJson) {
  EXPECT_EQ(BackendConfig::from_dict(backend_.to_dict()), backend_);
  const std::string text = backend_.to_dict().dump();
  EXPECT_EQ(BackendConfig::from_dict(nlohmann::json::parse(text)), backend_);
}

TEST_P(Table, HasNoPatternTwice) {
  std::vector<std::string> patterns;
  for (const BackendPatternConfig& config : backend_.configs()) patterns.push_back(to_string(config.key()));
  std::ranges::sort(patterns);
  EXPECT_EQ(std::ranges::adjacent_find(patterns), patterns.end());
}

TEST_P(Table, HasDTypesInEveryRow) {
  for (const BackendPatternConfig& config : backend_.configs())
    EXPECT_FALSE(config.dtype_configs.empty()) << to_string(config.key());
}

TEST_P(Table, HasAReferenceForEveryRootThatNamesOne) {
  for (const BackendPatternConfig& config : backend_.configs()) {
    if (config.reference_quantized_module) {
      EXPECT_TRUE(config.root_module.has_value()) << to_string(config.key());
    }
  }
}

TEST_P(Table, FusesOnlyPatternsOfSeveralSymbols) {
  for (const BackendPatternConfig& config : backend_.configs()) {
    if (config.fuser_method) {
      EXPECT_GE(leaf_count(config.key()), 2u) << to_string(config.key());
    }
    if (config.fused_module) {
      EXPECT_TRUE(config.fuser_method.has_value()) << to_string(config.key());
    }
  }
}

TEST_P(Table, GivesWeightAndBiasIndicesToRowsThatBeginWithAFunctionOnly) {
  for (const BackendPatternConfig& config : backend_.configs()) {
    if (!config.input_type_to_index.empty()) {
      EXPECT_EQ(symbols_of(config.key()).front().kind, SymbolKind::Function) << to_string(config.key());
    }
  }
}

TEST_P(Table, SaysTheEngineOfItsLoweredModelsOrNone) {
  const auto entry = std::ranges::find(backend_entries(), GetParam(), &BackendEntry::name);
  EXPECT_THAT(entry->engine, testing::AnyOf("", "x86", "fbgemm", "qnnpack", "onednn"));
}

INSTANTIATE_TEST_SUITE_P(Shipped, Table, testing::ValuesIn(backend_names()),
                         [](const auto& entry) { return entry.param; });

TEST(Tables, UnknownBackendNamesTheNearest) {
  try {
    (void)backend_config("x68");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadConfig);
    EXPECT_STREQ(error.what(), "there is no backend 'x68'; did you mean 'x86'?");
  }
}

TEST(Tables, TheSecondSettingOfConvReluReplacesTheFirstAndKeepsItsPlace) {
  const BackendConfig backend = backend_config("fbgemm");
  const BackendPatternConfig* conv_relu = row(backend, nni::ConvReLU2d);
  ASSERT_NE(conv_relu, nullptr);
  EXPECT_FALSE(conv_relu->root_module.has_value());
  EXPECT_EQ(conv_relu->qat_module, nniqat::ConvReLU2d);
}

TEST(Tables, OneDnnFusesAConvolutionIntoTheAdditionOnEitherSide) {
  const BackendConfig backend = backend_config("onednn");
  const BackendPatternConfig* left = row(backend, nn::ReLU(op::add(nn::BatchNorm2d(nn::Conv2d), match_all)));
  const BackendPatternConfig* right = row(backend, nn::ReLU(op::add(match_all, nn::BatchNorm2d(nn::Conv2d))));
  ASSERT_NE(left, nullptr);
  ASSERT_NE(right, nullptr);
  EXPECT_EQ(left->root_node_getter, RootNodeGetter::ConvLeft);
  EXPECT_EQ(right->root_node_getter, RootNodeGetter::ConvRight);
  EXPECT_EQ(left->fuser_method, Fuser::ConvBnAddReLU);
  EXPECT_EQ(left->extra_inputs_getter, ExtraInputsGetter::OtherAddend);
  EXPECT_EQ(left->to_dict().at("fuser_method"),
            "torch.ao.quantization.backend_config.onednn._fuse_conv_bn_add_relu_left");
}

TEST(Tables, BinaryRowsChooseTheirObserverByTheNumberOfTensors) {
  const BackendConfig backend = backend_config("x86");
  const BackendPatternConfig* add = row(backend, op::add);
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->num_tensor_args_to_observation_type.at(1),
            ObservationType::OUTPUT_SHARE_OBSERVER_WITH_INPUT);
  EXPECT_EQ(add->num_tensor_args_to_observation_type.at(2),
            ObservationType::OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT);
}

TEST(Tables, FixedRangeOperatorsAskForExactlyTheirScaleAndZeroPoint) {
  const BackendConfig backend = backend_config("fbgemm");
  const BackendPatternConfig* tanh = row(backend, nn::Tanh);
  ASSERT_NE(tanh, nullptr);
  EXPECT_EQ(tanh->dtype_configs.front().output_dtype.scale_exact_match, 2.0 / 256);
  EXPECT_EQ(tanh->dtype_configs.front().output_dtype.zero_point_exact_match, 128);
}

}  // namespace
}  // namespace tsq
