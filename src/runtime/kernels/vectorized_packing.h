#pragma once

#include "runtime/kernels/attention.h"
#include "runtime/kernels/vectorized_numbers.h"
#include "runtime/kernels/vectorized_products.h"
#include "runtime/kernels/vectorized_transpose.h"

/// Matrices of any dtype and strides, packed for products.
namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

/// One head's matrix.
struct Matrix {
  const AttentionOperand& operand;
  const void* data;
  std::int64_t first;  ///< element
  std::int64_t rows;
  std::int64_t columns;

  [[nodiscard]] std::int64_t at(std::int64_t row, std::int64_t column) const {
    return first + row * operand.row_stride + column * operand.column_stride;
  }
};

/// `count` numbers of a row, or along another stride, their zero point subtracted.
inline void load_numbers(const Matrix& matrix, std::int64_t at, std::int64_t stride, std::int64_t count,
                         float* out) {
  load(matrix.operand.dtype, matrix.data, at, stride, count, out);
  if (matrix.operand.zero_point == 0) return;
  const auto zero = static_cast<float>(matrix.operand.zero_point);
  for (std::int64_t i = 0; i < count; ++i) out[i] -= zero;
}

inline void fill(float* out, std::int64_t count, float number) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = number;
}

/// Some rows from `begin`, one after the other, as the left side of a product.
inline void pack_rows(const Matrix& matrix, std::int64_t begin, std::int64_t count, float* out) {
  for (std::int64_t r = 0; r < count; ++r) {
    load_numbers(matrix, matrix.at(begin + r, 0), matrix.operand.column_stride, matrix.columns,
                 out + r * matrix.columns);
  }
}

/// The matrix as the right side of a product: panels of its columns.
inline void pack_columns(const Matrix& matrix, float* out) {
  for (std::int64_t c = 0; c < matrix.columns; c += kPanel) {
    const std::int64_t columns = smaller(kPanel, matrix.columns - c);
    fill(out, kPanel, 0);
    out += kPanel;
    for (std::int64_t r = 0; r < matrix.rows; ++r) {
      load_numbers(matrix, matrix.at(r, c), matrix.operand.column_stride, columns, out);
      fill(out + columns, kPanel - columns, 0);
      out += kPanel;
    }
  }
}

/// Elements of a few rows that are turned over at once.
constexpr std::int64_t kStrip = 64;
constexpr std::int64_t kStripRows = 4;

/// Writes `count` elements of up to four rows below each other.
inline void turn_over(const float (&strip)[kStripRows][kStrip], std::int64_t count, float* out) {
  for (std::int64_t d = 0; d < count; d += kStripRows) {
    transpose_square(&strip[0][d], kStrip, out + d * kPanel, kPanel, count - d, kStripRows);
  }
}

/// The matrix turned over, as the right side of a product: its rows are columns.
inline void pack_turned(const Matrix& matrix, float* out) {
  const bool rows_are_neighbours = matrix.operand.row_stride == 1;
  for (std::int64_t r = 0; r < matrix.rows; r += kPanel) {
    const bool is_filled = matrix.rows - r >= kPanel;
    const std::int64_t rows = smaller(kPanel, matrix.rows - r);
    float* panel = out + (r * (matrix.columns + 1)) + kPanel;
    fill(panel - kPanel, (is_filled ? 1 : matrix.columns + 1) * kPanel, 0);
    for (std::int64_t d = 0; rows_are_neighbours && d < matrix.columns; ++d) {
      load_numbers(matrix, matrix.at(r, d), 1, rows, panel + d * kPanel);
    }
    for (std::int64_t i = 0; !rows_are_neighbours && i < rows; i += kStripRows) {
      for (std::int64_t d = 0; d < matrix.columns; d += kStrip) {
        const std::int64_t count = smaller(kStrip, matrix.columns - d);
        float strip[kStripRows][kStrip];
        for (std::int64_t j = 0; j < kStripRows; ++j) {
          if (i + j < rows) {
            load_numbers(matrix, matrix.at(r + i + j, d), matrix.operand.column_stride, count, strip[j]);
          } else {
            fill(strip[j], kStrip, 0);
          }
        }
        turn_over(strip, count, panel + d * kPanel + i);
      }
    }
  }
}

#ifdef __AVX512VNNI__
/// Products of bytes add four columns at once.
constexpr std::int64_t kGroup = 4;

inline std::int64_t groups_of(std::int64_t columns) { return (columns + kGroup - 1) / kGroup; }

/// `count` bytes of a row; those of the wrong sign are moved by 128, and so is their zero point.
inline void load_bytes(const Matrix& matrix, std::int64_t row, std::int64_t column, std::int64_t count,
                       std::uint8_t flip, std::uint8_t* out) {
  const auto* from = static_cast<const std::uint8_t*>(matrix.data) + matrix.at(row, column);
  const std::int64_t stride = matrix.operand.column_stride;
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = from[i] ^ flip;
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = from[i * stride] ^ flip;
  }
}

inline void pack_rows_of_bytes(const Matrix& matrix, std::int64_t begin, std::int64_t count, float* out) {
  const std::uint8_t flip = matrix.operand.dtype == Dtype::U8 ? 128 : 0;
  const std::int64_t groups = groups_of(matrix.columns);
  for (std::int64_t r = 0; r < count; ++r) {
    out[(r + 1) * groups - 1] = 0;
    load_bytes(matrix, begin + r, 0, matrix.columns, flip, reinterpret_cast<std::uint8_t*>(out + r * groups));
  }
}

/// The matrix as the right side of a product of words: two rows stand beside each other.
inline void pack_columns_of_words(const Matrix& matrix, float* out) {
  const std::uint8_t flip = matrix.operand.dtype == Dtype::S8 ? 128 : 0;
  const auto zero = static_cast<std::int16_t>(matrix.operand.zero_point + flip);
  for (std::int64_t c = 0; c < matrix.columns; c += kPanel) {
    const std::int64_t columns = smaller(kPanel, matrix.columns - c);
    fill(out, kPanel, 0);
    out += kPanel;
    for (std::int64_t r = 0; r < matrix.rows; r += 2) {
      std::uint8_t bytes[2][kPanel];
      std::int16_t words[kPanel][2] = {};
      load_bytes(matrix, r, c, columns, flip, bytes[0]);
      if (r + 1 < matrix.rows) load_bytes(matrix, r + 1, c, columns, flip, bytes[1]);
      for (std::int64_t i = 0; i < columns; ++i) {
        words[i][0] = static_cast<std::int16_t>(bytes[0][i] - zero);
        words[i][1] = static_cast<std::int16_t>(bytes[1][i] - zero);
      }
      __builtin_memcpy(out, words, sizeof words);
      out += kPanel;
    }
  }
}

/// The first row of each panel holds what the zero point of the other side adds to the sums of a column. What
/// the zero point of this side adds is the same for a whole row of scores, and changes no softmax.
inline void pack_turned_bytes(const Matrix& matrix, int other_zero_point, float* out) {
  const std::uint8_t flip = matrix.operand.dtype == Dtype::S8 ? 128 : 0;
  const std::int64_t groups = groups_of(matrix.columns);
  fill(out, panels_of(matrix.rows) * (groups + 1) * kPanel, 0);
  for (std::int64_t r = 0; r < matrix.rows; r += kStripRows) {
    const std::int64_t rows = smaller(kStripRows, matrix.rows - r);
    float* column = out + r / kPanel * kPanel * (groups + 1) + r % kPanel;
    std::int32_t sums[kStripRows] = {};
    for (std::int64_t d = 0; d < matrix.columns; d += kStrip * kGroup) {
      const std::int64_t count = smaller(kStrip * kGroup, matrix.columns - d);
      float strip[kStripRows][kStrip];
      for (std::int64_t j = 0; j < rows; ++j) {
        strip[j][groups_of(count) - 1] = 0;
        auto* bytes = reinterpret_cast<std::uint8_t*>(strip[j]);
        load_bytes(matrix, r + j, d, count, flip, bytes);
        for (std::int64_t i = 0; i < count; ++i) sums[j] += bytes[i];
      }
      turn_over(strip, groups_of(count), column + (d / kGroup + 1) * kPanel);
    }
    for (auto& sum : sums) sum *= -other_zero_point;
    __builtin_memcpy(column, sums, sizeof sums);
  }
}
#endif

}  // namespace
}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
