// Compiled once for each instruction set, as vectorized_elementwise.cpp says, and once more with products of
// bytes.
#include "runtime/kernels/vectorized_recurrent_products.h"

namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

/// Where the gates of an input stand: in the order in which the steps read them, panel by panel of all
/// samples, so that they come out of memory one after the other.
class GatesOfInput {
 public:
  GatesOfInput(const RecurrentTask& task, const Products& products)
      : sample_(products.gates() * kPanel),
        panel_(task.batch * sample_),
        step_(task.batch * products.columns()) {}

  /// The first number of a sample in the first panel; its gates stand one after the other.
  [[nodiscard]] std::int64_t first(std::int64_t step, std::int64_t sample) const {
    return step * step_ + sample * sample_;
  }
  /// Numbers from panel to panel.
  [[nodiscard]] std::int64_t panel() const { return panel_; }

 private:
  std::int64_t sample_;
  std::int64_t panel_;
  std::int64_t step_;
};

void project(const RecurrentTask& task, const RecurrentPointers& pointers, const float* input,
             std::int64_t begin, std::int64_t end) {
  Products products(task, pointers, task.depth);
  const GatesOfInput gates(task, products);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t first = unit * kRecurrentRows;
    const std::int64_t count = smaller(kRecurrentRows, task.steps * task.batch - first);
    float* of_row[kRecurrentRows];
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t step = (first + r) / task.batch;
      const std::int64_t sample = (first + r) % task.batch;
      products.set_row(r, input + step * task.input[0] + sample * task.input[1], task.input[2]);
      of_row[r] = pointers.gates + gates.first(step, sample);
    }
    for (std::int64_t p = 0; p < products.panels(); ++p) {
      products.multiply_panel(p, count);
      for (std::int64_t r = 0; r < count; ++r) {
        float* to = of_row[r] + p * gates.panel();
        for (std::int64_t gate = 0; gate < products.gates(); ++gate) {
          for (std::int64_t c = 0; c < products.registers_of(p); ++c)
            store_register(to + gate * kPanel + c * kRegister, products.product(r, gate, p, c));
        }
      }
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
        gates_(task, products_),
        width_(products_.states()),
        hidden_(products_.end()),
        cell_(hidden_ + kRecurrentRows * width_),
        rest_(cell_ + kRecurrentRows * width_) {}

  void run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      first_ = unit * task_.rows;
      count_ = smaller(task_.rows, task_.batch - first_);
      begin_states(pointers_.hidden, task_.hidden, hidden_);
      begin_states(pointers_.cell, task_.cell, cell_);
      fill(rest_, count_ * width_, 0);
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
    // What rounding takes from a state comes back at the next step: the cell adds states up over many.
    for (std::int64_t r = 0; r < count_ && !is_zero_; ++r)
      products_.set_row(r, hidden_ + r * width_, 1, rest_ + r * width_);
    for (std::int64_t p = 0; p < products_.panels(); ++p) {
      if (!is_zero_) products_.multiply_panel(p, count_);
      for (std::int64_t r = 0; r < count_; ++r)
        move(r, p, pointers_.gates + gates_.first(step, first_ + r) + p * gates_.panel());
    }
    write(hidden_, step);
  }

  void move(std::int64_t r, std::int64_t p, const float* gates) {
    for (std::int64_t c = 0; c < products_.registers_of(p); ++c) {
      const auto of_input = [&](std::int64_t gate) {
        return load_register(gates + gate * kPanel + c * kRegister);
      };
      const auto of_states = [&](std::int64_t gate) {
        return is_zero_ ? products_.addend(gate, p, c) : products_.product(r, gate, p, c);
      };
      const std::int64_t at = r * width_ + p * kPanel + c * kRegister;
      if (task_.lstm) {
        move_lstm(of_input, of_states, hidden_ + at, cell_ + at);
      } else {
        move_gru(of_input, of_states, hidden_ + at);
      }
    }
  }

  template <typename Input, typename States>
  static void move_lstm(const Input& of_input, const States& of_states, float* hidden, float* cell) {
    const auto gate = [&](std::int64_t which) { return of_input(which) + of_states(which); };
    const Register kept = sigmoid(gate(1)) * load_register(cell);
    const Register state = multiply_add(sigmoid(gate(0)), hyperbolic_tangent(gate(2)), kept);
    store_register(cell, state);
    store_register(hidden, sigmoid(gate(3)) * hyperbolic_tangent(state));
  }

  template <typename Input, typename States>
  static void move_gru(const Input& of_input, const States& of_states, float* hidden) {
    const Register reset = sigmoid(of_input(0) + of_states(0));
    const Register update = sigmoid(of_input(1) + of_states(1));
    const Register fresh = hyperbolic_tangent(multiply_add(reset, of_states(2), of_input(2)));
    store_register(hidden, multiply_add(update, load_register(hidden) - fresh, fresh));
  }

  const RecurrentTask& task_;
  const RecurrentPointers& pointers_;
  Products products_;
  GatesOfInput gates_;
  std::int64_t width_;  ///< of one sample's states, in whole panels
  float* hidden_;
  float* cell_;
  float* rest_;  ///< what rounding has taken from the hidden states
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
