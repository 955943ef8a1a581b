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

/// Why an operator of a file, "quantized::conv_transpose2d" or "aten::relu6", may return wrong results with
/// an engine that the file was not made for; empty where nothing is known against it.
std::string_view wrong_results_of(std::string_view engine, std::string_view op);

/// Every quantized kernel that lowering may put into a file, each once and without its overload.
std::vector<std::string> all_kernels();

}  // namespace tsq
