#include <tsq/runner.h>

#include <string_view>

#include "cli/command_line.h"
#include "cli/process/bench_process.h"
#include "cli/process/interrupt.h"

int main(int argc, char** argv) {
  const bool is_worker = argc == 2 && std::string_view(argv[1]) == tsq::cli::kBenchWorker;
  if (!is_worker) {
    tsq::cli::end_cleanly_on_signals();
    tsq::keep_freed_memory();  // a worker does what the settings of its model say
  }
  tsq::cli::settle_libtorch();
  return is_worker ? tsq::cli::run_bench_worker() : tsq::cli::run(argc, argv);
}
