#pragma once

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <cstdint>

/// Registers of the instruction set for which a file is compiled.
namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

#if defined(__AVX512F__)
using Register = __m512;
constexpr std::int64_t kRegister = 16;    ///< floats of a register
constexpr std::int64_t kProductRows = 8;  ///< with two registers of columns they fill half of the registers
#elif defined(__AVX2__)
using Register = __m256;
constexpr std::int64_t kRegister = 8;
constexpr std::int64_t kProductRows = 4;
#else
using Register = float __attribute__((vector_size(16)));
constexpr std::int64_t kRegister = 4;
constexpr std::int64_t kProductRows = 4;
#endif
using Whole = std::int32_t __attribute__((vector_size(kRegister * 4)));

inline Register load_register(const float* from) {
  Register numbers;
  __builtin_memcpy(&numbers, from, sizeof numbers);
  return numbers;
}

inline void store_register(float* to, Register numbers) { __builtin_memcpy(to, &numbers, sizeof numbers); }

inline Register spread(float number) { return number - Register{}; }

/// a * b + c, rounded once where that is fast.
inline Register multiply_add(Register a, Register b, Register c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

/// The larger numbers; those of `b` where one is no number.
inline Register larger(Register a, Register b) {
#if defined(__AVX512F__)
  return _mm512_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

/// The smaller numbers; those of `b` where one is no number.
inline Register smaller_numbers(Register a, Register b) {
#if defined(__AVX512F__)
  return _mm512_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}

/// 2 to the power of a number below 127, with a relative error below 4e-7; below -125 about 0, and no number
/// for no number.
inline Register exp2(Register x) {
  const Register bounded = larger(spread(-125.0F), x);
#if defined(__AVX512F__)
  const Register whole = _mm512_roundscale_ps(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  const Register shifted = bounded + spread(12582912.0F);  // 1.5 * 2^23: the sum's last bit is worth 1
  const Register whole = shifted - spread(12582912.0F);
#endif
  const Register rest = bounded - whole;
  Register series = spread(0.0013276474F);
  series = multiply_add(series, rest, spread(0.009675542F));
  series = multiply_add(series, rest, spread(0.05550713F));
  series = multiply_add(series, rest, spread(0.2402212F));
  series = multiply_add(series, rest, spread(0.69314694F));
  series = multiply_add(series, rest, spread(1.0F));
#if defined(__AVX512F__)
  return _mm512_scalef_ps(series, whole);
#else
  Whole power;
  Whole bits;
  __builtin_memcpy(&power, &shifted, sizeof power);
  __builtin_memcpy(&bits, &series, sizeof bits);
  bits += (power - 0x4B400000) << 23;
  __builtin_memcpy(&series, &bits, sizeof bits);
  return series;
#endif
}

#if defined(__AVX512F__)
inline float sum_of_lanes(Register numbers) { return _mm512_reduce_add_ps(numbers); }
inline float largest_of_lanes(Register numbers) { return _mm512_reduce_max_ps(numbers); }
#else
/// Joins the numbers of a register, halves first.
template <typename Function>
inline float join_register(Register numbers, const Function& function) {
  float lanes[kRegister];
  store_register(lanes, numbers);
  for (std::int64_t step = kRegister / 2; step > 0; step /= 2) {
    for (std::int64_t i = 0; i < step; ++i) lanes[i] = function(lanes[i], lanes[i + step]);
  }
  return lanes[0];
}
inline float sum_of_lanes(Register numbers) {
  return join_register(numbers, [](float a, float b) { return a + b; });
}
inline float largest_of_lanes(Register numbers) {
  return join_register(numbers, [](float a, float b) { return a > b ? a : b; });
}
#endif

}  // namespace
}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
