#pragma once

#include <tsq/bench/measure.h>

#include <nlohmann/json_fwd.hpp>

namespace tsq::cli {

/// The first argument that makes the program a worker of `tsq bench` instead of reading a command line.
constexpr const char* kBenchWorker = "--bench-worker";
/// What the program then does, until its standard input ends: its exit code.
int run_bench_worker();

/// Starts this program as a worker, in a fresh process. Its answers throw Error when it ended.
bench::Ask start_bench_worker();

}  // namespace tsq::cli
