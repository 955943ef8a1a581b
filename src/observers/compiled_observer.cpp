#include "observers/compiled_observer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "observers/observer_class.h"

namespace tsq {
namespace {

float number_in(const at::Tensor& buffer) { return *buffer.const_data_ptr<float>(); }

using Choose = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
/// Of two zeros, or where one is NaN, LibTorch's kernel says which it is.
float chosen(float one, float other, float less, Choose choose) {
  if (one != other && !std::isnan(one) && !std::isnan(other)) return less;
  if (one == other && std::signbit(one) == std::signbit(other)) return one;
  return number_in(choose(at::scalar_tensor(one, at::kFloat), at::scalar_tensor(other, at::kFloat)));
}

at::Tensor smaller(const at::Tensor& one, const at::Tensor& other) { return at::min(one, other); }
at::Tensor larger(const at::Tensor& one, const at::Tensor& other) { return at::max(one, other); }

}  // namespace

CompiledObserver::CompiledObserver(const torch::jit::Module& observer)
    : module_(observer),
      saw_other_dtype_(observer.type()->getAttributeSlot(kSawOtherDtype)),
      ranks_(observer.type()->getAttributeSlot(kRanks)) {}

void CompiledObserver::observe(const at::Tensor& x) {
  if (observe_values(x)) {
    take_note_of(x);
  } else {
    module_.forward({x});
  }
}

void CompiledObserver::take_note_of(const at::Tensor& x) {
  c10::ivalue::Object& object = *module_._ivalue();
  if (x.scalar_type() != at::kFloat) object.setSlot(saw_other_dtype_, true);
  const std::int64_t ranks = object.getSlot(ranks_).toInt();
  const std::int64_t rank = std::int64_t{1} << x.dim();
  if ((ranks & rank) == 0) object.setSlot(ranks_, ranks | rank);
}

std::optional<Extremes> finite_extremes(const at::Tensor& x) {
  const auto [lowest, highest] = at::aminmax(x);
  const Extremes extremes{.lowest = number_in(lowest), .highest = number_in(highest)};
  return std::isfinite(extremes.highest - extremes.lowest) ? std::optional(extremes) : std::nullopt;
}

Extremes joined(const Extremes& one, const Extremes& other) {
  return {.lowest = chosen(one.lowest, other.lowest, std::min(one.lowest, other.lowest), smaller),
          .highest = chosen(one.highest, other.highest, std::max(one.highest, other.highest), larger)};
}

bool is_plain_buffer(const at::Tensor& buffer) {
  return buffer.scalar_type() == at::kFloat && buffer.is_cpu() && buffer.is_contiguous();
}

RangeBuffers::RangeBuffers(at::Tensor min_val, at::Tensor max_val)
    : min_val_(std::move(min_val)), max_val_(std::move(max_val)) {}

std::optional<RangeBuffers> RangeBuffers::of(const torch::jit::Module& observer) {
  at::Tensor min_val = observer.attr("min_val").toTensor();
  at::Tensor max_val = observer.attr("max_val").toTensor();
  const auto is_number = [](const at::Tensor& buffer) {
    return is_plain_buffer(buffer) && buffer.numel() == 1;
  };
  if (!is_number(min_val) || !is_number(max_val)) return std::nullopt;
  return RangeBuffers(std::move(min_val), std::move(max_val));
}

Extremes RangeBuffers::get() const { return {.lowest = number_in(min_val_), .highest = number_in(max_val_)}; }

void RangeBuffers::set(const Extremes& extremes) const {
  *min_val_.mutable_data_ptr<float>() = extremes.lowest;
  *max_val_.mutable_data_ptr<float>() = extremes.highest;
}

}  // namespace tsq
