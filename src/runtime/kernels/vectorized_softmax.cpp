// Compiled once for each instruction set, as vectorized_elementwise.cpp says.
#include "runtime/kernels/vectorized_functions.h"
#include "runtime/kernels/vectorized_numbers.h"

namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

/// a * b + c, rounded once where that is fast.
inline float multiply_add(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/// e to the power of a number that is not positive, within 2 units of the last place; below -87 about 0.
inline float exp_of_negative(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kHigh =
      0.693359375F;  // ln 2 in two parts: the first has few bits, so that products are exact
  constexpr float kLow = -2.12194440e-4F;
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: the sum's last bit is worth 1
  const float bounded = x > -87.0F ? x : -87.0F;
  const float shifted = multiply_add(bounded, kLog2E, kShift);
  const float whole = shifted - kShift;
  const float rest = multiply_add(whole, -kLow, multiply_add(whole, -kHigh, bounded));
  float series = 1.9875691500e-4F;
  series = multiply_add(series, rest, 1.3981999507e-3F);
  series = multiply_add(series, rest, 8.3334519073e-3F);
  series = multiply_add(series, rest, 4.1665795894e-2F);
  series = multiply_add(series, rest, 1.6666665459e-1F);
  series = multiply_add(series, rest, 5.0000001201e-1F);
  const float fraction = multiply_add(series, rest * rest, rest) + 1.0F;
  std::uint32_t power;  // of numbers that are beside NaN, which may be positive, any bits
  std::uint32_t bits;
  __builtin_memcpy(&power, &shifted, sizeof power);
  __builtin_memcpy(&bits, &fraction, sizeof bits);
  bits += (power - 0x4B400000U) << 23U;
  float result;
  __builtin_memcpy(&result, &bits, sizeof result);
  return result;
}

}  // namespace

void softmax(const SoftmaxTask& task, void* out, const void* in, std::int64_t begin, std::int64_t end) {
  const std::int64_t length = task.length;
  const float scale = task.scale;
  float row[kSoftmaxRow];
  for (std::int64_t r = begin; r < end; ++r) {
    load(task.from, in, r * length, 1, length, row);
    const float largest = join(row, length, -kInfinity, Larger{});
    for (std::int64_t i = 0; i < length; ++i) row[i] = exp_of_negative((row[i] - largest) * scale);
    const float sum = join(row, length, 0.0F, Plus{});
    Rounding to = task.to;
    if (task.logarithm) {
      load(task.from, in, r * length, 1, length, row);
      const float shift = __builtin_logf(sum);
      for (std::int64_t i = 0; i < length; ++i) row[i] = (row[i] - largest) * scale - shift;
    } else {
      to.scale /= sum;
    }
    store(to, out, r * length, 1, length, row);
  }
}

}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
