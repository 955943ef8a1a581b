#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace tsq::io {

/// The arrays of a numpy file, in the file's order, as CPU tensors that own their memory.
using NamedArrays = std::vector<std::pair<std::string, at::Tensor>>;

/// Whether a file begins as `.npy` does.
bool is_npy(const std::string& path);
/// Whether a file is a zip archive whose members are `.npy` files.
bool is_npz(const std::string& path);

/// Reads one array. Throws Error(BadData) naming the file for a broken header, a dtype that tensors do not
/// have, or a size that is not the header's.
at::Tensor read_npy(const std::string& path);
/// Reads every array of an archive, names without ".npy". Throws Error(BadData).
NamedArrays read_npz(const std::string& path);

}  // namespace tsq::io
