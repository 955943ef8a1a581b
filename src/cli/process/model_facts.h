#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tsq::cli {

/// How many of something and how many bytes they take.
struct Amount {
  uint64_t count{0};
  uint64_t numbers{0};
  uint64_t bytes{0};
};

/// An engine and, when the model does not work with it, the reason.
struct EngineFit {
  std::string engine{};
  std::string refusal{};
  std::string doubt{};  ///< why results may be wrong, unless the file was made for this engine
};

/// The fused programs of a model: all together.
struct ProgramFacts {
  std::size_t count{0};
  Amount constants{};                               ///< weights, scales and biases
  std::map<std::string, std::size_t> operations{};  ///< "convolution" → how many
  /// Of the operations, those that compute in float on this processor, since their int8 sums could saturate.
  std::size_t float_operations{0};
};

/// What is inside a model.
struct ModelFacts {
  std::vector<std::string> methods{};  ///< signatures
  Amount parameters{};
  Amount buffers{};
  Amount other_tensors{};   ///< neither: rows of an embedding, the float weights of a recurrent layer
  Amount packed_weights{};  ///< weights within packed parameters of quantized operators
  ProgramFacts programs{};
  std::map<std::string, std::size_t>
      operators{};                   ///< of forward and all that it calls: "aten::relu" → how many
  std::vector<EngineFit> engines{};  ///< empty when the model has no operator that depends on the engine
};

ModelFacts model_facts(const torch::jit::Module& module, const std::string& path);

}  // namespace tsq::cli
