#pragma once

#include <cmath>
#include <cstring>

#include "runtime/kernels/kernels.h"
#include "runtime/kernels/vectorized_masks.h"

/// What the kernels of one instruction set share: numbers of any dtype as floats. Each file has its own copy.
namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

/// Sixteen floats, in as many registers as the instruction set needs.
constexpr int kLanes = 16;

constexpr std::int64_t kChunk = 512;
/// Of a chunk, and a register after it.
constexpr std::int64_t kBuffer = kChunk + kLanes;

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// To the nearest integer, halves to the even one, within [low, high], which lie within 22 bits; `high` for
/// no number, as LibTorch rounds it.
inline std::int32_t round_within(float real, float low, float high) {
  float bounded = real < high ? real : high;
  bounded = bounded > low ? bounded : low;
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: the sum's last bit is worth 1
  const float shifted = bounded + kShift;
  std::int32_t bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  return bits - 0x4B400000;
}

/// How many places loops over buffers of our own run through: whole registers, since rows of a few channels
/// would spend their time on single places.
inline std::int64_t whole_registers(std::int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

/// Zeros after the last place of a buffer that has room for sixteen.
inline void pad_register(float* buffer, std::int64_t count) {
  std::memset(buffer + count, 0, kLanes * sizeof(float));
}

#ifdef TSQ_RUNTIME_HAS_MASKS
template <typename T>
inline void load_neighbours(const T* from, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const __mmask16 mask = first_lanes(count - i);
    _mm512_mask_storeu_ps(out + i, mask, lanes_at(from + i, mask));
  }
}
#else
template <typename T>
inline void load_neighbours(const T* from, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(from[i]);
}
#endif

template <typename T>
void load_as(const void* in, std::int64_t at, std::int64_t stride, std::int64_t count, float* out) {
  const T* from = static_cast<const T*>(in) + at;
  if (stride == 1) return load_neighbours(from, count, out);
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(from[i * stride]);
}

inline void load(Dtype dtype, const void* in, std::int64_t at, std::int64_t stride, std::int64_t count,
                 float* out) {
  if (dtype == Dtype::F32) return load_as<float>(in, at, stride, count, out);
  if (dtype == Dtype::U8) return load_as<std::uint8_t>(in, at, stride, count, out);
  load_as<std::int8_t>(in, at, stride, count, out);
}

#ifdef TSQ_RUNTIME_HAS_MASKS
template <typename T>
inline void store_neighbours(const Rounding& to, T* into, std::int64_t count, const float* in) {
  const Rounding r = to;
  for (std::int64_t i = 0; i < count; i += kLanes)
    write_bytes(into + i, count - i, rounded(r, lanes_at(in + i, first_lanes(count - i))));
}
#else
template <typename T>
inline void store_neighbours(const Rounding& to, T* into, std::int64_t count, const float* in) {
  const Rounding r = to;
  for (std::int64_t i = 0; i < count; ++i)
    into[i] = static_cast<T>(round_within(in[i] * r.scale + r.offset, r.low, r.high));
}
#endif

template <typename T>
void store_rounded(const Rounding& to, void* out, std::int64_t at, std::int64_t stride, std::int64_t count,
                   const float* in) {
  T* into = static_cast<T*>(out) + at;
  if (stride == 1) return store_neighbours(to, into, count, in);
  const Rounding r = to;
  for (std::int64_t i = 0; i < count; ++i)
    into[i * stride] = static_cast<T>(round_within(in[i] * r.scale + r.offset, r.low, r.high));
}

/// Rounds `function(sixteen numbers, first place, mask)` of neighbours into neighbours, without a buffer
/// between them. False where that cannot be: a float result, an instruction set without masks.
template <typename Function>
inline bool in_registers([[maybe_unused]] Dtype dtype, [[maybe_unused]] const void* in,
                         [[maybe_unused]] std::int64_t in_at, [[maybe_unused]] const Rounding& to,
                         [[maybe_unused]] void* out, [[maybe_unused]] std::int64_t out_at,
                         [[maybe_unused]] std::int64_t count, [[maybe_unused]] const Function& function) {
#ifdef TSQ_RUNTIME_HAS_MASKS
  if (to.dtype == Dtype::F32) return false;
  const Rounding r = to;
  char* const target = static_cast<char*>(out) + out_at;
  const auto write = [&](const auto* from) {
    for (std::int64_t i = 0; i < count; i += kLanes) {
      const __mmask16 mask = first_lanes(count - i);
      write_bytes(target + i, count - i, rounded(r, function(lanes_at(from + in_at + i, mask), i, mask)));
    }
    return true;
  };
  if (dtype == Dtype::F32) return write(static_cast<const float*>(in));
  if (dtype == Dtype::U8) return write(static_cast<const std::uint8_t*>(in));
  return write(static_cast<const std::int8_t*>(in));
#else
  return false;
#endif
}

constexpr float kInfinity = __builtin_inff();

inline bool changes_floats(const Rounding& to) {
  return to.scale != 1 || to.offset != 0 || to.low != -kInfinity || to.high != kInfinity;
}

inline void store_floats(const Rounding& to, void* out, std::int64_t at, std::int64_t stride,
                         std::int64_t count, const float* in) {
  float* into = static_cast<float*>(out) + at;
  const Rounding r = to;
  if (stride == 1 && !changes_floats(to)) {
    std::memcpy(into, in, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const float real = in[i] * r.scale + r.offset;
    const float above = real < r.low ? r.low : real;
    into[i * stride] = above > r.high ? r.high : above;
  }
}

inline void store(const Rounding& to, void* out, std::int64_t at, std::int64_t stride, std::int64_t count,
                  const float* in) {
  if (to.dtype == Dtype::F32) return store_floats(to, out, at, stride, count, in);
  if (to.dtype == Dtype::U8) return store_rounded<std::uint8_t>(to, out, at, stride, count, in);
  store_rounded<std::int8_t>(to, out, at, stride, count, in);
}

using Lanes = float __attribute__((vector_size(64), may_alias, aligned(4)));
using HalfLanes = float __attribute__((vector_size(32)));
using QuarterLanes = float __attribute__((vector_size(16)));

/// Joins lanes with each other, halves first.
template <typename Function>
inline float join_lanes(const Lanes& lanes, const Function& function) {
  HalfLanes eight = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3, 4, 5, 6, 7);
  function(eight, __builtin_shufflevector(lanes, lanes, 8, 9, 10, 11, 12, 13, 14, 15));
  QuarterLanes four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3);
  function(four, __builtin_shufflevector(eight, eight, 4, 5, 6, 7));
  float pairs[2] = {four[0], four[1]};
  function(pairs[0], four[2]);
  function(pairs[1], four[3]);
  function(pairs[0], pairs[1]);
  return pairs[0];
}

/// Takes each number of a row with `take`, then joins what lanes have taken with `function`; both take lanes
/// or floats. The order is the same for every instruction set.
template <typename Take, typename Function>
inline float join(const float* row, std::int64_t count, float start, const Take& take,
                  const Function& function) {
  // Several chains: each waits for its last addition.
  Lanes first = start - Lanes{};
  Lanes second = first;
  Lanes third = first;
  Lanes fourth = first;
  // No reference to what lies in the row: clang takes it to be aligned as a whole register is.
  const auto take_at = [row, &take](Lanes& into, std::int64_t place) {
    Lanes lanes;
    std::memcpy(&lanes, row + place, sizeof lanes);
    take(into, lanes);
  };
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    take_at(first, i);
    take_at(second, i + kLanes);
    take_at(third, i + 2 * kLanes);
    take_at(fourth, i + 3 * kLanes);
  }
  for (; i + kLanes <= count; i += kLanes) take_at(first, i);
  function(first, second);
  function(third, fourth);
  function(first, third);
  float joined = join_lanes(first, function);
  for (; i < count; ++i) take(joined, row[i]);
  return joined;
}

template <typename Function>
inline float join(const float* row, std::int64_t count, float start, const Function& function) {
  return join(row, count, start, function, function);
}

// They change their first operand: a register of one instruction set is no result of a function.
struct Plus {
  template <typename T>
  void operator()(T& a, const T& b) const {
    a = a + b;
  }
};
struct PlusSquare {
  float mean;
  template <typename T>
  void operator()(T& a, const T& b) const {
    a = a + (b - mean) * (b - mean);
  }
};
struct Larger {
  template <typename T>
  void operator()(T& a, const T& b) const {
    a = a > b ? a : b;
  }
};
struct Smaller {
  template <typename T>
  void operator()(T& a, const T& b) const {
    a = a < b ? a : b;
  }
};

/// Calls `work(offsets of the operands, elements)` for each unit from `begin` to `end`: blocks of the
/// innermost loop.
template <typename Work>
void for_units(const Loops& loops, std::int64_t begin, std::int64_t end, const Work& work,
               std::int64_t size = kBlock) {
  const int inner = loops.count - 1;
  const std::int64_t length = loops.sizes[inner];
  const std::int64_t blocks = (length + size - 1) / size;
  std::int64_t block = begin % blocks;
  std::int64_t index[kMaxLoops];
  std::int64_t row_at[kMaxOperands] = {};
  std::int64_t row = begin / blocks;
  for (int d = inner - 1; d >= 0; --d) {
    index[d] = row % loops.sizes[d];
    row /= loops.sizes[d];
    for (int o = 0; o < loops.operands; ++o) row_at[o] += index[d] * loops.strides[o][d];
  }
  for (std::int64_t unit = begin; unit < end; ++unit) {
    std::int64_t at[kMaxOperands] = {};
    for (int o = 0; o < loops.operands; ++o) at[o] = row_at[o] + block * size * loops.strides[o][inner];
    work(at, smaller(size, length - block * size));
    if (++block < blocks) continue;
    block = 0;
    for (int d = inner - 1; d >= 0; --d) {
      const bool has_next = ++index[d] < loops.sizes[d];
      const std::int64_t steps = has_next ? 1 : 1 - loops.sizes[d];
      for (int o = 0; o < loops.operands; ++o) row_at[o] += steps * loops.strides[o][d];
      if (has_next) break;
      index[d] = 0;
    }
  }
}

}  // namespace
}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
