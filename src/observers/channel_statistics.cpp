#include <ATen/ATen.h>

#include "config/names/observer_classes.h"
#include "observers/compiled_channels.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// Mean, mean square, smallest and largest value of each channel along ch_axis over all finite values seen; a
/// channel without any counts as zeros. The state starts empty and takes the number of channels from the
/// first tensor; where another has a different number, or no such axis, it is no axis of channels, and
/// nothing is known. Of sizes the largest of each dimension is kept, of the tensors with the most dimensions:
/// the order of the samples must not change the model. Means are those of some positions, evenly spread: of n
/// independent values, within 1 / sqrt(n) of their deviation.
constexpr const char* kChannelStatisticsSource = R"(
def _spread(self, x: Tensor, others: List[int]) -> Tensor:
    values = x.numel() // x.size(self.ch_axis)
    while len(others) != 0 and values > self.most:
        longest = others[0]
        for i in others:
            if x.size(i) >= x.size(longest):
                longest = i
        values = values // x.size(longest)
        x = torch.slice(x, longest, 0, 9223372036854775807, 3)
        values = values * x.size(longest)
    return x

def _statistics(self, x: Tensor, some: Tensor, others: List[int]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    if len(others) == 0:
        return x, x * x, x, x
    mean_square = torch.mean(some * some, others)
    return torch.mean(some, others), mean_square, torch.amin(x, others), torch.amax(x, others)

def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0 or not x_orig.is_floating_point() or x_orig.dim() == 0:
        return x_orig
    axis = self.ch_axis
    if axis < 0:
        axis = axis + x_orig.dim()
    if axis < 0 or axis >= x_orig.dim() or (self.mean.numel() != 0 and self.mean.numel() != x_orig.size(axis)):
        self.varies = True
        self.mean = torch.empty([0], dtype=self.mean.dtype, device=self.mean.device)
    if self.varies:
        return x_orig
    others: List[int] = []
    for i in range(x_orig.dim()):
        if i != axis:
            others.append(i)
    x = x_orig.detach()
    values = x.numel() // x.size(axis)
    mean, mean_square, smallest, largest = self._statistics(x, self._spread(x, others), others)
    if not bool((largest - smallest < float("inf")).all()):
        finite = self._finite(x)
        values = int(finite.sum()) // x.size(axis)
        if values == 0:
            return x_orig
        ones = finite.to(x.dtype)
        share = self._statistics(ones, ones, others)[0]
        unknown = share == 0
        share = share.masked_fill(unknown, 1.0)
        left_out = torch.logical_not(finite)
        zeros = x.masked_fill(left_out, 0.0)
        above = x.masked_fill(left_out, float("inf"))
        below = x.masked_fill(left_out, -float("inf"))
        mean, mean_square, _, _ = self._statistics(zeros, zeros, others)
        mean = mean / share
        mean_square = mean_square / share
        smallest = self._statistics(above, above, others)[2].masked_fill(unknown, 0.0)
        largest = self._statistics(below, below, others)[3].masked_fill(unknown, 0.0)
    mean = mean.to(self.mean.dtype)
    mean_square = mean_square.to(self.mean.dtype)
    smallest = smallest.to(self.min_val.dtype)
    largest = largest.to(self.min_val.dtype)
    if self.mean.numel() != 0:
        share = float(values) / float(self.values + values)
        mean = self.mean + (mean - self.mean) * share
        mean_square = self.mean_square + (mean_square - self.mean_square) * share
        smallest = torch.min(smallest, self.min_val)
        largest = torch.max(largest, self.max_val)
    self.mean = mean
    self.mean_square = mean_square
    self.min_val = smallest
    self.max_val = largest
    self.values = self.values + values
    sizes = torch.tensor(x_orig.size())
    known = self.sizes.cpu()
    if known.numel() > sizes.numel():
        sizes = known
    elif known.numel() == sizes.numel():
        sizes = torch.max(sizes, known)
    self.sizes = sizes
    return x_orig
)";

/// Values of a channel of one tensor that are enough for its mean.
constexpr int64_t kEnoughValues = 4096;

ObserverState channel_statistics_state(const ResolvedObserver& config) {
  return {{"ch_axis", config.ch_axis},
          {"most", kEnoughValues},
          {"values", int64_t{0}},
          {"varies", false},
          {"mean", at::empty({0}, at::kDouble)},
          {"mean_square", at::empty({0}, at::kDouble)},
          {"min_val", at::empty({0}, at::kFloat)},
          {"max_val", at::empty({0}, at::kFloat)},
          {"sizes", at::empty({0}, at::kLong)}};
}

bool saw_channel_statistics(const torch::jit::Module& observer) {
  return observer.attr("mean").toTensor().numel() != 0;
}

/// As the observer does it for the next tensor.
at::Tensor largest_sizes(const at::Tensor& one, const at::Tensor& other) {
  if (one.numel() != other.numel()) return (one.numel() > other.numel() ? one : other).clone();
  return at::max(one, other);
}

void merge_channel_statistics(torch::jit::Module& into, const torch::jit::Module& from) {
  const auto before = [&](const char* name) { return into.attr(name).toTensor(); };
  const auto added = [&](const char* name) { return from.attr(name).toTensor(); };
  const bool is_first = !saw_channel_statistics(into);
  const bool varies =
      into.attr("varies").toBool() || from.attr("varies").toBool() ||
      (!is_first && saw_channel_statistics(from) && before("mean").sizes() != added("mean").sizes());
  if (varies) {
    into.setattr("varies", true);
    into.setattr("mean", at::empty({0}, at::kDouble));
  }
  if (varies || !saw_channel_statistics(from)) return;
  const int64_t values = into.attr("values").toInt();
  const int64_t added_values = from.attr("values").toInt();
  const double share = static_cast<double>(added_values) / static_cast<double>(values + added_values);
  for (const char* name : {"mean", "mean_square"}) {
    into.setattr(name, is_first ? added(name).clone() : before(name) + (added(name) - before(name)) * share);
  }
  into.setattr("min_val", is_first ? added("min_val").clone() : at::min(before("min_val"), added("min_val")));
  into.setattr("max_val", is_first ? added("max_val").clone() : at::max(before("max_val"), added("max_val")));
  into.setattr("values", values + added_values);
  into.setattr("sizes", largest_sizes(before("sizes"), added("sizes")));
}

}  // namespace

const ObserverKind channel_statistics_observer{.name = observer_classes::kChannelStatistics,
                                               .source = kChannelStatisticsSource,
                                               .state = channel_statistics_state,
                                               .compiled = compiled_channels,
                                               .saw_data = saw_channel_statistics,
                                               .merge = merge_channel_statistics};

}  // namespace tsq
