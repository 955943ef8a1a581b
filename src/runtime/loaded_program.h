#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/program/program.h"
#include "runtime/program_cache.h"

/// A program that is ready to be called, without any of LibTorch's types.
namespace tsq::runtime {

/// A tensor of the caller. Strides count elements.
struct InputTensor {
  Dtype dtype = Dtype::F32;
  std::span<const std::int64_t> sizes{};
  std::span<const std::int64_t> strides{};
  const void* data = nullptr;
};

/// Safe to be called from several threads.
class LoadedProgram {
 public:
  /// Takes a sentence for people.
  using Tell = std::function<void(const std::string& sentence)>;

  /// Validates the model; without exact int8 sums, operations that could saturate run in float. `tell` hears
  /// once if calls bring ever new shapes, so that each compiles the program.
  explicit LoadedProgram(Model model, Tell tell = {});

  /// Throws ProgramError unless a call brings so many tensors and integers.
  void require_counts(std::size_t tensors, std::size_t integers) const;

  /// What runs tensors like these with these integers. Throws ProgramError if they do not fit.
  std::shared_ptr<const CompiledProgram> compiled(std::span<const InputTensor> inputs,
                                                  std::span<const std::int64_t> integers, int threads);

  /// Whether slices alone read a tensor of the call: it is not worth a copy in another layout.
  [[nodiscard]] bool is_only_sliced(std::size_t input) const { return is_only_sliced_[input]; }
  [[nodiscard]] const Model& model() const { return model_; }
  /// How many operations run in float because their sums could saturate here.
  [[nodiscard]] int float_operations() const { return float_operations_; }
  [[nodiscard]] std::size_t compiled_programs() const { return cache_.size(); }
  [[nodiscard]] std::size_t packed_weights() const { return weights_.size(); }

 private:
  void check(std::span<const InputTensor> inputs, std::span<const std::int64_t> integers) const;
  ProgramCache::Built built(std::span<const InputTensor> inputs, std::span<const std::int64_t> integers,
                            int threads);
  void tell_if_useless();

  Model model_;
  Model legal_;
  int float_operations_ = 0;
  std::vector<bool> is_only_sliced_{};  ///< by input
  PackedWeights weights_{};
  ProgramCache cache_;
  Tell tell_;
};

/// The times of the steps as JSON: a list of {"operation", "kind", "name", "implementation", "shape",
/// "microseconds"}.
std::string profile_json(std::span<const StepTime> times);

}  // namespace tsq::runtime
