#pragma once

#include <tsq/qconfig.h>

namespace tsq {

/// Calls `visit` with the name and the value of each argument that an observer's constructor may be given.
template <typename Spec, typename Visit>
void visit_arguments(Spec& spec, const Visit& visit) {
  visit("dtype", spec.dtype);
  visit("qscheme", spec.qscheme);
  visit("reduce_range", spec.reduce_range);
  visit("quant_min", spec.quant_min);
  visit("quant_max", spec.quant_max);
  visit("eps", spec.eps);
  visit("averaging_constant", spec.averaging_constant);
  visit("ch_axis", spec.ch_axis);
  visit("is_dynamic", spec.is_dynamic);
  visit("group_size", spec.group_size);
  visit("bins", spec.bins);
  visit("percentile", spec.percentile);
  visit("use_grad_scaling", spec.use_grad_scaling);
  visit("scale", spec.scale);
  visit("zero_point", spec.zero_point);
}

}  // namespace tsq
