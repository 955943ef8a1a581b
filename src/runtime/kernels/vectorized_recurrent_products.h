#pragma once

#include "runtime/kernels/recurrent.h"
#include "runtime/kernels/vectorized_packing.h"

/// Products of a recurrent layer's rows with its packed weights.
namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

constexpr std::int64_t filled(std::int64_t number, std::int64_t step) {
  return (number + step - 1) / step * step;
}

/// Weights that one element of packed columns holds.
constexpr std::int64_t weights_of_element(RecurrentForm form) {
  return form == RecurrentForm::Floats ? 1 : form == RecurrentForm::WordsByWords ? 2 : 4;
}

/// A matrix as it is packed, in panels of columns.
struct Packing {
  std::int64_t width;    ///< columns of one gate, in whole panels
  std::int64_t columns;  ///< of all gates
  std::int64_t depth;    ///< elements

  Packing(std::int64_t gates, std::int64_t numbers, std::int64_t weights, RecurrentForm form)
      : width(recurrent_columns(1, numbers)),
        columns(recurrent_columns(gates, numbers)),
        depth((weights + weights_of_element(form) - 1) / weights_of_element(form)) {}

  [[nodiscard]] std::int64_t floats() const { return columns * (depth + 1); }
  /// The first element of a column.
  [[nodiscard]] std::int64_t at(std::int64_t column) const {
    return column / kPanel * kPanel * (depth + 1) + kPanel + column % kPanel;
  }
};

Packing packing_of(const RecurrentMatrix& matrix, RecurrentForm form) {
  return {matrix.gates, matrix.width, matrix.depth, form};
}

std::int64_t packed_floats(const RecurrentMatrix& matrix, RecurrentForm form) {
  return packing_of(matrix, form).floats();
}

/// Number `place` of a packed column, of which an element holds several.
template <typename Number>
Number& packed_number(float* column, std::int64_t place) {
  constexpr std::int64_t kNumbers = sizeof(float) / sizeof(Number);
  return reinterpret_cast<Number*>(column + place / kNumbers * kPanel)[place % kNumbers];
}

void pack_column(const RecurrentMatrix& matrix, RecurrentForm form, std::int64_t row, float* column) {
  for (std::int64_t d = 0; d < matrix.depth; ++d) {
    const std::int64_t at = row * matrix.depth + d;
    if (form == RecurrentForm::Floats) {
      column[d * kPanel] = matrix.codes != nullptr ? static_cast<float>(matrix.codes[at]) : matrix.floats[at];
    } else if (form == RecurrentForm::WordsByWords) {
      const float number = matrix.scales[row] > 0 ? matrix.floats[at] / matrix.scales[row] : 0;
      packed_number<std::int16_t>(column, d) =
          static_cast<std::int16_t>(round_within(number, -kLargestRecurrentWord, kLargestRecurrentWord));
    } else {
      // Codes are moved by 128, to unsigned bytes.
      packed_number<std::uint8_t>(column, d) = static_cast<std::uint8_t>(matrix.codes[at] + 128);
    }
  }
}

void pack_weights(const RecurrentMatrix& matrix, RecurrentForm form, float* out) {
  const Packing packing = packing_of(matrix, form);
  fill(out, packing.floats(), 0);
  for (std::int64_t gate = 0; gate < matrix.gates; ++gate) {
    for (std::int64_t i = 0; i < matrix.width; ++i)
      pack_column(matrix, form, gate * matrix.width + i, out + packing.at(gate * packing.width + i));
  }
}

/// A row's numbers are scale * product + offset.
struct RowScale {
  float scale = 1;
  float offset = 0;
};

#ifdef __AVX512VNNI__
/// Of a row that holds what is no number the sum is any number, which 32 bits may not hold.
inline std::int64_t exact_sum(__m512i numbers) {
  const __m512i lower = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(numbers));
  const __m512i upper = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(numbers, 1));
  return _mm512_reduce_add_epi64(_mm512_add_epi64(lower, upper));
}

/// Rounds numbers, filled up with zeros to `count`, relative to the largest, which becomes `largest_code`.
/// `write` is handed a place and a register of codes.
template <typename Write>
RowScale round_row(const float* numbers, std::int64_t count, float largest_code, const Write& write) {
  Register largest = spread(0);
  Register invalid = spread(0);
  for (std::int64_t i = 0; i < count; i += kRegister) {
    const Register x = load_register(numbers + i);
    largest = larger(larger(x, -x), largest);
    invalid += x * spread(0);
  }
  const float bound = largest_of_lanes(largest);
  const float factor = bound > 0 ? largest_code / bound : 0;
  __m512i sum = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < count; i += kRegister) {
    const __m512i codes = _mm512_cvtps_epi32(load_register(numbers + i) * spread(factor));
    write(i, codes);
    sum = _mm512_add_epi32(sum, codes);
  }
  // What is no number, or infinite, makes its row no number. Columns are unsigned: 128 times the row's codes
  // are too much.
  const float scale = bound / largest_code + sum_of_lanes(invalid);
  return {scale, -128.0F * static_cast<float>(exact_sum(sum)) * scale};
}

inline void store_bytes(void* to, __m512i codes) {
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm512_cvtepi32_epi8(codes));
}

/// Bytes. What rounding takes from the numbers is written to `rest`.
inline RowScale round_to_bytes(const float* numbers, std::int64_t count, float* bytes, float* rest) {
  auto* out = reinterpret_cast<std::int8_t*>(bytes);
  const RowScale row =
      round_row(numbers, count, 127, [&](std::int64_t i, __m512i codes) { store_bytes(out + i, codes); });
  for (std::int64_t i = 0; rest != nullptr && i < count; i += kRegister) {
    const Register codes =
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(out + i))));
    store_register(rest + i, load_register(numbers + i) - codes * spread(row.scale));
  }
  return row;
}

inline RowScale round_to_words(const float* numbers, std::int64_t count, float* words) {
  auto* out = reinterpret_cast<std::int16_t*>(words);
  return round_row(numbers, count, kLargestStateWord, [&](std::int64_t i, __m512i codes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm512_cvtepi32_epi16(codes));
  });
}

/// Words as their upper and lower bytes, both signed, each in a row of its own. Words are exact to 2e-5 of
/// the largest number; bytes would be to 4e-3, and small numbers beside a large one are what a layer that
/// reads a spectrum goes by.
inline RowScale round_to_split_words(const float* numbers, std::int64_t count, float* upper, float* lower) {
  return round_row(numbers, count, kLargestRecurrentWord, [&](std::int64_t i, __m512i codes) {
    // So that the lower byte is signed too.
    const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(codes, _mm512_set1_epi32(128)), 8);
    store_bytes(reinterpret_cast<std::int8_t*>(upper) + i, high);
    store_bytes(reinterpret_cast<std::int8_t*>(lower) + i,
                _mm512_sub_epi32(codes, _mm512_slli_epi32(high, 8)));
  });
}
#endif

/// Multiplies a few rows of numbers by a packed matrix, a panel of each gate at a time, on one thread.
class Products {
 public:
  /// Of `depth` numbers a row, with a matrix that is packed for `form`; the first of its scratch is
  /// `scratch`.
  Products(const RecurrentTask& task, RecurrentForm form, std::int64_t depth, const float* packed,
           const float* scales, float* scratch)
      : form_(form),
        gates_(task.gates()),
        width_(task.width),
        numbers_(depth),
        packing_(task.gates(), task.width, depth, form),
        depth_(filled(packing_.depth, kRegister)),
        packed_(packed),
        scales_(scales),
        sums_(scratch),
        rows_(sums_ + gates_ * kRows * kPanel),
        row_(rows_ + kRows * depth_) {}

  /// Row `r` of the left side. Where it is rounded to bytes, `rest` (if any) is added before, and holds
  /// afterwards what rounding has taken.
  void set_row(std::int64_t r, const float* numbers, std::int64_t stride,
               [[maybe_unused]] float* rest = nullptr) {
    if (form_ == RecurrentForm::Floats)
      return load(Dtype::F32, numbers, 0, stride, numbers_, rows_ + r * depth_);
#ifdef __AVX512VNNI__
    const std::int64_t count = filled(numbers_, kRegister);
    fill(row_ + count - kRegister, kRegister, 0);
    load(Dtype::F32, numbers, 0, stride, numbers_, row_);
    for (std::int64_t i = 0; rest != nullptr && i < count; i += kRegister)
      store_register(row_ + i, load_register(row_ + i) + load_register(rest + i));
    float* to = rows_ + r * rows_of_one() * depth_;
    if (form_ == RecurrentForm::BytesByBytes) scale_[r] = round_to_bytes(row_, count, to, rest);
    if (form_ == RecurrentForm::WordsByBytes) scale_[r] = round_to_split_words(row_, count, to, to + depth_);
    if (form_ == RecurrentForm::WordsByWords) scale_[r] = round_to_words(row_, count, to);
#endif
  }

  /// Sums panel `p` of each gate for the first `count` rows.
  void multiply_panel(std::int64_t p, std::int64_t count) {
    for (std::int64_t gate = 0; gate < gates_; ++gate) {
      const float* panel = packed_ + (gate * packing_.width + p * kPanel) * (packing_.depth + 1);
      const Rows rows{rows_, depth_, count * rows_of_one()};
      const Depth depth{0, packing_.depth};
      const Sums sums{sums_ + gate * kRows * kPanel, kPanel};
      if (registers_of(p) == 1) {
        multiply_by<1>(rows, panel, depth, sums);
      } else {
        multiply_by<2>(rows, panel, depth, sums);
      }
    }
  }

  /// Register `c` of panel `p` of a gate, of row `r`, and `added`.
  [[nodiscard]] Register product(std::int64_t r, std::int64_t gate, std::int64_t p, std::int64_t c,
                                 Register added) const {
    return multiply_add(sum_of(r, gate, c), load_register(scales_ + column(gate, p, c)), added);
  }

  /// What is added to the columns.
  [[nodiscard]] Register addend(std::int64_t gate, std::int64_t p, std::int64_t c) const {
    return load_register(scales_ + packing_.columns + column(gate, p, c));
  }

  [[nodiscard]] std::int64_t columns() const { return packing_.columns; }
  [[nodiscard]] std::int64_t gates() const { return gates_; }
  [[nodiscard]] std::int64_t panels() const { return panels_of(width_); }
  /// Registers of a panel in which there are numbers.
  [[nodiscard]] std::int64_t registers_of(std::int64_t p) const {
    return width_ - p * kPanel > kRegister ? 2 : 1;
  }
  /// Numbers of one row's states.
  [[nodiscard]] std::int64_t states() const { return packing_.width; }
  /// The first float of the scratch after this one's.
  [[nodiscard]] float* end() const { return row_ + filled(numbers_, kRegister); }

 private:
  /// Words have two rows of bytes each.
  static constexpr std::int64_t kRows = 2 * kRecurrentRows;

  /// The place of a register among the columns of all gates.
  [[nodiscard]] std::int64_t column(std::int64_t gate, std::int64_t p, std::int64_t c) const {
    return gate * packing_.width + p * kPanel + c * kRegister;
  }
  [[nodiscard]] std::int64_t rows_of_one() const { return form_ == RecurrentForm::WordsByBytes ? 2 : 1; }

  template <int kRegisters>
  void multiply_by(const Rows& rows, const float* panel, Depth depth, const Sums& sums) const {
#ifdef __AVX512VNNI__
    if (form_ == RecurrentForm::WordsByWords)
      return runtime::TSQ_RUNTIME_ISA::multiply_panel<OfWords, kRegisters>(rows, panel, depth, sums);
    if (form_ != RecurrentForm::Floats)
      return runtime::TSQ_RUNTIME_ISA::multiply_panel<OfBytes, kRegisters>(rows, panel, depth, sums);
#endif
    runtime::TSQ_RUNTIME_ISA::multiply_panel<OfFloats, kRegisters>(rows, panel, depth, sums);
  }

  [[nodiscard]] Register sum_of(std::int64_t r, std::int64_t gate, std::int64_t c) const {
    const float* sum = sums_ + (gate * kRows + r * rows_of_one()) * kPanel + c * kRegister;
    const Register first = load_register(sum);
    const RowScale& row = scale_[r];
    switch (form_) {
      case RecurrentForm::Floats:
        return first;
      case RecurrentForm::BytesByBytes:
        return multiply_add(first, spread(row.scale), spread(row.offset));
      case RecurrentForm::WordsByBytes:
        return multiply_add(first, spread(256 * row.scale),
                            multiply_add(load_register(sum + kPanel), spread(row.scale), spread(row.offset)));
      case RecurrentForm::WordsByWords:
        return first * spread(row.scale);
    }
    return first;
  }

  RecurrentForm form_;
  std::int64_t gates_;
  std::int64_t width_;
  std::int64_t numbers_;
  Packing packing_;
  std::int64_t depth_;  ///< elements from row to row: whole registers are written
  const float* packed_;
  const float* scales_;
  float* sums_;
  float* rows_;
  float* row_;
  RowScale scale_[kRecurrentRows] = {};
};

}  // namespace
}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
