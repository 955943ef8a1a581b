#include "backends/kernels/processor_faults.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <algorithm>
#include <map>
#include <mutex>
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

/// A transposed convolution with a square kernel.
struct Transposed {
  int64_t in{};
  int64_t out{};
  int64_t kernel{};
  int64_t stride{};
  int64_t zero_point{0};  ///< of the weight: the engine x86 takes oneDNN for 0 alone
};
constexpr Transposed kOfOnednn{.in = 8, .out = 3, .kernel = 3, .stride = 1};
constexpr Transposed kOfFbgemm{.in = 8, .out = 8, .kernel = 2, .stride = 2, .zero_point = 1};

/// Whether it differs, with the engine that is set, from dequantize – operator – quantize. The codes are so
/// small that no sum of 16 bits overflows.
bool is_wrong(const Transposed& op) {
  constexpr double kScale = 0.05;
  const at::Tensor x =
      at::_make_per_tensor_quantized_tensor(codes({1, op.in, 5, 5}, 61).to(at::kByte), kScale, 30);
  const at::Tensor weight = at::_make_per_tensor_quantized_tensor(
      (codes({op.in, op.out, op.kernel, op.kernel}, 41) - 20).to(at::kChar), kScale, op.zero_point);
  const std::vector<int64_t> strides{op.stride, op.stride};
  const std::vector<int64_t> zeros{0, 0};
  const std::vector<int64_t> ones{1, 1};
  const at::Tensor plain = at::conv_transpose2d(x.dequantize(), weight.dequantize(), {}, strides);
  const double scale = plain.abs().max().item<double>() / 100;
  const c10::IValue packed = call_operator("quantized::conv_transpose2d_prepack",
                                           {weight, c10::IValue(), strides, zeros, zeros, ones, int64_t{1}})
                                 .back();
  const at::Tensor result =
      call_operator("quantized::conv_transpose2d", {x, packed, scale, int64_t{128}}).back().toTensor();
  return (result.dequantize() - plain).abs().max().item<double>() > 1.5 * scale;
}

ProcessorFaults tried(at::QEngine engine) {
  ProcessorFaults faults;
  if (engine == at::QEngine::X86 || engine == at::QEngine::ONEDNN)
    faults.onednn_transposed_channels = is_wrong(kOfOnednn);
  if (engine == at::QEngine::X86 || engine == at::QEngine::FBGEMM)
    faults.fbgemm_transposed_rows = is_wrong(kOfFbgemm);
  return faults;
}

}  // namespace

nlohmann::json ProcessorFaults::to_json() const {
  return {{"onednn_transposed_channels", onednn_transposed_channels},
          {"fbgemm_transposed_rows", fbgemm_transposed_rows}};
}

ProcessorFaults processor_faults(TargetCpu cpu, at::QEngine engine) {
  // A fault of an engine that this LibTorch lacks does no harm.
  const std::vector<at::QEngine>& engines = at::globalContext().supportedQEngines();
  if (cpu != TargetCpu::Native || std::ranges::find(engines, engine) == engines.end()) return {};
  // The engine first: who waits for it must not keep others from asking.
  const EnginePacking hold(engine);
  static std::mutex mutex;
  static std::map<at::QEngine, ProcessorFaults> known;
  const std::lock_guard guard(mutex);
  const auto [found, is_new] = known.try_emplace(engine);
  if (is_new) found->second = tried(engine);
  return found->second;
}

}  // namespace tsq::kernels
