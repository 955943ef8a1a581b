#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Names of functions and classes that a program registers.
namespace tsq {

/// Throws Error(BadConfig) for no name, and for one that is PyTorch's or tsq's. `what`: "fuser".
void check_new_name(std::string_view what, std::string_view name, bool is_shipped);

/// Throws Error(BadConfig). `what` with its article: "a fuser"; `bare` is what the known names are compared
/// with, `own` are the registered ones.
[[noreturn]] void fail_unknown(std::string_view what, std::string_view name, std::string_view bare,
                               std::vector<std::string_view> shipped, const std::vector<std::string>& own);

}  // namespace tsq
