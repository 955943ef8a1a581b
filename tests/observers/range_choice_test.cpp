// The ranges that tsq's own observers choose.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "observers/observer_module.h"
#include "observers/rounding_noise.h"

namespace range_choice_test {

using tsq::ObserverSpec;

struct Distribution {
  std::string name;
  at::Tensor values;
};

std::vector<Distribution> distributions() {
  at::manual_seed(21);
  const at::Tensor normal = at::randn({100000});
  const at::Tensor outliers = normal.clone();
  outliers.slice(0, 0, 20).mul_(100);
  const at::Tensor spike = at::full({100000}, -1.0);
  spike.slice(0, 0, 20000).copy_(at::rand({20000}).pow(6) * 491 - 1);
  return {{"normal", normal},
          {"uniform", at::rand({100000})},
          {"relu of normal", normal.clamp_min(0)},
          {"relu6 of normal", (normal * 4).clamp(0, 6)},
          {"exponential", -at::log(at::rand({100000}) + 1e-6)},
          {"outliers", outliers},
          {"spike", spike},
          {"one value", at::full({1000}, 3.0)}};
}

struct Range {
  double lowest{};
  double highest{};
};

Range range_of(const tsq::QParams& qparams) {
  const double scale = qparams.scale.item<float>();
  const auto zero_point = static_cast<double>(qparams.zero_point.item<int64_t>());
  return {-zero_point * scale, (255 - zero_point) * scale};
}

/// The squared error of rounding plus four times that of clipping, as MSEObserver's documentation has it.
double weighted_error(const at::Tensor& values, const tsq::QParams& qparams) {
  const double scale = qparams.scale.item<float>();
  const auto zero_point = static_cast<double>(qparams.zero_point.item<int64_t>());
  const at::Tensor codes = (values.to(at::kDouble) / scale).round() + zero_point;
  const at::Tensor kept = codes.clamp(0, 255);
  const at::Tensor error = (values - (kept - zero_point) * scale).square();
  return at::where(codes == kept, error, error * 4).sum().item<double>();
}

ObserverSpec named(const std::string& observer) { return {.observer = observer}; }

TEST(MSEObserver, NoOtherObserverHasALessError) {
  for (const auto& [name, values] : distributions()) {
    const double error = weighted_error(values, tsq::observe_once(named("MSEObserver"), values));
    for (const char* other :
         {"MinMaxObserver", "HistogramObserver", "PercentileObserver", "EntropyObserver"}) {
      EXPECT_LE(error, 1.03 * weighted_error(values, tsq::observe_once(named(other), values)) + 1e-9)
          << name << ", " << other;
    }
  }
}

TEST(MSEObserver, ASpikeAtTheEndOfTheRangeIsTakenForOneValue) {
  // Nine of ten values are what a clamp returns: the ends of the range must not move away from them.
  at::manual_seed(22);
  const at::Tensor values = (at::randn({100000}) * 20).clamp(-1, 6);
  const Range range = range_of(tsq::observe_once(named("MSEObserver"), values));
  EXPECT_NEAR(range.highest, 6, 0.03);
  EXPECT_NEAR(range.lowest, -1, 0.03);
}

TEST(MSEObserver, BytesHalfwayBetweenTwoCodesAreSpreadOverThem) {
  // ToTensor and Normalize(0.5, 0.5) return images of -1 to 1: with these ends each byte would be off by half
  // a step.
  at::manual_seed(23);
  const at::Tensor bytes = (at::randint(0, 256, {100000}).to(at::kFloat) - 127.5F) / 127.5F;
  const double rounding = std::pow(2.0 / 255, 2) / 12;
  const tsq::QParams qparams = tsq::observe_once(named("MSEObserver"), bytes);
  EXPECT_LT(weighted_error(bytes, qparams) / 100000, 1.1 * rounding);
  EXPECT_GT(weighted_error(bytes, tsq::observe_once(named("MinMaxObserver"), bytes)) / 100000, 2 * rounding);
}

TEST(PercentileObserver, KeepsTheShareOfTheValuesThatItIsTold) {
  for (const auto& [name, values] : distributions()) {
    const at::Tensor sorted = std::get<0>(values.to(at::kFloat).sort());
    const double bin = (sorted[-1] - sorted[0]).item<double>() / 2048;
    for (const double percentile : {99.0, 99.9, 99.99}) {
      const auto outside = static_cast<int64_t>(static_cast<double>(values.numel()) * (1 - percentile / 100));
      const double lowest = std::min(0.0, sorted[outside].item<double>());
      const double highest = std::max(0.0, sorted[values.numel() - 1 - outside].item<double>());
      const Range range =
          range_of(tsq::observe_once({.observer = "PercentileObserver", .percentile = percentile}, values));
      const double step = (highest - lowest) / 255;
      EXPECT_NEAR(range.lowest, lowest, bin + step) << name << " " << percentile;
      EXPECT_NEAR(range.highest, highest, bin + step) << name << " " << percentile;
    }
  }
}

TEST(PercentileObserver, WithoutATailItIsMinMaxObserver) {
  at::manual_seed(23);
  const at::Tensor values = at::randn({1000});
  const tsq::QParams all = tsq::observe_once({.observer = "PercentileObserver", .percentile = 100.0}, values);
  const tsq::QParams min_max = tsq::observe_once(named("MinMaxObserver"), values);
  EXPECT_TRUE(at::allclose(all.scale, min_max.scale, 1e-5));
  EXPECT_TRUE(at::equal(all.zero_point, min_max.zero_point));
}

/// KL divergence of `counts` clipped at bin `end` from its `levels` steps: the calibrator's description, word
/// for word.
double divergence(const std::vector<double>& counts, std::size_t end, std::size_t levels) {
  std::vector<double> reference(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(end));
  std::vector<double> candidate(end, 0.0);
  for (std::size_t level = 0; level < levels; ++level) {
    const std::size_t first = level * end / levels;
    const std::size_t stop = (level + 1) * end / levels;
    double sum = 0;
    double filled = 0;
    for (std::size_t i = first; i < stop; ++i) {
      sum += reference[i];
      filled += reference[i] != 0 ? 1 : 0;
    }
    for (std::size_t i = first; i < stop; ++i) candidate[i] = reference[i] != 0 ? sum / filled : 0;
  }
  for (std::size_t i = end; i < counts.size(); ++i) reference[end - 1] += counts[i];
  double total = 0;
  double candidate_total = 0;
  for (std::size_t i = 0; i < end; ++i) {
    total += reference[i];
    candidate_total += candidate[i];
  }
  double result = 0;
  for (std::size_t i = 0; i < end; ++i) {
    if (reference[i] == 0) continue;
    const double p = reference[i] / total;
    const double q = candidate[i] == 0 ? 1e-4 / static_cast<double>(end) : candidate[i] / candidate_total;
    result += p * std::log(p / q);
  }
  return result;
}

TEST(EntropyObserver, ChoosesTheThresholdOfTheLeastDivergence) {
  at::manual_seed(24);
  const at::Tensor exponential = -at::log(at::rand({200000}) + 1e-6);
  const at::Tensor half_normal = at::randn({200000}).abs();
  for (at::Tensor values : {exponential, half_normal, half_normal.clamp_min(0.5) - 0.5}) {
    values[0] = 0;  // the histogram begins at zero
    const double largest = values.max().item<double>();
    const at::Tensor histogram = at::histc(values, 2048, 0, largest).to(at::kDouble).contiguous();
    std::vector<double> counts(histogram.const_data_ptr<double>(), histogram.const_data_ptr<double>() + 2048);
    counts[0] = counts[1];
    double least = std::numeric_limits<double>::infinity();
    std::size_t best = 0;
    for (std::size_t end = 2048; end >= 256; end -= 8) {
      const double found = divergence(counts, end, 256);
      if (found >= least) continue;
      least = found;
      best = end;
    }
    const double threshold = largest * static_cast<double>(best) / 2048;
    const Range range = range_of(tsq::observe_once(named("EntropyObserver"), values));
    EXPECT_NEAR(range.highest, threshold, 1e-4 * threshold);
    EXPECT_EQ(range.lowest, 0);
  }
}

TEST(EntropyObserver, CutsOutliersOffOnBothSides) {
  at::manual_seed(25);
  const at::Tensor values = at::randn({100000});
  values[0] = 40;
  values[1] = -40;
  const Range range = range_of(tsq::observe_once(named("EntropyObserver"), values));
  EXPECT_LT(range.highest, 10);
  EXPECT_GT(range.lowest, -10);
  EXPECT_GT(range.highest, 2.5);
}

TEST(Observers, OfHistogramsCountInAnyOrderAndMerge) {
  at::manual_seed(26);
  const at::Tensor small = at::randn({5000});
  const at::Tensor large = at::randn({5000}) * 3;
  for (const char* name : {"MSEObserver", "PercentileObserver", "EntropyObserver"}) {
    torch::jit::Module one = tsq::make_observer(named(name));
    torch::jit::Module other = tsq::make_observer(named(name));
    torch::jit::Module both = tsq::make_observer(named(name));
    one.forward({small});
    other.forward({large});
    both.forward({large});
    both.forward({small});
    tsq::merge_observer(one, other);
    EXPECT_TRUE(at::allclose(tsq::calculate_qparams(one).scale, tsq::calculate_qparams(both).scale, 0.02))
        << name;
  }
}

TEST(RoundingNoise, IsTheSquaredErrorOfTheCodesBesideTheSquares) {
  for (const Distribution& distribution : distributions()) {
    const bool is_smooth =
        distribution.name == "normal" || distribution.name == "uniform" || distribution.name == "exponential";
    if (!is_smooth) continue;  // the places of spikes inside of their bins are not known
    torch::jit::Module observer = tsq::make_observer(named("MSEObserver"));
    observer.forward({distribution.values});
    const auto qparams = tsq::calculate_qparams(observer);
    const double scale = qparams.scale.item<float>();
    const double zero_point = qparams.zero_point.item<double>();
    const at::Tensor codes = ((distribution.values / scale).round() + zero_point).clamp(0, 255);
    const at::Tensor error = distribution.values - (codes - zero_point) * scale;
    const double share = (error.square().sum() / distribution.values.square().sum()).item<double>();
    const tsq::RoundingNoise noise = tsq::rounding_noise(observer, qparams).value();
    EXPECT_NEAR(noise.share() / share, 1, 0.15) << distribution.name;
    EXPECT_NEAR(noise.square / distribution.values.square().mean().item<double>(), 1, 0.01)
        << distribution.name;
  }
}

TEST(RoundingNoise, IsThatOfTheDtypesCodes) {
  torch::jit::Module observer = tsq::make_observer(named("HistogramObserver"));
  observer.forward({at::randn({10'000})});
  tsq::QParams qparams = tsq::calculate_qparams(observer);
  const double bytes = tsq::rounding_noise(observer, qparams).value().squared_error;
  qparams.zero_point = qparams.zero_point - 128;
  qparams.dtype = c10::ScalarType::QInt8;
  EXPECT_NEAR(tsq::rounding_noise(observer, qparams).value().squared_error, bytes, 1e-12);
  qparams.dtype = c10::ScalarType::QInt32;
  EXPECT_FALSE(tsq::rounding_noise(observer, qparams));
}

TEST(RoundingNoise, IsNotKnownWhereNothingIsCounted) {
  torch::jit::Module counts_nothing = tsq::make_observer(named("MinMaxObserver"));
  counts_nothing.forward({at::randn({100})});
  EXPECT_FALSE(tsq::counts_values(counts_nothing));
  EXPECT_FALSE(tsq::rounding_noise(counts_nothing, tsq::calculate_qparams(counts_nothing)));
  EXPECT_FALSE(tsq::counts_values(tsq::make_observer(named("MSEObserver"))));
}

}  // namespace range_choice_test
