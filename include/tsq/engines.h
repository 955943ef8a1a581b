#pragma once

#include <c10/core/QEngine.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tsq {

/// The name of an engine as tsq writes it: "x86".
std::string engine_name(at::QEngine engine);

/// The engines of LibTorch 2.13 that have `kernel`, with or without its overload; empty: every one. Found by
/// running every kernel of the tables on every engine, as tests/cli/engines_test.cpp does.
std::span<const std::string_view> engines_of(std::string_view kernel);

/// Every quantized kernel that lowering may put into a file, each once and without its overload.
std::vector<std::string> all_kernels();

}  // namespace tsq
