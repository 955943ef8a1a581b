// What the documents write into a DTypeConfig, and into a row beside it.
#include <gtest/gtest.h>
#include <tsq/backend_config.h>

#include <nlohmann/json.hpp>

#include "config/expect_error.h"
#include "specification/quotations.h"

namespace tsq {
namespace dtype_config_test {

using c10::ScalarType;
using nlohmann::json;

TEST(SpecDTypeConfig, BiasTypeIsTheDocumentsNameOfBiasDType) {
  TSQ_SAYS("DTypeConfig", "\\\"bias_type\\\": torch.dtype",
           "PyTorch's from_dict reads bias_dtype alone; tsq reads both.");
  EXPECT_EQ(DTypeConfig::from_dict({{"bias_type", "float"}}), DTypeConfig{.bias_dtype = ScalarType::Float});
  EXPECT_EQ(DTypeConfig::from_dict({{"bias_type", "float"}, {"bias_dtype", "torch.float32"}}).bias_dtype,
            ScalarType::Float);
  expect_error_with("'bias_dtype' is float and 'bias_type' is float16", [] {
    DTypeConfig::from_dict({{"bias_dtype", "float"}, {"bias_type", "float16"}});
  });
}

TEST(SpecDTypeConfig, EveryItemOfItsDictionaryIsOptional) {
  TSQ_SAYS("DTypeConfig", "Create a DTypeConfig from a dictionary with the following items (all optional):");
  TSQ_SAYS("DTypeConfig",
           "Convert this DTypeConfig to a dictionary with the items described in from_dict().");
  EXPECT_EQ(DTypeConfig::from_dict(json::object()), DTypeConfig());
  const json all = {{"input_dtype", "quint8"},
                    {"output_dtype", "quint8"},
                    {"weight_dtype", "qint8"},
                    {"bias_dtype", "float"},
                    {"is_dynamic", true}};
  EXPECT_EQ(DTypeConfig::from_dict(all).to_dict(), all);
  for (const auto& [key, value] : all.items()) {
    json without = all;
    without.erase(key);
    EXPECT_EQ(DTypeConfig::from_dict(without).to_dict(), without) << key;
  }
}

TEST(SpecDTypeConfig, InputDTypeIsPlainBesideTheOneWithConstraints) {
  TSQ_SAYS("DTypeConfig", ">>> dtype_config2.input_dtype  torch.quint8");
  TSQ_SAYS("DTypeConfig",
           ">>> dtype_config2.input_dtype_with_constraints  DTypeWithConstraints(dtype=torch.quint8, "
           "quant_min_lower_bound=0, quant_max_upper_bound=255, …)");
  const json constraints = {
      {"dtype", "quint8"}, {"quant_min_lower_bound", 0}, {"quant_max_upper_bound", 255}};
  for (const std::string port : {"input_dtype", "output_dtype", "weight_dtype"}) {
    const DTypeConfig whole = DTypeConfig::from_dict({{port, constraints}});
    EXPECT_EQ(DTypeConfig::from_dict({{port + "_with_constraints", constraints}}), whole);
    EXPECT_EQ(DTypeConfig::from_dict({{port, "quint8"}, {port + "_with_constraints", constraints}}), whole);
    EXPECT_EQ(DTypeConfig::from_dict(whole.to_dict()), whole);
  }
}

TEST(SpecDTypeConfig, ThePlainDTypeIsThatOfConstraintsWithoutOne) {
  const DTypeConfig config = DTypeConfig::from_dict(
      {{"weight_dtype", "qint8"}, {"weight_dtype_with_constraints", {{"quant_min_lower_bound", -127}}}});
  EXPECT_EQ(config.weight_dtype,
            (DTypeWithConstraints{.dtype = ScalarType::QInt8, .quant_min_lower_bound = -127}));
}

TEST(SpecDTypeConfig, TwoSpellingsThatContradictEachOtherAreRefused) {
  expect_error_with(
      R"('input_dtype' is "quint8" and 'input_dtype_with_constraints' is {"dtype":"qint8"})", [] {
        DTypeConfig::from_dict(
            {{"input_dtype", "quint8"}, {"input_dtype_with_constraints", {{"dtype", "qint8"}}}});
      });
  expect_error_with("they mean the same; make them agree or keep one", [] {
    DTypeConfig::from_dict({{"input_dtype", {{"dtype", "quint8"}, {"quant_max_upper_bound", 127}}},
                            {"input_dtype_with_constraints", {{"dtype", "quint8"}}}});
  });
}

TEST(SpecDTypeConfig, TheOlderKeyOfTheReferenceModuleIsRead) {
  TSQ_SAYS("BackendPatternConfig",
           "\\\"reference_quantized_module\\\": a torch.nn.Module that represents the reference quantized "
           "implementation for this pattern's root module",
           "PyTorch's from_dict reads reference_quantized_module_for_root alone; tsq reads both.");
  const json row = {{"pattern", "torch.nn.Linear"},
                    {"reference_quantized_module", "torch.ao.nn.quantized.reference.Linear"}};
  EXPECT_EQ(BackendPatternConfig::from_dict(row).reference_quantized_module,
            symbol("torch.ao.nn.quantized.reference.Linear"));
  json both = row;
  both["reference_quantized_module_for_root"] = row["reference_quantized_module"];
  EXPECT_EQ(BackendPatternConfig::from_dict(both), BackendPatternConfig::from_dict(row));
  both["reference_quantized_module_for_root"] = "torch.ao.nn.quantized.reference.Conv2d";
  expect_error_with("they mean the same; keep the first", [&] { BackendPatternConfig::from_dict(both); });
}

}  // namespace dtype_config_test
}  // namespace tsq
