#include "observers/observer_module.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/csrc/jit/serialization/import.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "observers/compiled_observer.h"

namespace observer_module_test {

using tsq::ObserverSpec;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

ObserverSpec named(const std::string& observer) {
  ObserverSpec spec;
  spec.observer = observer;
  return spec;
}

torch::jit::Module fresh(const std::string& observer) { return tsq::make_observer(named(observer)); }

void show(torch::jit::Module& observer, const at::Tensor& tensor) { observer.forward({tensor}); }

const std::vector<std::string> kRangeObservers{"MinMaxObserver", "MovingAverageMinMaxObserver",
                                               "PerChannelMinMaxObserver",
                                               "MovingAveragePerChannelMinMaxObserver", "HistogramObserver"};

void expect_equal(const tsq::QParams& a, const tsq::QParams& b) {
  EXPECT_TRUE(at::equal(a.scale, b.scale));
  EXPECT_TRUE(at::equal(a.zero_point, b.zero_point));
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.qscheme, b.qscheme);
  EXPECT_EQ(a.axis, b.axis);
}

/// A module in a compilation unit of its own, with an observer inside, written to a file and read back.
torch::jit::Module saved_and_loaded(const torch::jit::Module& observer) {
  torch::jit::Module model("Model");
  model.register_module("activation_post_process_0", observer);
  model.define(R"(
def forward(self, x: Tensor) -> Tensor:
    return self.activation_post_process_0.forward(x)
)");
  std::stringstream file;
  model.save(file);
  return torch::jit::load(file);
}

TEST(Observers, KeepStateAndQParamsInAFile) {
  at::manual_seed(4);
  for (const std::string& name : kRangeObservers) {
    SCOPED_TRACE(name);
    torch::jit::Module observer = fresh(name);
    const at::Tensor first = at::randn({4, 3, 5});
    const at::Tensor second = at::randn({4, 3, 5}) * 2;
    show(observer, first);
    torch::jit::Module model = saved_and_loaded(observer);
    const torch::jit::Module loaded = model.attr("activation_post_process_0").toModule();
    expect_equal(tsq::calculate_qparams(loaded), tsq::calculate_qparams(observer));
    show(observer, second);
    model.forward({second});
    expect_equal(tsq::calculate_qparams(loaded), tsq::calculate_qparams(observer));
  }
}

TEST(Observers, AreTorchScriptClassesNamedAsInPyTorch) {
  for (const std::string_view name : tsq::observer_names()) {
    if (name == "FixedQParamsObserver") continue;
    const torch::jit::Module observer = fresh(std::string(name));
    EXPECT_EQ(observer.type()->name()->qualifiedName(),
              fmt::format("__torch__.torch.ao.quantization.observer.{}", name));
  }
}

TEST(Observers, OfOneKindHaveTheirOwnState) {
  torch::jit::Module first = fresh("MinMaxObserver");
  const torch::jit::Module second = fresh("MinMaxObserver");
  show(first, at::ones({3}));
  EXPECT_TRUE(tsq::saw_data(first));
  EXPECT_FALSE(tsq::saw_data(second));
}

/// M-05
TEST(Observers, ThatSawNothingHaveScaleOneAndZeroPointZero) {
  for (const std::string& name : kRangeObservers) {
    torch::jit::Module observer = fresh(name);
    show(observer, at::empty({0, 3}));
    EXPECT_FALSE(tsq::saw_data(observer)) << name;
    const tsq::QParams qparams = tsq::calculate_qparams(observer);
    EXPECT_TRUE(at::equal(qparams.scale, at::ones({1}))) << name;
    EXPECT_TRUE(at::equal(qparams.zero_point, at::zeros({1}, at::kLong))) << name;
  }
}

/// M-06
TEST(Observers, WithAMinimumAboveTheMaximumAreRefused) {
  const torch::jit::Module observer = fresh("MinMaxObserver");
  observer.attr("min_val").toTensor().fill_(2.0);
  observer.attr("max_val").toTensor().fill_(1.0);
  EXPECT_THROW(tsq::calculate_qparams(observer), tsq::Error);
}

/// M-12
/// Tensors of all kinds that an observer may meet, one after the other.
std::vector<at::Tensor> tensors_of_all_kinds() {
  at::manual_seed(9);
  const at::Tensor image = at::randn({2, 8, 17, 13});
  const at::Tensor with_infinity = at::cat({at::randn({50}), at::full({1}, kInfinity)});
  std::vector<at::Tensor> tensors{at::randn({3, 40000}),
                                  image,
                                  at::relu(image) * 3,
                                  image.contiguous(at::MemoryFormat::ChannelsLast) * 0.5,
                                  image.transpose(1, 3),
                                  image.select(1, 2),
                                  at::empty({0, 4}),
                                  at::full({3, 3}, 0.25),
                                  at::randn({}),
                                  at::randn({7}).to(at::kDouble),
                                  at::randn({7}).to(at::kHalf),
                                  at::randint(-5, 9, {30}, at::kLong),
                                  with_infinity,
                                  with_infinity - kInfinity,
                                  at::randn({4, 9}) * 1e-3,
                                  at::randn({40}) * -0.0F,
                                  at::randn({500}) * 1e-7F + 1000,
                                  at::randn({500}) * 1e-3F + 1000,
                                  at::randn({300}) * 1e30,
                                  at::randn({300})};
  return tensors;
}

/// Zeros have signs, and NaN is NaN.
bool has_equal_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_floating_point()) return at::equal(a, b);
  return a.sizes() == b.sizes() &&
         at::logical_or(at::eq(a, b), at::isnan(a).logical_and(at::isnan(b)))
             .logical_and(at::eq(at::signbit(a), at::signbit(b)).logical_or(at::isnan(a)))
             .all()
             .item<bool>();
}

void expect_equal_state(const torch::jit::Module& a, const torch::jit::Module& b, const std::string& what) {
  for (const auto& attribute : a.named_attributes(/*recurse=*/false)) {
    const at::IValue other = b.attr(attribute.name);
    const bool is_equal = attribute.value.isTensor()
                              ? has_equal_bits(attribute.value.toTensor(), other.toTensor())
                              : attribute.value == other;
    EXPECT_TRUE(is_equal) << what << ": " << attribute.name;
  }
}

TEST(Observers, CompiledAndInTorchScriptHaveEqualState) {
  const c10::InferenceMode no_gradients;
  const std::vector<at::Tensor> tensors = tensors_of_all_kinds();
  for (const std::string_view name : tsq::observer_names()) {
    if (name == "FixedQParamsObserver" || name == "FixedQParamsFakeQuantize") continue;
    for (std::size_t order = 0; order < tensors.size(); ++order) {
      const torch::jit::Module module = fresh(std::string(name));
      torch::jit::Module source = fresh(std::string(name));
      const auto compiled = tsq::compiled_observer(module);
      if (!compiled) break;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const at::Tensor& x = tensors[(order + i) % tensors.size()];
        compiled->observe(x);
        show(source, x);
        expect_equal_state(module, source, fmt::format("{}, tensor {} from {}", name, i, order));
        if (HasFailure()) return;
      }
    }
  }
}

/// Tensors of 8 channels along axis 1, and others at the end.
std::vector<at::Tensor> tensors_of_channels() {
  at::manual_seed(11);
  const at::Tensor image = at::randn({2, 8, 17, 13});
  at::Tensor with_nan = image.clone();
  with_nan.select(1, 3).fill_(kNaN);
  return {image,
          at::relu(at::randn({3, 8, 90, 70})),
          image.contiguous(at::MemoryFormat::ChannelsLast) * 1.5,
          at::randn({5, 8}) + 2,
          at::randn({40, 8, 400}).transpose(0, 2),
          at::randn({0, 8, 3}),
          with_nan,
          image.to(at::kHalf),
          at::randint(9, {2, 8}, at::kLong),
          image * -0.0F,
          at::randn({2, 7, 4}),
          image};
}

TEST(Observers, OfChannelsCompiledAndInTorchScriptHaveEqualState) {
  const c10::InferenceMode no_gradients;
  ObserverSpec spec = named("ChannelStatisticsObserver");
  for (const int64_t axis : {1, -1}) {
    spec.ch_axis = axis;
    const torch::jit::Module module = tsq::make_observer(spec);
    torch::jit::Module source = tsq::make_observer(spec);
    const auto compiled = tsq::compiled_observer(module);
    for (const at::Tensor& x : tensors_of_channels()) {
      const at::Tensor seen = axis == 1 ? x : x.transpose(1, -1);
      compiled->observe(seen);
      show(source, seen);
      expect_equal_state(module, source, fmt::format("axis {}, {}", axis, c10::str(x.sizes())));
    }
  }
}

TEST(Observers, ThatCountOrLookForExtremesHaveACompiledForm) {
  for (const char* name : {"MinMaxObserver", "HistogramObserver", "MSEObserver", "ChannelStatisticsObserver"})
    EXPECT_NE(tsq::compiled_observer(fresh(name)), nullptr) << name;
}

TEST(ChannelStatistics, MeansAreThoseOfSomePositionsAndExtremesOfAll) {
  at::manual_seed(10);
  ObserverSpec spec = named("ChannelStatisticsObserver");
  spec.ch_axis = 1;
  torch::jit::Module observer = tsq::make_observer(spec);
  at::Tensor x = at::randn({4, 3, 150, 150});
  x.index_put_({at::tensor(2), at::tensor(1), at::tensor(7), at::tensor(100)}, 40);
  show(observer, x);
  EXPECT_TRUE(at::equal(observer.attr("max_val").toTensor(), at::amax(x, {0, 2, 3})));
  EXPECT_TRUE(at::equal(observer.attr("min_val").toTensor(), at::amin(x, {0, 2, 3})));
  EXPECT_EQ(observer.attr("values").toInt(), 4 * 150 * 150);
  const double error = (observer.attr("mean").toTensor() - x.mean({0, 2, 3})).abs().max().item<double>();
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 4 / std::sqrt(4096 / 3.0));
}

TEST(HistogramObserver, DropsInfinitiesAndCountsTheTensorsThatHadThem) {
  torch::jit::Module observer = fresh("HistogramObserver");
  at::Tensor values = at::linspace(-1, 1, 100);
  values[3] = kInfinity;
  values[4] = -kInfinity;
  show(observer, values);
  show(observer, at::full({5}, kInfinity));
  EXPECT_EQ(tsq::tensors_not_finite(observer), 2);
  EXPECT_EQ(observer.attr("histogram").toTensor().sum().item<float>(), 98.0F);
  EXPECT_EQ(observer.attr("max_val").toTensor().item<float>(), 1.0F);
}

/// Of 3 channels along axis 0, each of which has values on both sides of zero.
at::Tensor with_non_finite(const at::Tensor& values) {
  at::Tensor result = values.clone();
  result[0][1] = kNaN;
  result[1][2] = kInfinity;
  result[2][0] = -kInfinity;
  return result;
}

/// The same with zeros in their place, which every range of a channel holds.
at::Tensor without_non_finite(const at::Tensor& values) { return at::nan_to_num(values, 0, 0, 0); }

TEST(Observers, LeaveOutWhatIsNotFinite) {
  at::manual_seed(7);
  for (const std::string& name : kRangeObservers) {
    SCOPED_TRACE(name);
    const bool per_channel = name.find("PerChannel") != std::string::npos;
    torch::jit::Module observer = saved_and_loaded(fresh(name)).attr("activation_post_process_0").toModule();
    torch::jit::Module expected = fresh(name);
    for (int i = 0; i < 3; ++i) {
      const at::Tensor values = with_non_finite(at::randn({3, 40}));
      const at::Tensor finite =
          per_channel ? without_non_finite(values) : values.masked_select(at::isfinite(values));
      show(observer, values);
      show(expected, finite);
      expect_equal(tsq::observe_once(named(name), values), tsq::observe_once(named(name), finite));
    }
    expect_equal(tsq::calculate_qparams(observer), tsq::calculate_qparams(expected));
    EXPECT_EQ(tsq::tensors_not_finite(observer), 3);
    EXPECT_EQ(tsq::tensors_not_finite(expected), 0);
    tsq::merge_observer(expected, observer);
    EXPECT_EQ(tsq::tensors_not_finite(expected), 3);
  }
}

TEST(Observers, SawNothingInTensorsWithoutAFiniteValue) {
  for (const std::string& name : kRangeObservers) {
    for (const float value : {kNaN, kInfinity, -kInfinity}) {
      torch::jit::Module observer = fresh(name);
      show(observer, at::full({3, 4}, value));
      EXPECT_FALSE(tsq::saw_data(observer)) << name;
      EXPECT_EQ(tsq::tensors_not_finite(observer), 1) << name;
      EXPECT_TRUE(at::equal(tsq::calculate_qparams(observer).scale, at::ones({1}))) << name;
      show(observer, at::full({3, 4}, 2.0));
      EXPECT_TRUE(tsq::saw_data(observer)) << name;
      EXPECT_EQ(observer.attr("max_val").toTensor().max().item<float>(), 2.0F) << name;
    }
  }
}

TEST(PerChannelObservers, KnowChannelsThatHadFiniteValuesInSomeTensorsOnly) {
  const at::Tensor first = at::tensor({-1.0F, 1.0F, kNaN, kNaN}).view({2, 2});
  const at::Tensor second = at::tensor({kNaN, kNaN, -2.0F, 4.0F}).view({2, 2});
  for (const std::string name : {"PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver"}) {
    torch::jit::Module observer = fresh(name);
    show(observer, first);
    expect_equal(tsq::calculate_qparams(observer), tsq::observe_once(named(name), first.nan_to_num()));
    torch::jit::Module other = fresh(name);
    show(other, second);
    tsq::merge_observer(other, observer);
    show(observer, second);
    for (const torch::jit::Module& each : {observer, other}) {
      EXPECT_TRUE(at::equal(each.attr("min_val").toTensor(), at::tensor({-1.0F, -2.0F}))) << name;
      EXPECT_TRUE(at::equal(each.attr("max_val").toTensor(), at::tensor({1.0F, 4.0F}))) << name;
    }
  }
}

TEST(InputEqualizationObserver, LeavesOutWhatIsNotFinite) {
  torch::jit::Module observer = tsq::make_observer({.observer = "_InputEqualizationObserver", .ch_axis = 0});
  show(observer, at::tensor({-1.0F, kNaN, 3.0F, kInfinity, 5.0F, 6.0F}).view({2, 3}));
  EXPECT_TRUE(at::equal(observer.attr("min_val").toTensor(), at::tensor({-1.0F, 5.0F})));
  EXPECT_TRUE(at::equal(observer.attr("max_val").toTensor(), at::tensor({3.0F, 6.0F})));
}

TEST(ChannelStatistics, LeaveOutWhatIsNotFinite) {
  at::manual_seed(8);
  const at::Tensor values = at::randn({6, 4}) * 3 + 1;
  at::Tensor padded = at::full({8, 4}, kNaN);
  padded.slice(0, 0, 6).copy_(values);
  padded[7][0] = kInfinity;
  torch::jit::Module observer = tsq::make_observer({.observer = "ChannelStatisticsObserver", .ch_axis = -1});
  torch::jit::Module expected = tsq::make_observer({.observer = "ChannelStatisticsObserver", .ch_axis = -1});
  for (int i = 0; i < 2; ++i) show(observer, padded * (i + 1));
  for (int i = 0; i < 2; ++i) show(expected, values * (i + 1));
  show(observer, at::full({2, 4}, kNaN));
  for (const char* state : {"mean", "mean_square", "min_val", "max_val"}) {
    EXPECT_TRUE(at::allclose(observer.attr(state).toTensor(), expected.attr(state).toTensor(), 1e-5))
        << state;
  }
  EXPECT_EQ(observer.attr("values").toInt(), 12);
}

TEST(InputProducts, LeaveOutRowsThatAreNotFinite) {
  at::manual_seed(9);
  const tsq::ObserverSpec spec{.observer = "InputProductsObserver", .ch_axis = -1, .group_size = 4};
  const at::Tensor values = at::randn({5, 4});
  torch::jit::Module observer = tsq::make_observer(spec);
  torch::jit::Module expected = tsq::make_observer(spec);
  show(observer, at::cat({at::full({2, 4}, kNaN), values, at::full({1, 4}, kInfinity)}));
  show(observer, at::full({2, 4}, kNaN));
  show(expected, values);
  EXPECT_TRUE(at::allclose(observer.attr("products").toTensor(), expected.attr("products").toTensor()));
  EXPECT_EQ(observer.attr("values").toInt(), 5);
}

/// PyTorch has no kernel for integers here, and its half precision kernels lose counts.
TEST(HistogramObserver, CountsOtherTypesAsFloat32) {
  at::manual_seed(5);
  const at::Tensor values = at::randint(-100, 100, {10000});
  torch::jit::Module expected = fresh("HistogramObserver");
  show(expected, values.to(at::kFloat));
  for (const auto dtype : {at::kLong, at::kInt, at::kShort, at::kHalf, at::kBFloat16}) {
    torch::jit::Module observer = fresh("HistogramObserver");
    show(observer, values.to(dtype));
    EXPECT_TRUE(at::equal(observer.attr("histogram").toTensor(), expected.attr("histogram").toTensor()))
        << c10::toString(dtype);
  }
  torch::jit::Module observer = fresh("HistogramObserver");
  show(observer, values > 0);
  EXPECT_EQ(observer.attr("max_val").toTensor().item<float>(), 1.0F);
}

/// quantize_per_tensor takes float32 alone.
TEST(Observers, TakeNoteOfTensorsThatAreNotFloat32) {
  for (const std::string& name : kRangeObservers) {
    for (const auto dtype : {at::kLong, at::kBool, at::kDouble, at::kHalf}) {
      torch::jit::Module observer = fresh(name);
      show(observer, at::ones({2, 2}));
      EXPECT_FALSE(tsq::saw_other_dtype(observer)) << name;
      show(observer, at::ones({2, 2}, dtype));
      EXPECT_TRUE(tsq::saw_other_dtype(observer)) << name << " " << c10::toString(dtype);
      torch::jit::Module other = fresh(name);
      tsq::merge_observer(other, observer);
      EXPECT_TRUE(tsq::saw_other_dtype(other)) << name;
      EXPECT_TRUE(
          tsq::saw_other_dtype(saved_and_loaded(observer).attr("activation_post_process_0").toModule()));
    }
  }
}

/// PyTorch's flatten fails here.
TEST(PerChannelObservers, GiveEveryValueOfAVectorItsOwnChannel) {
  for (const std::string name : {"PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver"}) {
    torch::jit::Module observer = fresh(name);
    show(observer, at::arange(4, at::kFloat));
    EXPECT_TRUE(at::equal(observer.attr("max_val").toTensor(), at::arange(4, at::kFloat)));
    EXPECT_EQ(tsq::observe_once(named(name), at::arange(4, at::kFloat)).scale.numel(), 4);
  }
}

/// M-17
TEST(FixedQParamsObserver, HasTheQParamsThatItWasGiven) {
  ObserverSpec spec = named("FixedQParamsObserver");
  spec.scale = 2.0 / 256.0;
  spec.zero_point = 128;
  torch::jit::Module observer = tsq::make_observer(spec);
  show(observer, at::randn({3}));
  const tsq::QParams qparams = tsq::calculate_qparams(observer);
  EXPECT_EQ(qparams.scale.item<float>(), 2.0F / 256.0F);
  EXPECT_EQ(qparams.zero_point.item<int64_t>(), 128);
  EXPECT_EQ(qparams.zero_point.scalar_type(), at::kLong);
  expect_equal(qparams, tsq::observe_once(spec, at::randn({3})));
  EXPECT_TRUE(tsq::saw_data(observer));
}

/// M-18
TEST(PlaceholderObserver, KeepsItsConfiguration) {
  ObserverSpec spec = named("PlaceholderObserver");
  spec.dtype = c10::kQUInt8;
  spec.quant_min = 0;
  spec.quant_max = 255;
  spec.is_dynamic = true;
  const torch::jit::Module observer = tsq::make_observer(spec);
  EXPECT_EQ(observer.attr("dtype").toInt(), static_cast<int64_t>(c10::kQUInt8));
  EXPECT_EQ(observer.attr("quant_max").toInt(), 255);
  EXPECT_TRUE(observer.attr("is_dynamic").toBool());
  EXPECT_TRUE(fresh("PlaceholderObserver").attr("quant_min").isNone());
}

/// M-19
TEST(ObserversWithoutRange, RefuseToGiveQParams) {
  for (const std::string name :
       {"PlaceholderObserver", "NoopObserver", "RecordingObserver", "ReuseInputObserver"}) {
    torch::jit::Module observer = fresh(name);
    const at::Tensor x = at::randn({3});
    EXPECT_TRUE(observer.forward({x}).toTensor().is_same(x)) << name;
    EXPECT_THROW(tsq::calculate_qparams(observer), tsq::Error) << name;
    EXPECT_THROW(tsq::observe_once(named(name), x), tsq::Error) << name;
  }
}

TEST(RecordingObserver, KeepsACopyOfEveryTensor) {
  torch::jit::Module observer = fresh("RecordingObserver");
  EXPECT_FALSE(tsq::saw_data(observer));
  at::Tensor x = at::ones({2});
  show(observer, x);
  x.zero_();
  show(observer, x);
  const auto recorded = observer.attr("tensor_val").toTensorVector();
  ASSERT_EQ(recorded.size(), 2U);
  EXPECT_TRUE(at::equal(recorded[0], at::ones({2})));
}

TEST(Observers, AreMadeFromSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<int> made(8, 0);
  for (std::size_t i = 0; i < made.size(); ++i) {
    threads.emplace_back([&, i] {
      for (const std::string& name : kRangeObservers) {
        torch::jit::Module observer = fresh(name);
        show(observer, at::ones({2, 2}));
        made[i] += tsq::saw_data(observer) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(made, testing::Each(static_cast<int>(kRangeObservers.size())));
}

TEST(AModuleThatIsNoObserver, IsNamedInTheError) {
  const torch::jit::Module model("Model");
  try {
    tsq::calculate_qparams(model);
    FAIL();
  } catch (const tsq::Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("'Model'"));
  }
}

std::vector<at::Tensor> shards() {
  at::manual_seed(6);
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 4; ++i) tensors.push_back(at::randn({3, 40}) * (1 + i));
  return tensors;
}

/// One observer a shard, merged into the first; beside it one observer that saw all.
struct Merged {
  torch::jit::Module merged;
  torch::jit::Module whole;
};
Merged merged(const std::string& name) {
  Merged result{fresh(name), fresh(name)};
  for (const at::Tensor& shard : shards()) {
    torch::jit::Module part = fresh(name);
    show(part, shard);
    show(result.whole, shard);
    tsq::merge_observer(result.merged, part);
  }
  tsq::merge_observer(result.merged, fresh(name));
  return result;
}

TEST(Merge, OfMinMaxShardsIsOneRunOverAll) {
  for (const std::string name : {"MinMaxObserver", "PerChannelMinMaxObserver"}) {
    const Merged result = merged(name);
    for (const char* state : {"min_val", "max_val"}) {
      EXPECT_TRUE(at::equal(result.merged.attr(state).toTensor(), result.whole.attr(state).toTensor()))
          << name;
    }
  }
}

/// A channel observer that sees tensors of these shapes one after another, or each of an observer of its own.
torch::jit::Module channels_after(const std::vector<std::vector<int64_t>>& shapes, int64_t axis,
                                  bool in_parts) {
  const ObserverSpec spec{.observer = "ChannelStatisticsObserver", .ch_axis = axis};
  torch::jit::Module all = tsq::make_observer(spec);
  for (const std::vector<int64_t>& shape : shapes) {
    torch::jit::Module part = tsq::make_observer(spec);
    show(in_parts ? part : all, at::ones(shape));
    if (in_parts) tsq::merge_observer(all, part);
  }
  return all;
}

/// What it keeps of their sizes.
std::vector<int64_t> sizes_after(const std::vector<std::vector<int64_t>>& shapes, bool in_parts) {
  const at::Tensor sizes = channels_after(shapes, -1, in_parts).attr("sizes").toTensor();
  const auto* first = sizes.const_data_ptr<int64_t>();
  return {first, first + sizes.numel()};
}

TEST(ChannelStatistics, KeepTheLargestSizesInWhateverOrderTheyCome) {
  std::vector<std::vector<int64_t>> shapes{{7, 4}, {2, 9, 4}, {5, 3, 4}, {30, 4}};
  std::ranges::sort(shapes);
  do {
    EXPECT_EQ(sizes_after(shapes, /*in_parts=*/false), (std::vector<int64_t>{5, 9, 4}));
    EXPECT_EQ(sizes_after(shapes, /*in_parts=*/true), (std::vector<int64_t>{5, 9, 4}));
  } while (std::ranges::next_permutation(shapes).found);
}

TEST(ChannelStatistics, NothingIsKnownOfAnAxisWhoseSizeVaries) {
  for (const bool in_parts : {false, true}) {
    EXPECT_TRUE(tsq::saw_data(channels_after({{2, 3, 4}, {5, 3, 6}}, -2, in_parts)));
    EXPECT_FALSE(tsq::saw_data(channels_after({{2, 3, 4}, {2, 5, 4}}, -2, in_parts)));
    EXPECT_FALSE(tsq::saw_data(channels_after({{2, 3, 4}, {2, 5, 4}, {2, 3, 4}}, -2, in_parts)));
    EXPECT_FALSE(tsq::saw_data(channels_after({{4}, {2, 3, 4}}, -2, in_parts)));
  }
}

TEST(Merge, OfMovingAveragesWeighsByBatches) {
  for (const std::string name : {"MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver"}) {
    torch::jit::Module one = fresh(name);
    torch::jit::Module three = fresh(name);
    show(one, at::full({1, 2}, 4.0));
    for (int i = 0; i < 3; ++i) show(three, at::full({1, 2}, 8.0));
    tsq::merge_observer(one, three);
    EXPECT_EQ(one.attr("max_val").toTensor().item<float>(), 7.0F) << name;
    EXPECT_EQ(one.attr("batches").toInt(), 4) << name;
  }
}

TEST(Merge, OfHistogramsKeepsRangeAndMass) {
  const Merged result = merged("HistogramObserver");
  EXPECT_EQ(result.merged.attr("min_val").toTensor().item<float>(),
            result.whole.attr("min_val").toTensor().item<float>());
  EXPECT_EQ(result.merged.attr("max_val").toTensor().item<float>(),
            result.whole.attr("max_val").toTensor().item<float>());
  EXPECT_NEAR(result.merged.attr("histogram").toTensor().sum().item<float>(), 480.0F, 0.01F);
}

TEST(Merge, OfAHistogramIntoAWiderOneIsWhatForwardDoesForAWiderBatch) {
  const at::Tensor narrow = at::linspace(-1, 1, 500);
  const at::Tensor wide = at::linspace(-3, 5, 500);
  torch::jit::Module whole = fresh("HistogramObserver");
  torch::jit::Module first = fresh("HistogramObserver");
  torch::jit::Module second = fresh("HistogramObserver");
  show(whole, narrow);
  show(whole, wide);
  show(first, narrow);
  show(second, wide);
  tsq::merge_observer(first, second);
  EXPECT_TRUE(at::equal(first.attr("histogram").toTensor(), whole.attr("histogram").toTensor()));
}

TEST(Merge, OfAOneValueHistogramPutsItsMassAtTheValue) {
  torch::jit::Module one_value = fresh("HistogramObserver");
  torch::jit::Module wide = fresh("HistogramObserver");
  show(one_value, at::zeros({10}));
  show(wide, at::linspace(-1, 1, 4));
  tsq::merge_observer(one_value, wide);
  EXPECT_EQ(one_value.attr("histogram").toTensor()[1024].item<float>(), 10.0F);
}

TEST(Merge, RefusesObserversThatDoNotFit) {
  torch::jit::Module min_max = fresh("MinMaxObserver");
  EXPECT_THROW(tsq::merge_observer(min_max, fresh("HistogramObserver")), tsq::Error);
  torch::jit::Module two = fresh("PerChannelMinMaxObserver");
  torch::jit::Module three = fresh("PerChannelMinMaxObserver");
  show(two, at::ones({2, 2}));
  show(three, at::ones({3, 2}));
  EXPECT_THROW(tsq::merge_observer(two, three), tsq::Error);
}

}  // namespace observer_module_test
