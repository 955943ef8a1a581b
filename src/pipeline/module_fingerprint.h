#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <string_view>

namespace tsq::detail {

/// A hash of what a loaded module computes: the code of its methods, with all that they call, and each number
/// and tensor that it holds, but for the attribute `without`. Modes (`training`) are no part of it, and
/// neither are the names of classes that loading makes unique: the module has the same one after it was saved
/// and loaded again. `parameters_only`: of attributes the parameters, weights and biases alone count, for a
/// run changes others.
std::string fingerprint_of_loaded(const torch::jit::Module& module, std::string_view without,
                                  bool parameters_only = false);

/// A module as it will be once it was saved and loaded again.
torch::jit::Module as_loaded(const torch::jit::Module& module);

}  // namespace tsq::detail
