#include "observers/compiled_channels.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace tsq {
namespace {

using torch::jit::Module;

/// Every third position along the longest dimension, until a channel has few values.
at::Tensor spread(at::Tensor x, int64_t axis, int64_t most, const std::vector<int64_t>& others) {
  int64_t values = x.numel() / x.size(axis);
  while (values > most) {
    int64_t longest = others.front();
    for (const int64_t i : others) {
      if (x.size(i) >= x.size(longest)) longest = i;
    }
    values = values / x.size(longest);
    x = x.slice(longest, 0, std::nullopt, 3);
    values = values * x.size(longest);
  }
  return x;
}

/// What one tensor tells of its channels.
struct Channels {
  at::Tensor mean{};
  at::Tensor mean_square{};
  at::Tensor smallest{};
  at::Tensor largest{};
};

Channels channels_of(const at::Tensor& x, const at::Tensor& some, const std::vector<int64_t>& others) {
  return {.mean = at::mean(some, others),
          .mean_square = at::mean(some * some, others),
          .smallest = at::amin(x, others),
          .largest = at::amax(x, others)};
}

bool are_finite(const Channels& channels) {
  const auto* smallest = channels.smallest.const_data_ptr<float>();
  const auto* largest = channels.largest.const_data_ptr<float>();
  for (int64_t i = 0; i < channels.smallest.numel(); ++i) {
    if (!(largest[i] - smallest[i] < std::numeric_limits<float>::infinity())) return false;
  }
  return true;
}

/// A running mean with a new one of which it takes a share.
at::Tensor running_mean(const at::Tensor& known, const at::Tensor& added, double share) {
  at::Tensor result = at::empty_like(known);
  const auto* before = known.const_data_ptr<double>();
  const auto* own = added.const_data_ptr<float>();
  auto* mean = result.mutable_data_ptr<double>();
  for (int64_t i = 0; i < known.numel(); ++i)
    mean[i] = before[i] + (static_cast<double>(own[i]) - before[i]) * share;
  return result;
}

class CompiledChannels final : public CompiledObserver {
 public:
  explicit CompiledChannels(const Module& observer)
      : CompiledObserver(observer),
        axis_(observer.attr("ch_axis").toInt()),
        most_(observer.attr("most").toInt()),
        varies_(slot("varies")),
        values_(slot("values")),
        mean_(slot("mean")),
        mean_square_(slot("mean_square")),
        min_val_(slot("min_val")),
        max_val_(slot("max_val")),
        sizes_(slot("sizes")) {}

 private:
  bool observe_values(const at::Tensor& x_orig) override {
    if (x_orig.numel() == 0 || !x_orig.is_floating_point() || x_orig.dim() == 0) return true;
    const int64_t axis = axis_ < 0 ? axis_ + x_orig.dim() : axis_;
    const at::Tensor known = tensor(mean_);
    const bool has_axis = axis >= 0 && axis < x_orig.dim();
    if (!has_axis || (known.numel() != 0 && known.numel() != x_orig.size(axis))) return false;
    if (get(varies_).toBool()) return true;
    if (x_orig.scalar_type() != at::kFloat || !x_orig.is_cpu() || x_orig.dim() < 2 || !are_plain())
      return false;
    std::vector<int64_t> others;
    for (int64_t i = 0; i < x_orig.dim(); ++i) {
      if (i != axis) others.push_back(i);
    }
    const at::Tensor x = x_orig.detach();
    const Channels seen = channels_of(x, spread(x, axis, most_, others), others);
    if (!are_finite(seen)) return false;
    add(seen, x.numel() / x.size(axis), known.numel() == 0);
    add_sizes(x);
    return true;
  }

  void add(const Channels& seen, int64_t values, bool is_first) {
    const int64_t before = get(values_).toInt();
    const double share = static_cast<double>(values) / static_cast<double>(before + values);
    const auto add_mean = [&](std::size_t slot, const at::Tensor& mean) {
      set(slot, is_first ? mean.to(at::kDouble) : running_mean(tensor(slot), mean, share));
    };
    add_mean(mean_, seen.mean);
    add_mean(mean_square_, seen.mean_square);
    set(min_val_, is_first ? seen.smallest : at::min(seen.smallest, tensor(min_val_)));
    set(max_val_, is_first ? seen.largest : at::max(seen.largest, tensor(max_val_)));
    set(values_, before + values);
  }

  void add_sizes(const at::Tensor& x) {
    const at::Tensor known = tensor(sizes_);
    std::vector<int64_t> sizes = x.sizes().vec();
    if (known.numel() > x.dim()) return;
    if (known.numel() == x.dim()) {
      const auto* largest = known.const_data_ptr<int64_t>();
      for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = std::max(sizes[i], largest[i]);
      if (std::equal(sizes.begin(), sizes.end(), largest)) return;
    }
    set(sizes_, at::tensor(sizes, at::kLong));
  }

  [[nodiscard]] bool are_plain() const {
    const auto is_plain = [&](std::size_t slot, at::ScalarType dtype) {
      const at::Tensor state = tensor(slot);
      return state.scalar_type() == dtype && state.is_cpu() && state.is_contiguous();
    };
    return is_plain(mean_, at::kDouble) && is_plain(mean_square_, at::kDouble) &&
           is_plain(min_val_, at::kFloat) && is_plain(max_val_, at::kFloat) && is_plain(sizes_, at::kLong);
  }

  [[nodiscard]] std::size_t slot(const char* name) const { return module().type()->getAttributeSlot(name); }
  [[nodiscard]] c10::IValue get(std::size_t slot) const { return module()._ivalue()->getSlot(slot); }
  [[nodiscard]] at::Tensor tensor(std::size_t slot) const { return get(slot).toTensor(); }
  void set(std::size_t slot, c10::IValue value) const { module()._ivalue()->setSlot(slot, std::move(value)); }

  int64_t axis_;
  int64_t most_;
  std::size_t varies_;  ///< slots of attributes, as all below
  std::size_t values_;
  std::size_t mean_;
  std::size_t mean_square_;
  std::size_t min_val_;
  std::size_t max_val_;
  std::size_t sizes_;
};

}  // namespace

std::unique_ptr<CompiledObserver> compiled_channels(const Module& observer) {
  return std::make_unique<CompiledChannels>(observer);
}

}  // namespace tsq
