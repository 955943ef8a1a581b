// Compiled once for each instruction set, as vectorized_elementwise.cpp says, and once more with products of
// bytes.
#include "runtime/kernels/recurrent.h"
#include "runtime/kernels/vectorized_packing.h"

namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

constexpr std::int64_t filled(std::int64_t number, std::int64_t step) {
  return (number + step - 1) / step * step;
}

/// Weights that one element of packed columns holds.
constexpr std::int64_t weights_of_element(RecurrentForm form) {
  return form == RecurrentForm::Floats ? 1 : 4;
}

/// A matrix as it is packed, in panels of columns.
struct Packing {
  std::int64_t width;    ///< columns of one gate
  std::int64_t columns;  ///< of all gates
  std::int64_t packed;   ///< columns; after the upper bytes of words stand the lower ones
  std::int64_t depth;    ///< elements

  Packing(std::int64_t gates, std::int64_t numbers, std::int64_t weights, RecurrentForm form)
      : width(recurrent_columns(1, numbers)),
        columns(recurrent_columns(gates, numbers)),
        packed(form == RecurrentForm::Words ? 2 * columns : columns),
        depth((weights + weights_of_element(form) - 1) / weights_of_element(form)) {}

  [[nodiscard]] std::int64_t floats() const { return panels_of(packed) * kPanel * (depth + 1); }
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

/// Codes are moved by 128, to unsigned bytes.
void write_code(float* column, std::int64_t place, std::int32_t code) {
  reinterpret_cast<std::uint8_t*>(column + place / 4 * kPanel)[place % 4] =
      static_cast<std::uint8_t>(code + 128);
}

void pack_column_of_bytes(const std::int8_t* row, std::int64_t depth, float* column) {
  for (std::int64_t d = 0; d < depth; ++d) write_code(column, d, row[d]);
}

/// The upper byte of a word, so that the lower one is signed too.
constexpr std::int32_t upper_byte(std::int32_t word) { return (word + 128) >> 8; }

void pack_columns_of_words(const float* row, std::int64_t depth, float scale, float* upper, float* lower) {
  for (std::int64_t d = 0; d < depth; ++d) {
    const float number = scale > 0 ? row[d] / scale : 0;
    const std::int32_t word = round_within(number, -kLargestRecurrentWord, kLargestRecurrentWord);
    write_code(upper, d, upper_byte(word));
    write_code(lower, d, word - upper_byte(word) * 256);
  }
}

void pack_column(const RecurrentMatrix& matrix, std::int64_t row, float* column) {
  for (std::int64_t d = 0; d < matrix.depth; ++d) {
    const std::int64_t at = row * matrix.depth + d;
    column[d * kPanel] = matrix.codes != nullptr ? static_cast<float>(matrix.codes[at]) : matrix.floats[at];
  }
}

void pack_weights(const RecurrentMatrix& matrix, RecurrentForm form, float* out) {
  const Packing packing = packing_of(matrix, form);
  fill(out, packing.floats(), 0);
  for (std::int64_t gate = 0; gate < matrix.gates; ++gate) {
    for (std::int64_t i = 0; i < matrix.width; ++i) {
      const std::int64_t row = gate * matrix.width + i;
      const std::int64_t c = gate * packing.width + i;
      float* column = out + packing.at(c);
      if (form == RecurrentForm::Bytes) {
        pack_column_of_bytes(matrix.codes + row * matrix.depth, matrix.depth, column);
      } else if (form == RecurrentForm::Words) {
        pack_columns_of_words(matrix.floats + row * matrix.depth, matrix.depth, matrix.scales[row], column,
                              out + packing.at(packing.columns + c));
      } else {
        pack_column(matrix, row, column);
      }
    }
  }
}

/// A row's numbers are scale * (product - shift).
struct RowScale {
  float scale = 1;
  float shift = 0;
};

#ifdef __AVX512VNNI__
/// Numbers as words of 16 bits, relative to the largest: the upper and the lower byte, both signed, each in a
/// row of its own. `numbers` are filled up with zeros to `count`. Words are exact to 2e-5 of the largest
/// number; bytes would be to 4e-3, and small numbers beside a large one are what a layer that reads a
/// spectrum goes by.
RowScale write_words(const float* numbers, std::int64_t count, std::int8_t* upper, std::int8_t* lower) {
  Register largest = spread(0);
  Register invalid = spread(0);
  for (std::int64_t i = 0; i < count; i += kRegister) {
    const Register x = load_register(numbers + i);
    largest = larger(larger(x, -x), largest);
    invalid += x * spread(0);
  }
  const float bound = largest_of_lanes(largest);
  const float factor = bound > 0 ? kLargestRecurrentWord / bound : 0;
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t word =
        round_within(numbers[i] * factor, -kLargestRecurrentWord, kLargestRecurrentWord);
    const std::int32_t high = upper_byte(word);
    upper[i] = static_cast<std::int8_t>(high);
    lower[i] = static_cast<std::int8_t>(word - high * 256);
    sum += word;
  }
  // What is no number, or infinite, makes its row no number.
  const float scale = bound / kLargestRecurrentWord + sum_of_lanes(invalid);
  return {scale, 128.0F * static_cast<float>(sum)};
}
#endif

/// Multiplies a few rows of numbers by a packed matrix, on one thread.
class Products {
 public:
  Products(const RecurrentTask& task, const RecurrentPointers& pointers, std::int64_t depth)
      : form_(task.form),
        numbers_(depth),
        packing_(task.gates(), task.width, depth, task.form),
        packed_(pointers.packed),
        scales_(pointers.scales),
        stride_(filled(packing_.packed, kPanel)),
        sums_(pointers.scratch),
        rows_(pointers.scratch + 2 * kRecurrentRows * stride_),
        row_(rows_ + 2 * kRecurrentRows * filled(packing_.depth, kRegister)) {}

  /// Row `r` of the left side.
  void set_row(std::int64_t r, const float* numbers, std::int64_t stride) {
#ifdef __AVX512VNNI__
    if (form_ != RecurrentForm::Floats) {
      const std::int64_t count = filled(numbers_, kRegister);
      fill(row_ + count - kRegister, kRegister, 0);
      load(Dtype::F32, numbers, 0, stride, numbers_, row_);
      auto* upper = reinterpret_cast<std::int8_t*>(rows_ + 2 * r * depth());
      words_[r] =
          write_words(row_, count, upper, reinterpret_cast<std::int8_t*>(rows_ + (2 * r + 1) * depth()));
      return;
    }
#endif
    load(Dtype::F32, numbers, 0, stride, numbers_, rows_ + r * depth());
  }

  void multiply_rows(std::int64_t count) {
    const Columns columns{packed_, packing_.depth, packing_.packed};
    const Sums sums{sums_, stride_};
#ifdef __AVX512VNNI__
    if (form_ != RecurrentForm::Floats)
      return multiply<OfBytes>({rows_, depth(), 2 * count}, columns, {0, packing_.depth}, sums);
#endif
    multiply<OfFloats>({rows_, depth(), count}, columns, {0, packing_.depth}, sums);
  }

  /// A register of row `r`'s products, with the addends of their columns.
  [[nodiscard]] Register product(std::int64_t r, std::int64_t column) const {
    const Register scale = load_register(scales_ + column);
    if (form_ == RecurrentForm::Floats)
      return multiply_add(load_register(sums_ + r * stride_ + column), scale, addend(column));
    Register words = words_product(r, column);
    if (form_ == RecurrentForm::Words)
      words = multiply_add(words, spread(256), words_product(r, packing_.columns + column));
    return multiply_add(words * spread(words_[r].scale), scale, addend(column));
  }

  /// The addends alone: products with zeros.
  [[nodiscard]] Register addend(std::int64_t column) const {
    return load_register(scales_ + packing_.columns + column);
  }
  [[nodiscard]] std::int64_t columns() const { return packing_.columns; }
  [[nodiscard]] std::int64_t gate_columns() const { return packing_.width; }
  /// The first float of the scratch after this one's.
  [[nodiscard]] float* end() const { return row_ + filled(numbers_, kRegister); }

 private:
  /// Of row `r`'s words and bytes of a packed column.
  [[nodiscard]] Register words_product(std::int64_t r, std::int64_t column) const {
    const float* upper = sums_ + 2 * r * stride_ + column;
    return multiply_add(load_register(upper), spread(256),
                        load_register(upper + stride_) - spread(words_[r].shift));
  }

  /// From row to row. Whole registers are written.
  [[nodiscard]] std::int64_t depth() const { return filled(packing_.depth, kRegister); }

  RecurrentForm form_;
  std::int64_t numbers_;
  Packing packing_;
  const float* packed_;
  const float* scales_;
  std::int64_t stride_;
  float* sums_;
  float* rows_;
  float* row_;
  RowScale words_[kRecurrentRows] = {};
};

void project(const RecurrentTask& task, const RecurrentPointers& pointers, const float* input,
             std::int64_t begin, std::int64_t end) {
  Products products(task, pointers, task.depth);
  const std::int64_t columns = products.columns();
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t first = unit * kRecurrentRows;
    const std::int64_t count = smaller(kRecurrentRows, task.steps * task.batch - first);
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t row = first + r;
      products.set_row(r, input + row / task.batch * task.input[0] + row % task.batch * task.input[1],
                       task.input[2]);
    }
    products.multiply_rows(count);
    for (std::int64_t r = 0; r < count; ++r) {
      float* gates = pointers.gates + (first + r) * columns;
      for (std::int64_t c = 0; c < columns; c += kRegister) store_register(gates + c, products.product(r, c));
    }
  }
}

/// 1 / x for numbers from 1 to 2 to the power of 126, with a relative error below 2e-7.
inline Register reciprocal(Register x) {
#if defined(__AVX512F__)
  const Register near = _mm512_rcp14_ps(x);
  return near * multiply_add(-x, near, spread(2));
#else
  return spread(1) / x;
#endif
}

inline Register sigmoid(Register x) {
  const Register power = -larger(spread(-126), x * spread(1.44269504F));
  return reciprocal(spread(1) + exp2(power));
}
inline Register hyperbolic_tangent(Register x) { return sigmoid(x + x) * spread(2) - spread(1); }

/// The steps of a few samples, on one thread.
class Steps {
 public:
  Steps(const RecurrentTask& task, const RecurrentPointers& pointers)
      : task_(task),
        pointers_(pointers),
        products_(task, pointers, task.width),
        width_(products_.gate_columns()),
        hidden_(products_.end()),
        cell_(hidden_ + kRecurrentRows * width_) {}

  void run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      first_ = unit * task_.rows;
      count_ = smaller(task_.rows, task_.batch - first_);
      begin_states(pointers_.hidden, task_.hidden, hidden_);
      begin_states(pointers_.cell, task_.cell, cell_);
      for (std::int64_t i = 0; i < task_.steps; ++i) {
        is_zero_ = i == 0 && pointers_.hidden == nullptr;
        step(task_.backward ? task_.steps - 1 - i : i);
      }
      if (task_.lstm) write(cell_, task_.steps);
    }
  }

 private:
  void begin_states(const float* given, const std::array<std::int64_t, 2>& strides, float* states) const {
    fill(states, count_ * width_, 0);
    for (std::int64_t r = 0; given != nullptr && r < count_; ++r)
      load(Dtype::F32, given, (first_ + r) * strides[0], strides[1], task_.width, states + r * width_);
  }

  void write(const float* states, std::int64_t step) const {
    for (std::int64_t r = 0; r < count_; ++r) {
      store(task_.to, pointers_.out, step * task_.output[0] + (first_ + r) * task_.output[1], task_.output[2],
            task_.width, states + r * width_);
    }
  }

  void step(std::int64_t step) {
    for (std::int64_t r = 0; r < count_ && !is_zero_; ++r) products_.set_row(r, hidden_ + r * width_, 1);
    if (!is_zero_) products_.multiply_rows(count_);
    for (std::int64_t r = 0; r < count_; ++r) {
      const float* gates = pointers_.gates + (step * task_.batch + first_ + r) * products_.columns();
      if (task_.lstm) {
        move_lstm(r, gates);
      } else {
        move_gru(r, gates);
      }
    }
    write(hidden_, step);
  }

  [[nodiscard]] Register of_states(std::int64_t r, std::int64_t column) const {
    return is_zero_ ? products_.addend(column) : products_.product(r, column);
  }

  void move_lstm(std::int64_t r, const float* gates) {
    const auto gate = [&](std::int64_t which, std::int64_t i) {
      const std::int64_t column = which * width_ + i;
      return load_register(gates + column) + of_states(r, column);
    };
    for (std::int64_t i = 0; i < width_; i += kRegister) {
      float* cell = cell_ + r * width_ + i;
      const Register kept = sigmoid(gate(1, i)) * load_register(cell);
      const Register state = multiply_add(sigmoid(gate(0, i)), hyperbolic_tangent(gate(2, i)), kept);
      store_register(cell, state);
      store_register(hidden_ + r * width_ + i, sigmoid(gate(3, i)) * hyperbolic_tangent(state));
    }
  }

  void move_gru(std::int64_t r, const float* gates) {
    const auto of_input = [&](std::int64_t which, std::int64_t i) {
      return load_register(gates + which * width_ + i);
    };
    for (std::int64_t i = 0; i < width_; i += kRegister) {
      float* hidden = hidden_ + r * width_ + i;
      const Register reset = sigmoid(of_input(0, i) + of_states(r, i));
      const Register update = sigmoid(of_input(1, i) + of_states(r, width_ + i));
      const Register fresh =
          hyperbolic_tangent(multiply_add(reset, of_states(r, 2 * width_ + i), of_input(2, i)));
      store_register(hidden, multiply_add(update, load_register(hidden) - fresh, fresh));
    }
  }

  const RecurrentTask& task_;
  const RecurrentPointers& pointers_;
  Products products_;
  std::int64_t width_;  ///< of one sample's states, in whole registers
  float* hidden_;
  float* cell_;
  std::int64_t first_ = 0;
  std::int64_t count_ = 0;
  bool is_zero_ = false;  ///< the hidden states are zeros
};

void run_steps(const RecurrentTask& task, const RecurrentPointers& pointers, std::int64_t begin,
               std::int64_t end) {
  Steps(task, pointers).run(begin, end);
}

}  // namespace

extern const RecurrentKernels kRecurrentKernels;
const RecurrentKernels kRecurrentKernels{
#ifdef __AVX512VNNI__
    .has_bytes = true,
#else
    .has_bytes = false,
#endif
    .packed_floats = packed_floats,
    .pack = pack_weights,
    .project = project,
    .run = run_steps};

}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
