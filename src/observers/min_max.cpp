#include <ATen/ATen.h>

#include <utility>

#include "config/names/observer_classes.h"
#include "observers/compiled_observer.h"
#include "observers/observer_kind.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

/// MinMaxObserver.forward (M-09), but that what is not finite is left out. Empty tensors are skipped.
constexpr const char* kMinMaxSource = R"(
def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0:
        return x_orig
    x = x_orig.detach().to(self.min_val.dtype)
    min_val_cur, max_val_cur = torch.aminmax(x)
    if not bool(torch.isfinite(max_val_cur - min_val_cur)):
        x = torch.masked_select(x, self._finite(x))
        if x.numel() == 0:
            return x_orig
        min_val_cur, max_val_cur = torch.aminmax(x)
    self.min_val.copy_(torch.min(min_val_cur, self.min_val))
    self.max_val.copy_(torch.max(max_val_cur, self.max_val))
    return x_orig
)";

/// MovingAverageMinMaxObserver.forward (M-10). `batches` is tsq's own: the weight of this observer in a
/// merge.
constexpr const char* kMovingAverageSource = R"(
def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0:
        return x_orig
    x = x_orig.detach().to(self.min_val.dtype)
    min_val = self.min_val
    max_val = self.max_val
    min_val_cur, max_val_cur = torch.aminmax(x)
    if not bool(torch.isfinite(max_val_cur - min_val_cur)):
        x = torch.masked_select(x, self._finite(x))
        if x.numel() == 0:
            return x_orig
        min_val_cur, max_val_cur = torch.aminmax(x)
    if bool(min_val == float("inf")) and bool(max_val == float("-inf")):
        min_val, max_val = min_val_cur, max_val_cur
    else:
        min_val = min_val + self.averaging_constant * (min_val_cur - min_val)
        max_val = max_val + self.averaging_constant * (max_val_cur - max_val)
    self.min_val.copy_(min_val)
    self.max_val.copy_(max_val)
    self.batches = self.batches + 1
    return x_orig
)";

ObserverState min_max_state(const ResolvedObserver& config) {
  return uniform_state(uniform_config(config),
                       {{"min_val", minimum_of_nothing()}, {"max_val", maximum_of_nothing()}});
}

ObserverState moving_average_state(const ResolvedObserver& config) {
  return uniform_state(uniform_config(config), {{"averaging_constant", config.averaging_constant},
                                                {"batches", int64_t{0}},
                                                {"min_val", minimum_of_nothing()},
                                                {"max_val", maximum_of_nothing()}});
}

QParams calculate_min_max(const torch::jit::Module& observer) {
  return qparams_of_range(uniform_config(observer), observer.attr("min_val").toTensor(),
                          observer.attr("max_val").toTensor());
}

/// One tensor is its own average too.
QParams observe_min_max(const ResolvedObserver& config, const at::Tensor& tensor) {
  const at::Tensor values = finite_values(tensor.to(at::kFloat));
  if (values.numel() == 0) {
    return qparams_of_range(uniform_config(config), minimum_of_nothing(), maximum_of_nothing());
  }
  const auto [min_val, max_val] = at::aminmax(values);
  return qparams_of_range(uniform_config(config), at::min(min_val, minimum_of_nothing()),
                          at::max(max_val, maximum_of_nothing()));
}

class CompiledMinMax final : public CompiledObserver {
 public:
  CompiledMinMax(const torch::jit::Module& observer, RangeBuffers range)
      : CompiledObserver(observer), range_(std::move(range)) {}

 private:
  bool observe_values(const at::Tensor& x) override {
    if (x.numel() == 0) return true;
    const auto extremes = finite_extremes(x.detach().to(at::kFloat));
    if (extremes) range_.set(joined(*extremes, range_.get()));
    return extremes.has_value();
  }

  RangeBuffers range_;
};

std::unique_ptr<CompiledObserver> compiled_min_max(const torch::jit::Module& observer) {
  auto range = RangeBuffers::of(observer);
  return range ? std::make_unique<CompiledMinMax>(observer, *std::move(range)) : nullptr;
}

void merge_min_max(torch::jit::Module& into, const torch::jit::Module& from) {
  const at::Tensor min_val = into.attr("min_val").toTensor();
  const at::Tensor max_val = into.attr("max_val").toTensor();
  min_val.copy_(at::min(min_val, from.attr("min_val").toTensor()));
  max_val.copy_(at::max(max_val, from.attr("max_val").toTensor()));
}

void merge_moving_average(torch::jit::Module& into, const torch::jit::Module& from) {
  const int64_t before = into.attr("batches").toInt();
  const int64_t added = from.attr("batches").toInt();
  if (added == 0) {
    return;
  }
  for (const char* name : {"min_val", "max_val"}) {
    const at::Tensor state = into.attr(name).toTensor();
    const at::Tensor other = from.attr(name).toTensor();
    const double weight = static_cast<double>(added) / static_cast<double>(before + added);
    state.copy_(before == 0 ? other : at::lerp(state, other, weight));
  }
  into.setattr("batches", before + added);
}

}  // namespace

const ObserverKind min_max_observer{.name = observer_classes::kMinMax,
                                    .source = kMinMaxSource,
                                    .state = min_max_state,
                                    .calculate_qparams = calculate_min_max,
                                    .observe_once = observe_min_max,
                                    .compiled = compiled_min_max,
                                    .saw_data = saw_range,
                                    .merge = merge_min_max};

const ObserverKind moving_average_min_max_observer{.name = observer_classes::kMovingAverageMinMax,
                                                   .source = kMovingAverageSource,
                                                   .state = moving_average_state,
                                                   .calculate_qparams = calculate_min_max,
                                                   .observe_once = observe_min_max,
                                                   .saw_data = saw_range,
                                                   .merge = merge_moving_average};

}  // namespace tsq
