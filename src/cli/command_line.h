#pragma once

namespace tsq::cli {

/// LibTorch's warnings stay silent, and what a model prints goes to standard error. Once, before any work.
void settle_libtorch();

/// What the program does with its arguments, the first being its name: the exit code.
int run(int argc, const char* const* argv);

}  // namespace tsq::cli
