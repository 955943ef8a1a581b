#pragma once

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define TSQ_RUNTIME_HAS_MASKS
#include <immintrin.h>

#include "runtime/kernels/kernels.h"

/// Sixteen numbers at a time; fewer, at the end of a row, with a mask. All operations have one, since GCC
/// takes what those without it leave undefined for a mistake. Bytes are never stored with a mask: processors
/// of AMD take dozens of cycles for it.
namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

constexpr __mmask16 kAll = 0xFFFF;

inline __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFF : (1U << count) - 1);
}

inline __m512 lanes_at(const float* from, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, from); }
inline __m512 lanes_at(const std::uint8_t* from, __mmask16 mask) {
  return _mm512_maskz_cvtepi32_ps(mask, _mm512_maskz_cvtepu8_epi32(mask, _mm_maskz_loadu_epi8(mask, from)));
}
inline __m512 lanes_at(const std::int8_t* from, __mmask16 mask) {
  return _mm512_maskz_cvtepi32_ps(mask, _mm512_maskz_cvtepi8_epi32(mask, _mm_maskz_loadu_epi8(mask, from)));
}

/// Fewer than sixteen bytes.
inline void copy_bytes(void* to, const void* from, std::int64_t count) {
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  const auto copy_ends = [&](auto part) {
    auto last = part;
    const auto end = count - static_cast<std::int64_t>(sizeof part);
    __builtin_memcpy(&part, source, sizeof part);
    __builtin_memcpy(&last, source + end, sizeof last);
    __builtin_memcpy(target, &part, sizeof part);
    __builtin_memcpy(target + end, &last, sizeof last);
  };
  if (count >= 8) return copy_ends(std::uint64_t{});
  if (count >= 4) return copy_ends(std::uint32_t{});
  if (count >= 2) return copy_ends(std::uint16_t{});
  if (count == 1) *target = *source;
}

inline __m512i rounded_within(__m512 real, float low, float high) {
  // The second operand is the result where the first is no number.
  const __m512 below = _mm512_maskz_min_ps(kAll, real, _mm512_set1_ps(high));
  return _mm512_maskz_cvtps_epi32(kAll, _mm512_maskz_max_ps(kAll, below, _mm512_set1_ps(low)));
}

inline __m512 times_plus(__m512 numbers, __m512 factor, __m512 addend) {
  return _mm512_maskz_fmadd_ps(kAll, numbers, factor, addend);
}

inline __m512i rounded(const Rounding& to, __m512 numbers) {
  const __m512 real = times_plus(numbers, _mm512_set1_ps(to.scale), _mm512_set1_ps(to.offset));
  return rounded_within(real, to.low, to.high);
}

/// Writes `count` numbers of a register, at most sixteen.
inline void write_bytes(void* out, std::int64_t count, __m512i numbers) {
  const __m128i bytes = _mm512_maskz_cvtepi32_epi8(kAll, numbers);
  if (count >= 16) return _mm_storeu_si128(static_cast<__m128i*>(out), bytes);
  std::uint8_t few[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&few[0]), bytes);
  copy_bytes(out, few, count);
}

}  // namespace
}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
#endif
