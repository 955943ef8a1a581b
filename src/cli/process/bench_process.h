#pragma once

#include <tsq/bench/measure.h>

#include <string>
#include <vector>

#include "cli/process/session.h"

namespace tsq::cli {

/// The first argument that makes the program a worker of `tsq bench` instead of reading a command line. The
/// others are libraries that it loads.
constexpr const char* kBenchWorker = "--bench-worker";
/// What the program then does, until its standard input ends: its exit code.
int run_bench_worker(const std::vector<std::string>& libraries);

/// Starts this program as a worker, each time in a fresh process with the session's libraries. Its answers
/// throw Error when it ended.
bench::Start bench_workers(const Session& session);

}  // namespace tsq::cli
