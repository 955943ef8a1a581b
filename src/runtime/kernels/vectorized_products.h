#pragma once

#include "runtime/kernels/vectorized_registers.h"

/// Products of a few rows with packed columns, summed in registers.
namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

/// Columns are packed in panels of two registers: a row that the sums begin with, then one row for each
/// element of the depth. Every element has four bytes.
constexpr std::int64_t kPanel = 2 * kRegister;

inline std::int64_t panels_of(std::int64_t columns) { return (columns + kPanel - 1) / kPanel; }

/// An element is a float.
struct OfFloats {
  static constexpr bool kIsExact = false;
  using Sum = Register;
  static Sum start(const float* row) { return load_register(row); }
  static void add(Sum& sum, const float* left, const Sum& right) {
    sum = multiply_add(spread(*left), right, sum);
  }
  static Register finish(const Sum& sum) { return sum; }
};

#ifdef __AVX512VNNI__
/// An element is four bytes, those of rows signed and those of columns unsigned.
struct OfBytes {
  static constexpr bool kIsExact = true;
  using Sum = __m512i;
  static Sum start(const float* row) { return _mm512_loadu_si512(row); }
  static void add(Sum& sum, const float* left, const Sum& right) {
    // With GCC 12's intrinsic each sum of a loop is copied twice.
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(right), "m"(*left));
  }
  static Sum zero() { return _mm512_setzero_si512(); }
  static Sum joined(const Sum& a, const Sum& b) { return _mm512_add_epi32(a, b); }
  static Register finish(const Sum& sum) { return _mm512_cvtepi32_ps(sum); }
};

/// An element is two signed words.
struct OfWords : OfBytes {
  static void add(Sum& sum, const float* left, const Sum& right) {
    asm("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(right), "m"(*left));
  }
};
#endif

/// The left side: element d of row r stands at data[r * stride + d].
struct Rows {
  const float* data;
  std::int64_t stride;
  std::int64_t count;
};

/// The right side, packed in panels.
struct Columns {
  const float* packed;
  std::int64_t depth;
  std::int64_t count;
};

struct Sums {
  float* data;
  std::int64_t stride;
};

/// Elements from `begin` to one before `end`; all but the first part are added to what the sums are.
struct Depth {
  std::int64_t begin;
  std::int64_t end;
};

template <typename Product, int kRows, int kRegisters>
void multiply_tile(const Rows& rows, const float* panel, Depth depth, const Sums& out) {
  typename Product::Sum sums[kRows][kRegisters];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kRegisters; ++c) sums[r][c] = Product::start(panel + c * kRegister);
  }
  panel += (depth.begin + 1) * kPanel;
  for (std::int64_t d = depth.begin; d < depth.end; ++d, panel += kPanel) {
    typename Product::Sum right[kRegisters];
#pragma GCC unroll 2
    for (int c = 0; c < kRegisters; ++c) right[c] = Product::start(panel + c * kRegister);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int c = 0; c < kRegisters; ++c)
        Product::add(sums[r][c], rows.data + r * rows.stride + d, right[c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kRegisters; ++c) {
      float* to = out.data + r * out.stride + c * kRegister;
      const Register sum = Product::finish(sums[r][c]);
      store_register(to, depth.begin == 0 ? sum : sum + load_register(to));
    }
  }
}

/// One row: neighbouring elements are added to sums of their own, since a sum waits for the one before it. Of
/// sums that are exact, so that a row's do not depend on how many rows there are.
template <typename Product, int kRegisters>
void multiply_row(const float* row, const float* panel, Depth depth, float* out) {
  constexpr int kSums = 4;
  typename Product::Sum sums[kSums][kRegisters];
#pragma GCC unroll 4
  for (int s = 0; s < kSums; ++s) {
#pragma GCC unroll 2
    for (int c = 0; c < kRegisters; ++c)
      sums[s][c] = s == 0 ? Product::start(panel + c * kRegister) : Product::zero();
  }
  panel += kPanel;
  std::int64_t d = depth.begin;
  for (; d + kSums <= depth.end; d += kSums) {
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s) {
#pragma GCC unroll 2
      for (int c = 0; c < kRegisters; ++c)
        Product::add(sums[s][c], row + d + s, Product::start(panel + (d + s) * kPanel + c * kRegister));
    }
  }
  for (; d < depth.end; ++d) {
#pragma GCC unroll 2
    for (int c = 0; c < kRegisters; ++c)
      Product::add(sums[0][c], row + d, Product::start(panel + d * kPanel + c * kRegister));
  }
#pragma GCC unroll 2
  for (int c = 0; c < kRegisters; ++c) {
    float* to = out + c * kRegister;
    const Register sum = Product::finish(
        Product::joined(Product::joined(sums[0][c], sums[1][c]), Product::joined(sums[2][c], sums[3][c])));
    store_register(to, depth.begin == 0 ? sum : sum + load_register(to));
  }
}

template <typename Product, int kRegisters>
void multiply_panel(const Rows& rows, const float* panel, Depth depth, const Sums& out) {
  constexpr int kRows = kProductRows;
  for (std::int64_t r = 0; r < rows.count; r += kRows) {
    const std::int64_t left = rows.count - r;
    const Rows some{rows.data + r * rows.stride, rows.stride, left};
    const Sums to{out.data + r * out.stride, out.stride};
    if (left == 1) {
      if constexpr (Product::kIsExact) {
        multiply_row<Product, kRegisters>(some.data, panel, depth, to.data);
      } else {
        multiply_tile<Product, 1, kRegisters>(some, panel, depth, to);
      }
    } else if (left <= kRows / 4) {
      multiply_tile<Product, kRows / 4, kRegisters>(some, panel, depth, to);
    } else if (left <= kRows / 2) {
      multiply_tile<Product, kRows / 2, kRegisters>(some, panel, depth, to);
    } else {
      multiply_tile<Product, kRows, kRegisters>(some, panel, depth, to);
    }
  }
}

/// Rows are read and sums are written in whole tiles: up to `kProductRows` rows, and whole registers.
template <typename Product>
void multiply(const Rows& rows, const Columns& columns, Depth depth, const Sums& out) {
  for (std::int64_t c = 0; c < columns.count; c += kPanel) {
    const float* panel = columns.packed + c * (columns.depth + 1);
    const Sums to{out.data + c, out.stride};
    if (columns.count - c > kRegister) {
      multiply_panel<Product, 2>(rows, panel, depth, to);
    } else {
      multiply_panel<Product, 1>(rows, panel, depth, to);
    }
  }
}

}  // namespace
}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
