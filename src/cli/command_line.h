#pragma once

namespace tsq::cli {

/// LibTorch's warnings stay silent, and what a model prints goes to standard error. Once, before any work.
void settle_libtorch();

/// What the program does with its arguments, the first being its name: the exit code.
int run(int argc, const char* const* argv);

/// The whole program: a command, or the worker of a bench process. Its exit code.
int run_program(int argc, const char* const* argv);

}  // namespace tsq::cli
