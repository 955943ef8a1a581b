#include "outputs/output_power.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <tsq/agreement.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tsq::detail {
namespace {

/// Float has 24 bits. What varies in the last four of them alone, sums of other order do as well.
constexpr double kConstant = 0x1p-40;  // of the power

at::Tensor numbers_of(const at::Tensor& tensor) {
  const at::Tensor real = tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
  return real.detach().to(at::kDouble);
}

/// The elements of a part over which the mean is not taken: of a whole sample, of a row, one.
int64_t elements_of_part(const std::vector<at::Tensor>& samples) {
  const at::Tensor& first = samples.front();
  const auto all = [&](const auto& like_first) { return std::ranges::all_of(samples, like_first); };
  if (samples.size() > 1 && all([&](const at::Tensor& each) { return each.sizes() == first.sizes(); }))
    return first.numel();
  const bool has_rows = all([&](const at::Tensor& each) {
    return each.dim() > 0 && each.dim() == first.dim() && each.sizes().slice(1) == first.sizes().slice(1);
  });
  const int64_t rows = std::accumulate(
      samples.begin(), samples.end(), int64_t{0},
      [](int64_t sum, const at::Tensor& each) { return sum + (each.dim() > 0 ? each.size(0) : 0); });
  return has_rows && rows > 1 ? c10::multiply_integers(first.sizes().slice(1)) : 1;
}

/// A sample as parts, one in each row, with zero where it is not finite.
struct SampleParts {
  at::Tensor values{};
  at::Tensor counts{};  ///< whether a value is finite

  [[nodiscard]] double power() const { return (values * values).sum().item<double>(); }
  [[nodiscard]] double power_around(const at::Tensor& mean) const {
    const at::Tensor rest = at::where(counts, values - mean, at::zeros({}, values.options()));
    return (rest * rest).sum().item<double>();
  }
};

SampleParts parts_of(const at::Tensor& sample, int64_t elements) {
  const at::Tensor values = numbers_of(sample).reshape({-1, elements});
  const at::Tensor counts = at::isfinite(values);
  return {.values = at::where(counts, values, at::zeros({}, values.options())), .counts = counts};
}

}  // namespace

std::vector<double> output_powers(const std::vector<at::Tensor>& of_samples) {
  std::vector<at::Tensor> samples;
  for (const at::Tensor& each : of_samples) samples.push_back(numbers_of(each));
  std::vector<double> plain(samples.size(), 0);
  if (samples.empty() || std::ranges::all_of(samples, [](const auto& each) { return each.numel() == 0; }))
    return plain;
  const int64_t elements = std::max<int64_t>(1, elements_of_part(samples));
  at::Tensor sum = at::zeros({elements}, at::kDouble);
  at::Tensor counts = at::zeros({elements}, at::kDouble);
  int64_t parts = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const SampleParts sample = parts_of(samples[i], elements);
    plain[i] = sample.power();
    sum += sample.values.sum(0);
    counts += sample.counts.sum(0);
    parts += sample.values.size(0);
  }
  if (parts < 2) return plain;
  const at::Tensor mean = sum / counts.clamp_min(1);
  const double free = static_cast<double>(parts) / static_cast<double>(parts - 1);
  std::vector<double> centred;
  for (const at::Tensor& sample : samples)
    centred.push_back(free * parts_of(sample, elements).power_around(mean));
  const auto total = [](const std::vector<double>& powers) {
    return std::accumulate(powers.begin(), powers.end(), 0.0);
  };
  return total(centred) > kConstant * total(plain) ? centred : plain;
}

double decibels(double power, double error) {
  if (error == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(power / error);
}

}  // namespace tsq::detail

namespace tsq {

void OutputPower::Parts::add(const at::Tensor& values, const at::Tensor& counted, at::IntArrayRef part) {
  are_alike = are_alike && (number == 0 || at::IntArrayRef(sizes) == part);
  if (!are_alike) return;
  sizes = part.vec();
  const int64_t elements = std::max<int64_t>(1, c10::multiply_integers(part));
  const at::Tensor parts = values.reshape({-1, elements});
  if (number == 0) {
    sum = at::zeros({elements}, at::kDouble);
    counts = at::zeros({elements}, at::kDouble);
  }
  sum += parts.sum(0);
  counts += counted.reshape({-1, elements}).sum(0);
  number += parts.size(0);
}

double OutputPower::Parts::centred(double plain) const {
  const double of_mean = (sum * sum / counts.clamp_min(1)).sum().item<double>();
  return static_cast<double>(number) / static_cast<double>(number - 1) * (plain - of_mean);
}

void OutputPower::add(const at::Tensor& sample) {
  if (sample.numel() == 0) return;
  const at::Tensor numbers = detail::numbers_of(sample);
  const at::Tensor counted = at::isfinite(numbers);
  const at::Tensor values = at::where(counted, numbers, at::zeros({}, numbers.options()));
  ++samples_;
  plain_ += (values * values).sum().item<double>();
  of_samples_.add(values, counted, numbers.sizes());
  of_rows_.are_alike = of_rows_.are_alike && numbers.dim() > 0;
  of_rows_.add(values, counted, numbers.sizes().slice(std::min<std::size_t>(1, numbers.sizes().size())));
  of_elements_.add(values, counted, {});
}

double OutputPower::power() const {
  const Parts& parts = samples_ > 1 && of_samples_.are_alike       ? of_samples_
                       : of_rows_.are_alike && of_rows_.number > 1 ? of_rows_
                                                                   : of_elements_;
  if (parts.number < 2) return plain_;
  const double centred = parts.centred(plain_);
  return centred > detail::kConstant * plain_ ? centred : plain_;
}

}  // namespace tsq
