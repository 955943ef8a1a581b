#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstddef>

namespace tsq::testing {

/// How many constants a model's forward quantizes or dequantizes in each run, in its layers too.
std::size_t rounded_constants(const torch::jit::Module& model);

}  // namespace tsq::testing
