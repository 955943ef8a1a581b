#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>

#include <functional>
#include <random>

#include "backends/kernels/engine.h"
#include "backends/kernels/kernel_limits.h"
#include "support/one_of_neighbours.h"

namespace tsq {
namespace pair_sums_test {

c10::IValue call(const char* name, torch::jit::Stack stack, const char* overload = "") {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).callBoxed(&stack);
  return stack.back();
}

at::Tensor codes(const at::Tensor& weight) {
  const int64_t rows = weight.size(0);
  return at::quantize_per_channel(weight, at::ones({rows}), at::zeros({rows}, at::kLong), 0,
                                  c10::ScalarType::QInt8);
}

/// By how many steps a kernel's output differs from the exact one, of inputs with the largest code.
double steps_off(const at::Tensor& exact, const std::function<at::Tensor(double)>& kernel) {
  const double scale = std::max(1.0, exact.max().item<double>() / 250);
  return (kernel(scale).dequantize() - exact).abs().max().item<double>() / scale;
}

at::Tensor largest_codes(const std::vector<int64_t>& sizes) {
  return at::quantize_per_tensor(at::full(sizes, 255.0), 1, 0, c10::ScalarType::QUInt8);
}

double steps_off_of_linear(int64_t rows, int64_t columns, int64_t outputs) {
  const at::Tensor weight = one_of_neighbours(outputs, columns, 1).squeeze(2);
  const at::Tensor x = largest_codes({rows, columns});
  const c10::IValue packed = call("quantized::linear_prepack", {codes(weight), c10::IValue()});
  return steps_off(at::linear(x.dequantize(), weight), [&](double scale) {
    return call("quantized::linear", {x, packed, scale, int64_t{0}}).toTensor();
  });
}

double steps_off_of_convolution(int64_t channels, int64_t outputs, int64_t groups, int64_t kernel) {
  const at::Tensor weight = one_of_neighbours(outputs * groups, channels, kernel * kernel)
                                .reshape({outputs * groups, channels, kernel, kernel});
  const at::Tensor x = largest_codes({1, channels * groups, 9, 9}).contiguous(at::MemoryFormat::ChannelsLast);
  const std::vector<int64_t> ones{1, 1};
  const std::vector<int64_t> padding{kernel / 2, kernel / 2};
  const c10::IValue packed =
      call("quantized::conv2d_prepack", {codes(weight), c10::IValue(), ones, padding, ones, groups});
  return steps_off(at::conv2d(x.dequantize(), weight, {}, ones, padding, ones, groups), [&](double scale) {
    return call("quantized::conv2d", {x, packed, scale, int64_t{0}}, "new").toTensor();
  });
}

// With VNNI no kernel adds in 16 bits: then it says nothing.
TEST(PairSums, KernelsAddNoOtherPairsThanTheTableSays) {
  std::mt19937 random(5);
  torch::manual_seed(5);
  const auto one_of = [&](std::initializer_list<int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  for (const std::string engine : {"x86", "fbgemm", "onednn"}) {
    const kernels::Target target{.engine = engine, .cpu = TargetCpu::WithoutVnni};
    const EngineHold hold(engine_from_name(engine));
    for (int i = 0; i < 40; ++i) {
      const int64_t rows = one_of({1, 2, 7, 40});
      const int64_t columns = one_of({1, 2, 3, 9, 64, 365, 1000});
      const int64_t outputs = one_of({1, 3, 16, 33});
      if (kernels::pair_sums(target, {.channels = outputs}) == kernels::PairSums::Neighbours) {
        EXPECT_LT(steps_off_of_linear(rows, columns, outputs), 1) << engine << " " << rows << " " << columns;
      }
      const int64_t groups = one_of({1, 1, 1, 2, 8, 32});
      const int64_t channels = one_of({1, 2, 3, 5, 8, 16, 33});
      const int64_t kernel = one_of({1, 2, 3, 5});
      EXPECT_EQ(kernels::pair_sums(target, {.dims = 2}), kernels::PairSums::Neighbours);
      EXPECT_LT(steps_off_of_convolution(channels, outputs, groups, kernel), 1)
          << engine << " " << channels << " " << outputs << " " << groups << " " << kernel;
    }
  }
}

}  // namespace pair_sums_test
}  // namespace tsq
