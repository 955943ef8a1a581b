#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace tsq::io {

/// LibTorch takes the values of a file's objects as they are, whatever their classes declare, and its
/// interpreter then trusts the classes. Throws Error(BadModel) that names the first attribute whose value is
/// of another type.
void check_attributes(const std::string& path, const torch::jit::Module& module);

}  // namespace tsq::io
