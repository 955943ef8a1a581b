#include "backends/kernels/processor_faults.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/packed.h"

namespace tsq::kernels {

namespace {

/// Codes from 0 to `count` - 1 in an order that looks random, the same each time.
at::Tensor codes(at::IntArrayRef sizes, int64_t count) {
  constexpr int64_t kStep = 37;
  return at::arange(c10::multiply_integers(sizes)).mul(kStep).remainder(count).view(sizes);
}

/// Whether an engine's transposed convolution differs from dequantize – operator – quantize. The codes are so
/// small that no sum of 16 bits overflows.
bool is_wrong(at::QEngine engine, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  constexpr double kScale = 0.05;
  const at::Tensor x =
      at::_make_per_tensor_quantized_tensor(codes({1, in, 5, 5}, 61).to(at::kByte), kScale, 30);
  const at::Tensor weight = at::_make_per_tensor_quantized_tensor(
      (codes({in, out, kernel, kernel}, 41) - 20).to(at::kChar), kScale, 0);
  const std::vector<int64_t> strides{stride, stride};
  const std::vector<int64_t> zeros{0, 0};
  const std::vector<int64_t> ones{1, 1};
  const at::Tensor plain = at::conv_transpose2d(x.dequantize(), weight.dequantize(), {}, strides);
  const double scale = plain.abs().max().item<double>() / 100;
  const EnginePacking hold(engine);
  const c10::IValue packed = call_operator("quantized::conv_transpose2d_prepack",
                                           {weight, c10::IValue(), strides, zeros, zeros, ones, int64_t{1}})
                                 .back();
  const at::Tensor result =
      call_operator("quantized::conv_transpose2d", {x, packed, scale, int64_t{128}}).back().toTensor();
  return (result.dequantize() - plain).abs().max().item<double>() > 1.5 * scale;
}

/// A fault of an engine that this LibTorch lacks does no harm.
bool shows(at::QEngine engine, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  const std::vector<at::QEngine>& engines = at::globalContext().supportedQEngines();
  return std::ranges::find(engines, engine) == engines.end() || is_wrong(engine, in, out, kernel, stride);
}

}  // namespace

nlohmann::json ProcessorFaults::to_json() const {
  return {{"onednn_transposed_channels", onednn_transposed_channels},
          {"fbgemm_transposed_rows", fbgemm_transposed_rows}};
}

ProcessorFaults processor_faults(TargetCpu cpu) {
  if (cpu != TargetCpu::Native) return {};
  static const ProcessorFaults kOfThisOne{
      .onednn_transposed_channels = shows(at::QEngine::ONEDNN, 8, 3, 3, 1),
      .fbgemm_transposed_rows = shows(at::QEngine::FBGEMM, 8, 8, 2, 2)};
  return kOfThisOne;
}

}  // namespace tsq::kernels
