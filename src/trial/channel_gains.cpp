#include "trial/channel_gains.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "outputs/output_power.h"

namespace tsq::detail {
namespace {

constexpr double kLeast = std::numeric_limits<double>::min();
constexpr double kScatter = 0.05;  // rounding moves gains by some percent

/// Σ over a row's or column's numbers of `weight` · `model`, over that of `model`².
at::Tensor fitted(const at::Tensor& weight, const at::Tensor& model, at::IntArrayRef others) {
  return (weight * model).sum(others, true) / model.square().sum(others, true).clamp_min(kLeast);
}

/// [rows, columns, positions].
at::Tensor as_volume(const at::Tensor& weight) {
  return weight.reshape({weight.size(0), weight.size(1), -1});
}

}  // namespace

ColumnGains column_gains(const at::Tensor& weight, const at::Tensor& exact) {
  constexpr int kSteps = 4;  // of alternating least squares, which start near the end
  const at::Tensor w = as_volume(weight);
  const at::Tensor x = as_volume(exact);
  at::Tensor columns = at::ones({1, w.size(1), 1}, w.options());
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor rows = fitted(w, x * columns, {1, 2});
    columns = fitted(w, x * rows, {0, 2});
  }
  const at::Tensor rows = fitted(w, x * columns, {1, 2}).clamp_min(kLeast).log();
  const bool is_absolute = rows.std(/*unbiased=*/false).item<double>() < kScatter;
  if (is_absolute) columns = columns * std::exp(rows.mean().item<double>());
  return {.of_channel = columns.flatten(),
          .is_absolute = is_absolute,
          .of_all = (w * x).sum().item<double>() / std::max(kLeast, x.square().sum().item<double>()),
          .is_convolution = weight.dim() > 2};
}

double weight_sqnr(const at::Tensor& weight, const at::Tensor& exact, const ColumnGains& columns) {
  const at::Tensor w = as_volume(weight);
  at::Tensor model = as_volume(exact);
  if (columns.of_channel.defined()) model = model * columns.of_channel.reshape({1, -1, 1});
  model = model * fitted(w, model, {1, 2});
  return decibels(model.square().sum().item<double>(), (w - model).square().sum().item<double>());
}

void ValueGains::add(const at::Tensor& wanted, const at::Tensor& got, int64_t axis, Moments& sums) {
  std::vector<int64_t> others;
  for (int64_t i = 0; i < wanted.dim(); ++i) {
    if (i != axis) others.push_back(i);
  }
  const at::Tensor x = wanted.to(at::kDouble);
  const at::Tensor y = got.to(at::kDouble);
  const Moments more{
      .both = (x * y).sum(others), .wanted = x.square().sum(others), .got = y.square().sum(others)};
  if (sums.both.defined() && sums.both.sizes() != more.both.sizes()) return;
  sums = sums.both.defined() ? Moments{.both = sums.both + more.both,
                                       .wanted = sums.wanted + more.wanted,
                                       .got = sums.got + more.got}
                             : more;
}

void ValueGains::add(const at::Tensor& wanted, const at::Tensor& got) {
  if (wanted.dim() > 2) add(wanted, got, 1, second_);
  if (wanted.dim() > 1) add(wanted, got, wanted.dim() - 1, last_);
}

bool ValueGains::are_taken_back_by(const ColumnGains& columns) const {
  const Moments& sums = moments_for(columns);
  if (!sums.both.defined() || sums.both.sizes() != columns.of_channel.sizes()) return false;
  constexpr double kExplained = 0.25;  // of the variance may be left
  const double of_all = sums.both.sum().item<double>() / std::max(kLeast, sums.wanted.sum().item<double>());
  if (std::abs(std::log(of_all)) > kScatter && std::abs(std::log(of_all * columns.of_all)) < kScatter)
    return true;
  const at::Tensor gains = sums.both / sums.wanted.clamp_min(kLeast);
  const at::Tensor counts = gains.gt(0) & columns.of_channel.gt(0);
  if (counts.sum().item<int64_t>() < 2) return false;
  const at::Tensor of_values = gains.masked_select(counts).log();
  const at::Tensor of_both = of_values + columns.of_channel.masked_select(counts).log();
  const double scatter = of_values.var().item<double>();
  return scatter > kScatter * kScatter && of_both.var().item<double>() < kExplained * scatter;
}

at::Tensor ValueGains::factors(const ColumnGains& columns) const {
  const Moments& sums = moments_for(columns);
  const at::Tensor counts = sums.both.gt(0) & columns.of_channel.gt(0);
  const at::Tensor gains =
      at::where(sums.both.gt(0), sums.both / sums.wanted.clamp_min(kLeast), at::ones_like(sums.both));
  if (!columns.is_absolute || !counts.any().item<bool>()) return gains;
  const double left = (gains * columns.of_channel).masked_select(counts).log().mean().item<double>();
  return gains / std::exp(left);
}

double ValueGains::of_all() const {
  if (!last_.both.defined()) return 1;
  const double gain = last_.both.sum().item<double>() / std::max(kLeast, last_.wanted.sum().item<double>());
  return gain > 0 && std::abs(std::log(gain)) > kScatter ? gain : 1;
}

bool ValueGains::are_made_up_for_by(const ValueGains& reader, const ValueGains& reader_alone,
                                    const ColumnGains& own) const {
  const double gain = of_all();
  if (gain == 1 || reader.of_all() != 1) return false;
  return std::abs(std::log(own.of_all / gain)) < kScatter ||
         std::abs(std::log(gain * reader_alone.of_all())) < kScatter;
}

double ValueGains::sqnr_db_without(const Moments& sums, const at::Tensor& gains) {
  const at::Tensor error = sums.got / gains.square() - 2 * sums.both / gains + sums.wanted;
  return decibels(sums.wanted.sum().item<double>(), error.clamp_min(0).sum().item<double>());
}

double ValueGains::sqnr_db() const { return sqnr_db_without(last_, at::full_like(last_.both, of_all())); }

double ValueGains::sqnr_db(const ColumnGains& columns) const {
  return sqnr_db_without(moments_for(columns), factors(columns));
}

}  // namespace tsq::detail
