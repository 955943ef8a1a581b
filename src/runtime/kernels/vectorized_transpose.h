#pragma once

#include <cstdint>

/// Squares of numbers in registers of 16 bytes, turned over.
namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

using Bytes = std::uint8_t __attribute__((vector_size(16)));
using Floats = float __attribute__((vector_size(16)));

// clang-format off
inline Bytes low_pairs(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
inline Bytes high_pairs(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
inline Floats low_pairs(Floats a, Floats b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline Floats high_pairs(Floats a, Floats b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }

/// Sixteen pixels of three channels from as many numbers of each channel.
inline void interleave(const std::uint8_t* red, const std::uint8_t* green, const std::uint8_t* blue,
                       std::uint8_t* out) {
  Bytes a;
  Bytes b;
  Bytes c;
  __builtin_memcpy(&a, red, sizeof a);
  __builtin_memcpy(&b, green, sizeof b);
  __builtin_memcpy(&c, blue, sizeof c);
  const Bytes ab0 = __builtin_shufflevector(a, b, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5);
  const Bytes out0 = __builtin_shufflevector(ab0, c, 0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15);
  const Bytes ab1 = __builtin_shufflevector(a, b, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26);
  const Bytes out1 = __builtin_shufflevector(ab1, c, 0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15);
  const Bytes ab2 = __builtin_shufflevector(a, b, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0);
  const Bytes out2 = __builtin_shufflevector(ab2, c, 26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31);
  __builtin_memcpy(out, &out0, sizeof out0);
  __builtin_memcpy(out + 16, &out1, sizeof out1);
  __builtin_memcpy(out + 32, &out2, sizeof out2);
}
// clang-format on

template <typename T>
struct Square;
template <>
struct Square<std::uint8_t> {
  using Row = Bytes;
  static constexpr int kSize = 16;
};
template <>
struct Square<float> {
  using Row = Floats;
  static constexpr int kSize = 4;
};

/// Row r of `out` gets the numbers r of the rows of `in`: pairs of rows from both halves are mixed as often
/// as the size can be halved. The last rows of `out` and the last numbers of each are left out.
template <typename T>
inline void transpose_square(const T* in, std::int64_t in_stride, T* out, std::int64_t out_stride,
                             std::int64_t rows, std::int64_t columns) {
  using Row = typename Square<T>::Row;
  constexpr int kSize = Square<T>::kSize;
  Row even[kSize];
  Row odd[kSize];
  for (int i = 0; i < kSize; ++i) __builtin_memcpy(&even[i], in + i * in_stride, sizeof(Row));
  for (int step = 1; step < kSize; step *= 4) {
    for (int i = 0; i < kSize / 2; ++i) {
      odd[2 * i] = low_pairs(even[i], even[i + kSize / 2]);
      odd[2 * i + 1] = high_pairs(even[i], even[i + kSize / 2]);
    }
    for (int i = 0; i < kSize / 2; ++i) {
      even[2 * i] = low_pairs(odd[i], odd[i + kSize / 2]);
      even[2 * i + 1] = high_pairs(odd[i], odd[i + kSize / 2]);
    }
  }
  if (rows >= kSize && columns >= kSize) {
    for (int i = 0; i < kSize; ++i) __builtin_memcpy(out + i * out_stride, &even[i], sizeof(Row));
    return;
  }
  for (int i = 0; i < kSize && i < rows; ++i) {
    const auto* numbers = reinterpret_cast<const T*>(&even[i]);
    for (int c = 0; c < kSize && c < columns; ++c) out[i * out_stride + c] = numbers[c];
  }
}

}  // namespace
}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
