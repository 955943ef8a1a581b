#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Which engines of LibTorch 2.13 have a kernel, where not all of them do. Found by running every kernel of
/// the tables on every engine, as tests/cli/engines_test.cpp does.
namespace tsq::kernels {

/// The engines that have `kernel`, with or without its overload; empty: every one.
std::span<const std::string_view> engines_of(std::string_view kernel);

/// Every quantized kernel that lowering may put into a file, each once and without its overload.
std::vector<std::string> all_kernels();

}  // namespace tsq::kernels
