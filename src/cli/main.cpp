#include "cli/command_line.h"
#include "cli/interrupt.h"

int main(int argc, char** argv) {
  tsq::cli::end_cleanly_on_signals();
  tsq::cli::settle_libtorch();
  return tsq::cli::run(argc, argv);
}
