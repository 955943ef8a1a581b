#pragma once

#include <c10/core/QEngine.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/sample.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tsq::report {

/// What an operator computes with.
enum class Numbers { Int8, Float, Conversion, Other };
std::string_view to_string(Numbers numbers);

/// An operator that ran, or an operation of a program that ran, and which ones it reads.
struct RunOperator {
  std::string kind{};   ///< "quantized::conv2d_relu"
  std::string layer{};  ///< "features.0.conv"; may be empty
  std::vector<std::size_t> inputs{};
  std::vector<int64_t> shape{};  ///< of its first output
  Numbers numbers{};
  std::optional<std::size_t> program{};  ///< the calls of programs before the one that it belongs to
  std::size_t steps{1};                  ///< of its kind that it has in the program
};

/// The operators of one run of a model with its engine, in their order, and the operations of its programs in
/// place of their calls. LibTorch has optimized the model before. `unfrozen`: of a model that was frozen
/// after it was loaded, what it was.
std::vector<RunOperator> operators_of_run(const torch::jit::Module& module, at::QEngine engine,
                                          const Sample& sample, const torch::jit::Module* unfrozen = nullptr);

}  // namespace tsq::report
