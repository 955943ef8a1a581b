#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/batch_parts.h"
#include "runtime/primitives/arena.h"
#include "runtime/primitives/compilation.h"
#include "runtime/program/moving_slices.h"

/// A program for one set of shapes and integers and one count of threads.
namespace tsq::runtime {

/// What a step is and how long it took.
struct StepTime {
  std::size_t operation = 0;  ///< its place among those that run
  std::string_view kind{};
  std::string name{};  ///< of the operation
  std::string implementation{};
  std::string shape{};
  double microseconds = 0;
};

/// Steps, made once. Any number of threads may run it at once: each gets an arena of its own, which is kept
/// for the next call. A batch may run in parts, each with all steps.
class CompiledProgram {
 public:
  /// `divide` says in which parts a batch runs. Throws MemoryError, before it allocates much, where a call
  /// would need more bytes than `memory_limit`.
  CompiledProgram(const Model& model, std::span<const View> inputs, std::span<const std::int64_t> integers,
                  int threads, PackedWeights& weights, std::int64_t memory_limit,
                  const DivideBatch& divide = divided_batch);
  ~CompiledProgram();
  CompiledProgram(const CompiledProgram&) = delete;
  CompiledProgram& operator=(const CompiledProgram&) = delete;

  /// Tensors lie as `inputs` said at construction; outputs are contiguous.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           std::span<const std::int64_t> integers = {}) const;
  /// The same, one part after the other, with the time of each step: the sum over the parts.
  std::vector<StepTime> profile(std::span<const void* const> inputs, std::span<void* const> outputs,
                                std::span<const std::int64_t> integers = {}) const;

  /// Do these integers of a call, with tensors that lie as those of `inputs`, make the same shapes? Throws
  /// ProgramError where an index leaves its dimension.
  [[nodiscard]] bool fits(std::span<const std::int64_t> integers) const {
    return moving_.begins(integers).has_value();
  }

  /// Frees the arenas that no call uses at this moment. Returns how many bytes they had.
  std::int64_t free_idle_arenas() const;

  [[nodiscard]] const std::vector<Shape>& output_shapes() const { return output_shapes_; }
  [[nodiscard]] const std::vector<Dtype>& output_dtypes() const { return output_dtypes_; }
  [[nodiscard]] const BatchParts& parts() const { return parts_; }
  /// Of one part, as the arena is.
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  [[nodiscard]] std::int64_t arena_bytes() const { return arena_.bytes; }
  /// The bytes that the buffers of the arena would take side by side.
  [[nodiscard]] std::int64_t buffer_bytes() const;
  [[nodiscard]] const Arena& arena() const { return arena_; }

 private:
  class Execution;
  std::unique_ptr<Execution> take() const;
  void give_back(std::unique_ptr<Execution> execution) const;
  /// What one call brings.
  struct Given {
    std::span<const void* const> inputs;
    std::span<void* const> outputs;
    Shape begins{};  ///< of the moving slices
  };
  [[nodiscard]] Given given(std::span<const void* const> inputs, std::span<void* const> outputs,
                            std::span<const std::int64_t> integers) const;
  void run_parts(const Given& given, std::int64_t begin, std::int64_t end) const;

  /// Throws MemoryError where all that a call needs is too much.
  void require_memory(std::int64_t tables, std::int64_t limit) const;
  /// Notes in `input_steps_` how far apart the parts of each input are.
  std::vector<View> inputs_of_part(std::span<const View> inputs, const ResolvedModel& whole,
                                   const std::optional<BatchRows>& batch);

  /// What an operation is called.
  struct Label {
    Kind kind{};
    std::string name{};
  };

  MovingSlices moving_{};
  std::vector<Label> labels_{};  ///< of the operations that run
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  Arena arena_;
  std::vector<Shape> output_shapes_;
  std::vector<Dtype> output_dtypes_;
  BatchParts parts_;
  std::vector<std::int64_t> input_steps_{};  ///< bytes from one part to the next; 0 for what all read
  std::vector<std::int64_t> output_steps_{};
  mutable std::mutex mutex_{};
  mutable std::vector<std::unique_ptr<Execution>> idle_{};
};

}  // namespace tsq::runtime
