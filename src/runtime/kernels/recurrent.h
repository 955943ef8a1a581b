#pragma once

#include <cstdint>

#include "runtime/kernels/kernels.h"

/// LSTM and GRU: one layer in one direction. Gates stand in PyTorch's order: input, forget, cell, output;
/// reset, update, new.
namespace tsq::runtime {

/// Rows (of a step and a sample) whose products are computed at once.
inline constexpr std::int64_t kRecurrentRows = 16;

/// What is multiplied: numbers of the input or the states by weights. Bytes and words are relative to the
/// largest number of their row.
enum class RecurrentForm : std::uint8_t {
  Floats,        ///< floats by floats
  BytesByBytes,  ///< states by int8 weights
  WordsByBytes,  ///< an input of any values by int8 weights, with the upper and the lower byte of each word
  WordsByWords,  ///< states by float weights
};

/// A matrix of weights: for each gate as many rows as the layer is wide. `codes` or `floats`.
struct RecurrentMatrix {
  std::int64_t gates = 4;
  std::int64_t width = 0;
  std::int64_t depth = 0;  ///< of its rows
  const std::int8_t* codes = nullptr;
  const float* floats = nullptr;
  const float* scales = nullptr;  ///< of the words that `floats` become, one for each row
};

/// The largest word whose upper byte, after rounding, is one: 127 * 256 + 127.
inline constexpr float kLargestRecurrentWord = 32639;
/// The largest word of states that are multiplied by words: states lie between -1 and 1, and 13 bits of them
/// leave as many to the weights before their sum leaves 32.
inline constexpr float kLargestStateWord = 4095;

struct RecurrentTask {
  bool lstm = true;
  bool backward = false;                             ///< from the last step to the first
  RecurrentForm form = RecurrentForm::Floats;        ///< of the products with states
  RecurrentForm input_form = RecurrentForm::Floats;  ///< of those with the input
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t depth = 0;  ///< of the input
  std::int64_t width = 0;
  std::int64_t rows = kRecurrentRows;  ///< samples whose steps are computed at once
  /// Steps for which a thread computes what the input adds to the gates of its samples, before it runs them;
  /// 0: `project` has done that for all.
  std::int64_t steps_at_once = 0;
  /// Threads that share the columns of each step, and meet after it; the samples are one unit then. 1: each
  /// thread runs all steps of its samples by itself.
  std::int64_t shares = 1;
  std::array<std::int64_t, 3> input{};  ///< strides: steps, samples, numbers
  std::array<std::int64_t, 3> output{};
  std::array<std::int64_t, 2> hidden{};  ///< strides of first states that are given: samples, numbers
  std::array<std::int64_t, 2> cell{};
  Rounding to{};

  [[nodiscard]] std::int64_t gates() const { return lstm ? 4 : 3; }
  [[nodiscard]] std::int64_t input_units() const {
    return (steps * batch + kRecurrentRows - 1) / kRecurrentRows;
  }
  [[nodiscard]] std::int64_t units() const { return shares > 1 ? shares : (batch + rows - 1) / rows; }
};

struct RecurrentPointers {
  void* out = nullptr;
  /// What the input adds: `recurrent_columns` for each step and sample, as kernels order them. None where a
  /// thread computes it by itself.
  float* gates = nullptr;
  const float* hidden = nullptr;  ///< first states, if they are given
  const float* cell = nullptr;
  const float* packed = nullptr;  ///< the weights of states
  const float* scales = nullptr;  ///< of each column, and then what is added to each
  float* shared = nullptr;        ///< states of all samples before and after a step, where threads share it
  const float* input = nullptr;
  const float* input_packed = nullptr;
  const float* input_scales = nullptr;
  float* scratch = nullptr;  ///< of the calling thread
};

/// Numbers of all gates, each filled up to whole panels of columns.
std::int64_t recurrent_columns(std::int64_t gates, std::int64_t width);
/// Floats that a thread works in, whatever kernel it runs.
std::int64_t recurrent_scratch(const RecurrentTask& task);

/// The kernels of one instruction set.
struct RecurrentKernels {
  bool has_bytes;  ///< has products of bytes
  std::int64_t (*packed_floats)(const RecurrentMatrix& matrix, RecurrentForm form);
  void (*pack)(const RecurrentMatrix& matrix, RecurrentForm form, float* out);
  /// What the input adds to the gates. Units: blocks of `kRecurrentRows` rows.
  void (*project)(const RecurrentTask& task, const RecurrentPointers& pointers, std::int64_t begin,
                  std::int64_t end);
  /// The steps. Units: blocks of `rows` samples, or shares of the columns.
  void (*run)(const RecurrentTask& task, const RecurrentPointers& pointers, std::int64_t begin,
              std::int64_t end);
};

/// The best that this processor runs.
const RecurrentKernels& recurrent_kernels();

}  // namespace tsq::runtime
