#include <gtest/gtest.h>
#include <tsq/qconfig.h>

#include <nlohmann/json.hpp>

#include "config/expect_error.h"

namespace tsq {
namespace observer_spec_test {

using c10::ScalarType;
using nlohmann::json;

ResolvedObserver resolved(const json& spec) { return resolve(ObserverSpec::from_dict(spec)); }

void expect_range(const json& spec, int64_t min, int64_t max) {
  const ResolvedObserver observer = resolved(spec);
  EXPECT_EQ(observer.quant_min, min) << spec;
  EXPECT_EQ(observer.quant_max, max) << spec;
}

TEST(Resolve, DefaultRangesFollowTheDType) {  // M-07
  expect_range({{"observer", "MinMaxObserver"}}, 0, 255);
  expect_range({{"observer", "MinMaxObserver"}, {"dtype", "qint8"}}, -128, 127);
  expect_range({{"observer", "MinMaxObserver"}, {"dtype", "quint4x2"}}, 0, 15);
  expect_range({{"observer", "MinMaxObserver"}, {"dtype", "qint32"}}, -2147483648, 2147483647);
}

TEST(Resolve, ReduceRangeHalvesDefaultAndGivenRanges) {  // M-07
  expect_range({{"observer", "HistogramObserver"}, {"reduce_range", true}}, 0, 127);
  expect_range({{"observer", "HistogramObserver"}, {"dtype", "qint8"}, {"reduce_range", true}}, -64, 63);
  expect_range({{"observer", "MinMaxObserver"},
                {"dtype", "qint8"},
                {"quant_min", -127},
                {"quant_max", 127},
                {"reduce_range", true}},
               -64, 63);
  expect_range({{"observer", "MinMaxObserver"}, {"dtype", "quint4x2"}, {"reduce_range", true}}, 0, 15);
}

TEST(Resolve, ARangeCountsOnlyWithBothEnds) {
  expect_range({{"observer", "MinMaxObserver"}, {"quant_max", 100}}, 0, 255);
  EXPECT_FALSE(resolved({{"observer", "MinMaxObserver"}, {"quant_max", 100}}).has_custom_range);
  EXPECT_TRUE(
      resolved({{"observer", "MinMaxObserver"}, {"quant_min", 0}, {"quant_max", 100}}).has_custom_range);
}

TEST(Resolve, EpsIsThatOfFloat32UnlessGiven) {  // M-08
  EXPECT_EQ(resolved({{"observer", "MinMaxObserver"}}).eps, std::ldexp(1.0, -23));
  EXPECT_EQ(resolved({{"observer", "MinMaxObserver"}, {"eps", 1.0 / 4096}}).eps, 1.0 / 4096);
}

TEST(Resolve, EachClassHasItsOwnDefaults) {
  EXPECT_EQ(resolved({{"observer", "PerChannelMinMaxObserver"}}).qscheme, c10::kPerChannelAffine);
  EXPECT_EQ(resolved({{"observer", "HistogramObserver"}}).bins, 2048);
  EXPECT_EQ(resolved({{"observer", "MovingAverageMinMaxObserver"}}).averaging_constant, 0.01);
  EXPECT_EQ(resolved({{"observer", "PercentileObserver"}}).percentile, 99.99);
  EXPECT_EQ(resolved({{"observer", "PercentileObserver"}, {"percentile", 99.0}}).percentile, 99.0);
  EXPECT_EQ(resolved({{"observer", "EntropyObserver"}}).bins, 2048);
  EXPECT_EQ(resolved({{"observer", "NoopObserver"}}).dtype, ScalarType::Half);
  EXPECT_EQ(resolved({{"observer", "RecordingObserver"}}).dtype, ScalarType::QUInt8);
  EXPECT_EQ(resolved({{"observer", "ReuseInputObserver"}}).dtype, ScalarType::QUInt8);
}

TEST(Resolve, FixedQParamsHasItsRangeAndValues) {  // M-17
  const ResolvedObserver observer =
      resolved({{"observer", "FixedQParamsObserver"}, {"scale", 1.0 / 256}, {"zero_point", 0}});
  EXPECT_EQ(observer.quant_min, 0);
  EXPECT_EQ(observer.quant_max, 255);
  EXPECT_EQ(observer.scale, 1.0 / 256);
  EXPECT_FALSE(observer.eps.has_value());
}

TEST(Resolve, PlaceholderPassesItsRangeOn) {  // M-18
  const ResolvedObserver plain = resolved({{"observer", "PlaceholderObserver"}});
  EXPECT_EQ(plain.dtype, ScalarType::Float);
  EXPECT_FALSE(plain.quant_min.has_value());
  const ResolvedObserver dynamic = resolved({{"observer", "PlaceholderObserver"},
                                             {"dtype", "quint8"},
                                             {"quant_min", 0},
                                             {"quant_max", 255},
                                             {"is_dynamic", true}});
  EXPECT_TRUE(dynamic.is_dynamic);
  EXPECT_EQ(dynamic.quant_max, 255);
}

TEST(Resolve, ObserversWithoutQParamsHaveNeitherRangeNorEps) {  // M-19
  for (const char* name : {"RecordingObserver", "NoopObserver", "ReuseInputObserver"}) {
    const ResolvedObserver observer = resolved({{"observer", name}});
    EXPECT_FALSE(observer.quant_min || observer.quant_max || observer.eps) << name;
  }
}

TEST(Resolve, FusedFakeQuantizeHasARangeOfItsOwn) {
  expect_range(
      {{"fake_quantize", "FusedMovingAvgObsFakeQuantize"}, {"observer", "MovingAverageMinMaxObserver"}}, 0,
      255);
  EXPECT_TRUE(resolved({{"fake_quantize", "FusedMovingAvgObsFakeQuantize"}}).has_custom_range);
}

TEST(ObserverSpec, KeepsWhatWasGivenAndNothingElse) {
  const json dict = {{"observer", "HistogramObserver"}, {"reduce_range", false}, {"eps", 1.0 / 4096}};
  EXPECT_EQ(ObserverSpec::from_dict(dict).to_dict(), dict);
}

TEST(ObserverSpec, EqualityIsByWhatWasGiven) {  // B-03
  const ObserverSpec plain{.observer = "HistogramObserver"};
  const ObserverSpec spelled{.observer = "HistogramObserver", .reduce_range = false};
  EXPECT_NE(plain, spelled);
  EXPECT_EQ(plain, ObserverSpec{.observer = "HistogramObserver"});
}

void expect_refused(const std::string& sentence, const json& spec) {
  expect_error(sentence, [&] { ObserverSpec::from_dict(spec); });
}

TEST(ObserverSpecErrors, NameTheNearestClassAndKey) {
  expect_refused("'HistogrammObserver' is not an observer; did you mean 'HistogramObserver'?",
                 {{"observer", "HistogrammObserver"}});
  expect_refused("an observer has no key 'reduce_rang'; did you mean 'reduce_range'?",
                 {{"observer", "HistogramObserver"}, {"reduce_rang", true}});
  expect_refused("at 'qscheme': 'per_tensor_afine' is not a qscheme; did you mean 'per_tensor_affine'?",
                 {{"observer", "HistogramObserver"}, {"qscheme", "per_tensor_afine"}});
  expect_refused("the key 'observer' is missing", {{"dtype", "quint8"}});
}

TEST(ObserverSpecErrors, RefuseArgumentsTheConstructorHasNot) {
  expect_refused(
      "HistogramObserver: takes no argument 'ch_axis'; it takes: bins dtype qscheme reduce_range quant_min "
      "quant_max eps "
      "is_dynamic",
      {{"observer", "HistogramObserver"}, {"ch_axis", 0}});
  expect_refused("ReuseInputObserver: takes no argument 'dtype'; it takes none",
                 {{"observer", "ReuseInputObserver"}, {"dtype", "quint8"}});
}

TEST(ObserverSpecErrors, RefusePercentilesThatKeepLessThanHalf) {
  expect_refused("PercentileObserver: percentile is 20, it must be above 50 and at most 100",
                 {{"observer", "PercentileObserver"}, {"percentile", 20.0}});
}

TEST(ObserverSpecErrors, RefuseRangesThatContradict) {
  expect_refused("MinMaxObserver: quant_min 10 is not below quant_max 3",
                 {{"observer", "MinMaxObserver"}, {"quant_min", 10}, {"quant_max", 3}});
  expect_refused("MinMaxObserver: the range [1, 9] does not include 0",
                 {{"observer", "MinMaxObserver"}, {"quant_min", 1}, {"quant_max", 9}});
  expect_refused("MinMaxObserver: the range [-128, 127] is wider than quint8 holds; stay within [0, 255]",
                 {{"observer", "MinMaxObserver"}, {"quant_min", -128}, {"quant_max", 127}});
}

TEST(ObserverSpecErrors, RefuseDTypesAndSchemesTheObserverCannotHave) {  // M-16
  EXPECT_THROW(ObserverSpec::from_dict({{"observer", "MinMaxObserver"}, {"dtype", "float16"}}), Error);
  expect_refused(
      "HistogramObserver: cannot have the qscheme 'per_channel_affine'; use 'per_tensor_affine' or "
      "'per_tensor_symmetric'",
      {{"observer", "HistogramObserver"}, {"qscheme", "per_channel_affine"}});
  expect_refused("HistogramObserver: does not support is_dynamic; use PlaceholderObserver",
                 {{"observer", "HistogramObserver"}, {"is_dynamic", true}});
  expect_refused("MovingAverageMinMaxObserver: is_dynamic needs averaging_constant 1, got 0.01",
                 {{"observer", "MovingAverageMinMaxObserver"}, {"is_dynamic", true}});
}

TEST(ObserverSpecErrors, RefuseFakeQuantizeOfAnObserverThatCannot) {
  EXPECT_THROW(ObserverSpec::from_dict(
                   {{"fake_quantize", "FusedMovingAvgObsFakeQuantize"}, {"observer", "MinMaxObserver"}}),
               Error);
  EXPECT_THROW(ObserverSpec::from_dict(
                   {{"fake_quantize", "FixedQParamsFakeQuantize"}, {"observer", "MinMaxObserver"}}),
               Error);
  EXPECT_THROW(ObserverSpec::from_dict({{"fake_quantize", "FakeQuantize"}, {"observer", "NoopObserver"}}),
               Error);
  expect_refused("'FakeQuantise' is not a fake quantize class; did you mean 'FakeQuantize'?",
                 {{"fake_quantize", "FakeQuantise"}, {"observer", "MinMaxObserver"}});
}

}  // namespace observer_spec_test
}  // namespace tsq
