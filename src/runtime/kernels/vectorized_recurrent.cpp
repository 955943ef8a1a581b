// Compiled once for each instruction set, as vectorized_elementwise.cpp says, and once more with products of
// bytes.
#include "runtime/kernels/parallel.h"
#include "runtime/kernels/vectorized_recurrent_products.h"

namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

/// Some steps of some samples.
struct Block {
  std::int64_t first_step;
  std::int64_t steps;
  std::int64_t first_sample;
  std::int64_t samples;

  [[nodiscard]] std::int64_t rows() const { return steps * samples; }
};

/// Where the gates of a block's input stand: in the order in which the steps read them, panel by panel of all
/// samples, so that they come out of memory one after the other.
class GatesOfInput {
 public:
  GatesOfInput(const Block& block, const Products& products)
      : sample_(products.gates() * kPanel),
        panel_(block.samples * sample_),
        step_(block.samples * products.columns()) {}

  /// The first number of a sample in the first panel; its gates stand one after the other. The step and the
  /// sample are counted from the block's first.
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

Products products_of_input(const RecurrentTask& task, const RecurrentPointers& pointers) {
  return {task, task.input_form, task.depth, pointers.input_packed, pointers.input_scales, pointers.scratch};
}

/// The gates of a block's input from row `begin` to one before `end`, step by step and sample by sample.
void project_rows(const RecurrentTask& task, const float* input, const Block& block, std::int64_t begin,
                  std::int64_t end, Products& products, float* to_gates) {
  const GatesOfInput gates(block, products);
  for (std::int64_t first = begin; first < end; first += kRecurrentRows) {
    const std::int64_t count = smaller(kRecurrentRows, end - first);
    float* of_row[kRecurrentRows];
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t step = (first + r) / block.samples;
      const std::int64_t sample = (first + r) % block.samples;
      const std::int64_t at =
          (block.first_step + step) * task.input[0] + (block.first_sample + sample) * task.input[1];
      products.set_row(r, input + at, task.input[2]);
      of_row[r] = to_gates + gates.first(step, sample);
    }
    for (std::int64_t p = 0; p < products.panels(); ++p) {
      products.multiply_panel(p, count);
      for (std::int64_t r = 0; r < count; ++r) {
        float* to = of_row[r] + p * gates.panel();
        for (std::int64_t gate = 0; gate < products.gates(); ++gate) {
          for (std::int64_t c = 0; c < products.registers_of(p); ++c)
            store_register(to + gate * kPanel + c * kRegister,
                           products.product(r, gate, p, c, products.addend(gate, p, c)));
        }
      }
    }
  }
}

void project(const RecurrentTask& task, const RecurrentPointers& pointers, std::int64_t begin,
             std::int64_t end) {
  Products products = products_of_input(task, pointers);
  const Block all{0, task.steps, 0, task.batch};
  project_rows(task, pointers.input, all, begin * kRecurrentRows, smaller(end * kRecurrentRows, all.rows()),
               products, pointers.gates);
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

/// e to the power of -factor * x, at most 2 to the power of 40, so that three of them multiply: a sigmoid is
/// then wrong by less than 1e-12.
inline Register falling_power(Register x, float factor) {
  return exp2(smaller_numbers(spread(40), x * spread(factor * -1.44269504F)));
}

inline Register sigmoid(Register x) { return reciprocal(spread(1) + falling_power(x, 1)); }
inline Register hyperbolic_tangent(Register x) {
  const Register power = falling_power(x, 2);
  return (spread(1) - power) * reciprocal(spread(1) + power);
}

/// The steps of a few samples, on one thread.
class Steps {
 public:
  Steps(const RecurrentTask& task, const RecurrentPointers& pointers)
      : task_(task),
        pointers_(pointers),
        input_products_(products_of_input(task, pointers)),
        products_(task, task.form, task.width, pointers.packed, pointers.scales, input_products_.end()),
        width_(products_.states()),
        panel_end_(products_.panels()),
        hidden_(products_.end()),
        next_(hidden_),
        cell_(hidden_ + kRecurrentRows * width_),
        rest_(cell_ + kRecurrentRows * width_),
        own_gates_(rest_ + kRecurrentRows * width_) {}

  void run(std::int64_t begin, std::int64_t end) {
    if (task_.shares > 1) return run_share(begin, end);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      first_ = unit * task_.rows;
      count_ = smaller(task_.rows, task_.batch - first_);
      begin_states(pointers_.hidden, task_.hidden, hidden_);
      begin_states(pointers_.cell, task_.cell, cell_);
      fill(rest_, count_ * width_, 0);
      if (task_.steps_at_once == 0) {
        run_steps(0, task_.steps, {0, task_.steps, 0, task_.batch}, pointers_.gates);
      } else {
        for (std::int64_t i = 0; i < task_.steps; i += task_.steps_at_once)
          project_and_run(i, smaller(i + task_.steps_at_once, task_.steps));
      }
      if (task_.lstm) write(cell_, task_.steps);
    }
  }

 private:
  /// The columns from share `begin` to one before `end`, of all samples.
  void run_share(std::int64_t begin, std::int64_t end) {
    panel_begin_ = products_.panels() * begin / task_.shares;
    panel_end_ = products_.panels() * end / task_.shares;
    count_ = task_.batch;
    hidden_ = pointers_.shared;
    next_ = hidden_ + count_ * width_;
    if (begin == 0) begin_states(pointers_.hidden, task_.hidden, hidden_);
    begin_states(pointers_.cell, task_.cell, cell_);
    fill(rest_, count_ * width_, 0);
    is_alone_ = end - begin == task_.shares;
    meet();
    run_steps(0, task_.steps, {0, task_.steps, 0, task_.batch}, pointers_.gates);
    if (task_.lstm) write(cell_, task_.steps);
  }

  void project_and_run(std::int64_t begin, std::int64_t end) {
    const Block block{task_.backward ? task_.steps - end : begin, end - begin, first_, count_};
    project_rows(task_, pointers_.input, block, 0, block.rows(), input_products_, own_gates_);
    run_steps(begin, end, block, own_gates_);
  }

  /// Steps in the order in which they are run; `gates` are those of the block's input.
  void run_steps(std::int64_t begin, std::int64_t end, const Block& block, const float* gates) {
    for (std::int64_t i = begin; i < end; ++i) {
      is_zero_ = i == 0 && pointers_.hidden == nullptr;
      step(task_.backward ? task_.steps - 1 - i : i, block, gates);
    }
  }

  /// Waits for the threads that have the other shares.
  void meet() const {
    if (!is_alone_) runtime::meet();
  }

  void begin_states(const float* given, const std::array<std::int64_t, 2>& strides, float* states) const {
    fill(states, count_ * width_, 0);
    for (std::int64_t r = 0; given != nullptr && r < count_; ++r)
      load(Dtype::F32, given, (first_ + r) * strides[0], strides[1], task_.width, states + r * width_);
  }

  void write(const float* states, std::int64_t step) const {
    const std::int64_t first = panel_begin_ * kPanel;
    const std::int64_t count = smaller(panel_end_ * kPanel, task_.width) - first;
    for (std::int64_t r = 0; r < count_; ++r) {
      const std::int64_t at =
          step * task_.output[0] + (first_ + r) * task_.output[1] + first * task_.output[2];
      store(task_.to, pointers_.out, at, task_.output[2], count, states + r * width_ + first);
    }
  }

  void step(std::int64_t step, const Block& block, const float* gates) {
    const GatesOfInput of_input(block, products_);
    // What rounding takes from a state comes back at the next step: the cell adds states up over many.
    for (std::int64_t r = 0; r < count_ && !is_zero_; ++r)
      products_.set_row(r, hidden_ + r * width_, 1, rest_ + r * width_);
    const float* first = gates + of_input.first(step - block.first_step, first_ - block.first_sample);
    for (std::int64_t p = panel_begin_; p < panel_end_; ++p) {
      if (!is_zero_) products_.multiply_panel(p, count_);
      for (std::int64_t r = 0; r < count_; ++r)
        move(r, p, first + of_input.first(0, r) + p * of_input.panel());
    }
    write(next_, step);
    if (task_.shares > 1) {
      meet();
      float* const before = hidden_;
      hidden_ = next_;
      next_ = before;
    }
  }

  void move(std::int64_t r, std::int64_t p, const float* gates) {
    for (std::int64_t c = 0; c < products_.registers_of(p); ++c) {
      const auto of_input = [&](std::int64_t gate) {
        return load_register(gates + gate * kPanel + c * kRegister);
      };
      const auto with_states = [&](std::int64_t gate, Register added) {
        return is_zero_ ? added : products_.product(r, gate, p, c, added);
      };
      const std::int64_t at = r * width_ + p * kPanel + c * kRegister;
      if (task_.lstm) {
        move_lstm([&](std::int64_t gate) { return with_states(gate, of_input(gate)); }, next_ + at,
                  cell_ + at);
      } else {
        const Register reset = sigmoid(with_states(0, of_input(0) + products_.addend(0, p, c)));
        const Register update = sigmoid(with_states(1, of_input(1) + products_.addend(1, p, c)));
        const Register of_states = with_states(2, products_.addend(2, p, c));
        const Register fresh = hyperbolic_tangent(multiply_add(reset, of_states, of_input(2)));
        store_register(next_ + at, multiply_add(update, load_register(hidden_ + at) - fresh, fresh));
      }
    }
  }

  template <typename Gate>
  static void move_lstm(const Gate& gate, float* hidden, float* cell) {
    // sigmoid(forget) * cell + sigmoid(input) * tanh(fresh) over one denominator, then the same of the hidden
    // state: a reciprocal costs as much as half a power.
    const Register forget = spread(1) + falling_power(gate(1), 1);
    const Register input = spread(1) + falling_power(gate(0), 1);
    const Register fresh = falling_power(gate(2), 2);
    const Register added = input * (spread(1) + fresh);
    const Register state =
        multiply_add(load_register(cell), added, (spread(1) - fresh) * forget) * reciprocal(forget * added);
    store_register(cell, state);
    const Register power = falling_power(state, 2);
    const Register output = spread(1) + falling_power(gate(3), 1);
    store_register(hidden, (spread(1) - power) * reciprocal(output * (spread(1) + power)));
  }

  const RecurrentTask& task_;
  const RecurrentPointers& pointers_;
  Products input_products_;
  Products products_;
  std::int64_t width_;  ///< of one sample's states, in whole panels
  bool is_alone_ = false;
  std::int64_t panel_begin_ = 0;  ///< the columns that are this thread's
  std::int64_t panel_end_;
  float* hidden_;
  float* next_;  ///< the hidden states after a step
  float* cell_;
  float* rest_;       ///< what rounding has taken from the hidden states
  float* own_gates_;  ///< of some steps of the input
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
