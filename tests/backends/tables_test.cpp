// Facts about every shipped table that need no PyTorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tsq/backends.h>
#include <tsq/error.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/symbols.h"

namespace tsq {
namespace tables_test {

const BackendPatternConfig* row(const BackendConfig& backend, const Pattern& pattern) {
  for (const BackendPatternConfig& config : backend.configs()) {
    if (config.key() == pattern) return &config;
  }
  return nullptr;
}

/// Runs a check on every shipped table; one test for all of them, since each test is a process that loads
/// LibTorch.
template <typename Check>
void for_every_table(Check&& check) {
  for (const BackendEntry& entry : backend_entries()) {
    SCOPED_TRACE(std::string(entry.name));
    check(entry.table());
  }
}

/// Runs a check on every row of every shipped table.
template <typename Check>
void for_every_row(Check&& check) {
  for_every_table([&](const BackendConfig& backend) {
    for (const BackendPatternConfig& config : backend.configs()) {
      SCOPED_TRACE(to_string(config.key()));
      check(config);
    }
  });
}

TEST(EveryTable, RoundTripsThroughJson) {
  for_every_table([](const BackendConfig& backend) {
    EXPECT_EQ(BackendConfig::from_dict(nlohmann::json::parse(backend.to_dict().dump())), backend);
  });
}

TEST(EveryTable, HasNoPatternTwice) {
  for_every_table([](const BackendConfig& backend) {
    std::vector<std::string> patterns;
    for (const BackendPatternConfig& config : backend.configs()) patterns.push_back(to_string(config.key()));
    std::ranges::sort(patterns);
    EXPECT_EQ(std::ranges::adjacent_find(patterns), patterns.end());
  });
}

TEST(EveryTable, HasDTypesInEveryRow) {
  for_every_row([](const BackendPatternConfig& config) { EXPECT_FALSE(config.dtype_configs.empty()); });
}

TEST(EveryTable, HasARootWhereverItHasAReference) {
  for_every_row([](const BackendPatternConfig& config) {
    EXPECT_TRUE(config.root_module.has_value() || !config.reference_quantized_module.has_value());
  });
}

TEST(EveryTable, FusesOnlyPatternsOfSeveralSymbolsAndNamesTheFusedModuleOnlyThere) {
  for_every_row([](const BackendPatternConfig& config) {
    EXPECT_TRUE(leaf_count(config.key()) >= 2 || !config.fuser_method.has_value());
    EXPECT_TRUE(config.fuser_method.has_value() || !config.fused_module.has_value());
  });
}

TEST(EveryTable, GivesWeightAndBiasIndicesOnlyToRowsThatBeginWithAFunction) {
  for_every_row([](const BackendPatternConfig& config) {
    EXPECT_TRUE(config.input_type_to_index.empty() ||
                symbols_of(config.key()).front().kind == SymbolKind::Function);
  });
}

TEST(EveryTable, IsFoundByItsNameAndSaysItsEngineOrNone) {
  for (const BackendEntry& entry : backend_entries()) {
    EXPECT_EQ(backend_config(entry.name), entry.table());
    EXPECT_THAT(entry.engine, testing::AnyOf("", "x86", "fbgemm", "qnnpack", "onednn")) << entry.name;
  }
}

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

}  // namespace tables_test
}  // namespace tsq
