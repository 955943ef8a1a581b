#pragma once

#include <c10/core/QEngine.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <utility>

namespace tsq::detail {

/// The module as a program that loads its file with this engine gets it: through the bytes of an archive, in
/// eval mode. And the size of the archive in bytes.
std::pair<torch::jit::Module, uint64_t> reloaded_with_size(const torch::jit::Module& module,
                                                           at::QEngine engine);

}  // namespace tsq::detail
