#include <algorithm>
#include <array>

#include "backends/programs/operator_rows.h"
#include "backends/programs/translations.h"

namespace tsq::programs {
namespace {

using runtime::Kind;
using runtime::Operation;

bool max_pool(const Call& call) {
  const auto kernel = call.shape("kernel_size");
  auto stride = call.shape("stride");
  const auto padding = call.shape("padding");
  const auto dilation = call.shape("dilation");
  const auto ceil_mode = call.flag("ceil_mode");
  if (!kernel || !stride || !padding || !dilation || !ceil_mode) return false;
  return call.move({.kind = Kind::MaxPool,
                    .kernel = *kernel,
                    .stride = stride->empty() ? *kernel : *stride,
                    .padding_begin = *padding,
                    .padding_end = *padding,
                    .dilation = *dilation,
                    .ceil_mode = *ceil_mode});
}

bool avg_pool(const Call& call) {
  const auto kernel = call.shape("kernel_size");
  const auto stride = call.shape("stride");
  const auto padding = call.shape("padding");
  const auto counts_padding = call.flag("count_include_pad");
  if (!kernel || !stride || !padding || !counts_padding || call.flag("ceil_mode") != false) return false;
  if (call.argument("divisor_override") != nullptr && !call.is_none("divisor_override")) return false;
  return call.write({.kind = Kind::AvgPool,
                     .kernel = *kernel,
                     .stride = stride->empty() ? *kernel : *stride,
                     .padding_begin = *padding,
                     .padding_end = *padding,
                     .count_include_pad = *counts_padding});
}

bool adaptive_avg_pool(const Call& call) {
  const auto size = call.shape("output_size");
  const auto input = size ? call.input() : std::nullopt;
  if (input) call.program.define(call.node->output(), write_adaptive_avg_pool(call.program, *size, *input));
  return input.has_value();
}
bool adaptive_max_pool(const Call& call) {
  const auto size = call.shape("output_size");
  return size && call.move({.kind = Kind::AdaptiveMaxPool, .size = {size->begin(), size->end()}});
}

/// Over some dimensions, or over all.
template <Kind Function>
bool reduction(const Call& call) {
  if (!call.is_none("dtype")) return false;
  Operation operation{.kind = Function};
  if (call.argument("dim") != nullptr && !call.is_none("dim")) {
    const auto axis = call.whole("dim");
    const auto axes = axis ? std::optional(runtime::Shape{*axis}) : call.shape("dim");
    if (!axes) return false;
    operation.axes = *axes;
  }
  operation.keep_dims = call.flag("keepdim").value_or(false);
  return call.write(std::move(operation));
}

/// With the places of what it finds, which nobody reads.
template <Kind Function>
bool found_along(const Call& call) {
  return call.argument("dim") != nullptr && reduction<Function>(call);
}

/// Sides from the last dimension on.
bool pad(const Call& call) {
  const auto sides = call.shape("pad");
  const auto mode = call.constant("mode");
  const auto fill = call.is_none("value") ? std::optional(0.0) : call.number("value");
  const bool is_constant = !mode || (mode->isString() && mode->toStringRef() == "constant");
  if (!sides || sides->size() % 2 != 0 || !is_constant || !fill) return false;
  Operation operation{.kind = Kind::Pad, .fill = *fill};
  for (std::size_t i = sides->size(); i > 0; i -= 2) {
    operation.padding_begin.push_back((*sides)[i - 2]);
    operation.padding_end.push_back((*sides)[i - 1]);
  }
  return call.write(std::move(operation));
}

constexpr std::array kWindowRows{
    OperatorRow{"aten::mean", reduction<Kind::Mean>},
    OperatorRow{"aten::sum", reduction<Kind::Sum>},
    OperatorRow{"aten::amax", reduction<Kind::Amax>},
    OperatorRow{"aten::amin", reduction<Kind::Amin>},
    OperatorRow{"aten::max", found_along<Kind::Amax>},
    OperatorRow{"aten::min", found_along<Kind::Amin>},
    OperatorRow{"aten::pad", pad},
    OperatorRow{"aten::constant_pad_nd", pad},
    OperatorRow{"aten::max_pool1d", max_pool},
    OperatorRow{"aten::max_pool2d", max_pool},
    OperatorRow{"aten::max_pool3d", max_pool},
    OperatorRow{"aten::avg_pool1d", avg_pool},
    OperatorRow{"aten::avg_pool2d", avg_pool},
    OperatorRow{"aten::avg_pool3d", avg_pool},
    OperatorRow{"aten::adaptive_avg_pool1d", adaptive_avg_pool},
    OperatorRow{"aten::adaptive_avg_pool2d", adaptive_avg_pool},
    OperatorRow{"aten::adaptive_avg_pool3d", adaptive_avg_pool},
    OperatorRow{"aten::adaptive_max_pool1d", adaptive_max_pool},
    OperatorRow{"aten::adaptive_max_pool2d", adaptive_max_pool},
};

}  // namespace

std::span<const OperatorRow> window_rows() { return kWindowRows; }

}  // namespace tsq::programs
