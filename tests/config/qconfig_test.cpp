#include <gtest/gtest.h>
#include <tsq/qconfig.h>

#include <nlohmann/json.hpp>

#include "config/expect_error.h"

namespace tsq {
namespace qconfig_test {

using nlohmann::json;

TEST(QConfig, DefaultOfFbgemmAndX86ReducesTheRangeAndHasPerChannelWeights) {  // B-21
  for (const char* backend : {"fbgemm", "x86"}) {
    const QConfig qconfig = default_qconfig(backend);
    EXPECT_EQ(resolve(qconfig.activation).quant_max, 127) << backend;
    EXPECT_EQ(resolve(qconfig.weight).qscheme, c10::kPerChannelSymmetric) << backend;
  }
}

TEST(QConfig, DefaultOfQnnpackHasPerTensorWeights) {  // B-21
  EXPECT_EQ(resolve(default_qconfig("qnnpack").activation).quant_max, 255);
  EXPECT_EQ(resolve(default_qconfig("qnnpack").weight).qscheme, c10::kPerTensorSymmetric);
}

TEST(QConfig, DefaultOfOnednnHasTheWholeRange) {  // B-21
  EXPECT_EQ(resolve(default_qconfig("onednn").activation).quant_max, 255);
  EXPECT_EQ(resolve(default_qconfig("onednn").weight).qscheme, c10::kPerChannelSymmetric);
}

TEST(QConfig, DefaultsAreRefusedForOtherBackendsAndVersions) {  // B-21, B-22
  expect_error("there is no default QConfig for the backend 'x68'; did you mean 'x86'?",
               [] { (void)default_qconfig("x68"); });
  expect_error("there is no version 1 of the default QConfigs; use version 0",
               [] { (void)default_qconfig("x86", 1); });
  expect_error("there is no version 2 of the default QConfigs; use version 0 or 1",
               [] { (void)default_qat_qconfig("x86", 2); });
}

TEST(QConfig, QatDefaultsHalveTheGivenRange) {  // B-22
  const QConfig qconfig = default_qat_qconfig("fbgemm", 1);
  EXPECT_EQ(qconfig.activation.fake_quantize, "FusedMovingAvgObsFakeQuantize");
  EXPECT_EQ(qconfig.activation.quant_max, 255);
  EXPECT_EQ(resolve(qconfig.activation).quant_max, 127);
}

TEST(QConfig, NamedOnesAreFoundWithAndWithoutTheirModule) {
  EXPECT_EQ(qconfig("default_dynamic_qconfig"), qconfig("torch.ao.quantization.default_dynamic_qconfig"));
  EXPECT_TRUE(resolve(qconfig("default_dynamic_qconfig").activation).is_dynamic);
  expect_error("'default_dynamc_qconfig' is not a named QConfig; did you mean 'default_dynamic_qconfig'?",
               [] { (void)qconfig("default_dynamc_qconfig"); });
}

TEST(QConfig, EveryNamedOneRoundTripsThroughJson) {
  for (const std::string_view name : qconfig_names())
    EXPECT_EQ(QConfig::from_dict(json::parse(qconfig(name).to_dict().dump())), qconfig(name)) << name;
}

TEST(QConfig, ANameStandsForANamedOneInJson) {
  EXPECT_EQ(QConfig::from_dict("default_qconfig"), qconfig("default_qconfig"));
}

TEST(QConfig, IsReadAsPythonsJsonWritesTheNamedTuple) {
  const json both = json::parse(R"([
      "torch.ao.quantization.observer.MinMaxObserver",
      {"fake_quantize": "torch.ao.quantization.fake_quantize.FakeQuantize", "dtype": "torch.qint8",
       "observer": {"observer": "torch.ao.quantization.observer.MinMaxObserver", "reduce_range": true,
                    "dtype": "torch.quint8"}}])");
  EXPECT_EQ(QConfig::from_dict(both), (QConfig{.activation = {.observer = "MinMaxObserver"},
                                               .weight = {.observer = "MinMaxObserver",
                                                          .fake_quantize = "FakeQuantize",
                                                          .dtype = c10::kQInt8,
                                                          .reduce_range = true}}));
  expect_error("a list of 1 is no QConfig; give [activation, weight]",
               [] { QConfig::from_dict(json::array({"MinMaxObserver"})); });
}

TEST(QConfig, NeedsBothSides) {
  expect_error("the key 'weight' is missing", [] {
    QConfig::from_dict({{"activation", {{"observer", "MinMaxObserver"}}}});
  });
  expect_error("a QConfig has no key 'activations'; did you mean 'activation'?", [] {
    QConfig::from_dict({{"activations", nullptr}});
  });
}

TEST(QConfig, ErrorsNameTheSide) {
  expect_error("at 'activation': 'MinMaxObserve' is not an observer; did you mean 'MinMaxObserver'?", [] {
    QConfig::from_dict(
        {{"activation", {{"observer", "MinMaxObserve"}}}, {"weight", {{"observer", "MinMaxObserver"}}}});
  });
}

TEST(QConfig, AFakeQuantizeModuleMayObserveWhatItWraps) {
  const ObserverSpec spec = ObserverSpec::from_dict(
      {{"observer", "FakeQuantize"}, {"dtype", "qint8"}, {"quant_min", -128}, {"quant_max", 127}});
  EXPECT_EQ(spec.fake_quantize, "FakeQuantize");
  EXPECT_EQ(spec.observer, "MovingAverageMinMaxObserver");
  EXPECT_EQ(
      ObserverSpec::from_dict({{"observer", "FixedQParamsFakeQuantize"}, {"scale", 0.5}, {"zero_point", 0}})
          .observer,
      "FixedQParamsObserver");
}

}  // namespace qconfig_test
}  // namespace tsq
