#include "cli/process/bench_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <tsq/error.h>
#include <tsq/library.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/out_of_resources.h"
#include "cli/process/spawn.h"

namespace tsq::cli {
namespace {

/// Where a worker writes its answers: what a model prints must not get among them.
constexpr int kAnswers = 3;

/// A pipe's ends, which programs that are started do not inherit.
std::array<int, 2> new_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw out_of_resources("no pipe to a process that runs the model can be opened", errno);
  return ends;
}

[[noreturn]] void throw_ended(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    throw Error(ErrorCode::OutOfMemory,
                "the process that ran the model was killed, probably for lack of memory",
                "give smaller or fewer samples, or use a machine with more memory");
  throw Error(ErrorCode::BadModel,
              fmt::format("the process that ran the model ended {} {}",
                          WIFSIGNALED(status) ? "by signal" : "with exit code",
                          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)),
              "run the model with 'tsq compare' to see where");
}

std::string line_of(const nlohmann::json& request) {
  try {
    return request.dump() + '\n';
  } catch (const nlohmann::json::type_error&) {
    throw Error(ErrorCode::BadConfig, "the name of a model or of the data is not valid UTF-8",
                "rename the file, or give a link to it");
  }
}

class WorkerProcess {
 public:
  explicit WorkerProcess(const std::vector<std::string>& libraries) {
    const std::array<int, 2> requests = new_pipe();
    const std::array<int, 2> answers = new_pipe();
    SpawnSettings settings;
    settings.redirect(requests[0], STDIN_FILENO);
    settings.redirect(answers[1], kAnswers);
    settings.redirect(STDERR_FILENO, STDOUT_FILENO);
    std::vector<std::string> arguments{"tsq", kBenchWorker};
    arguments.insert(arguments.end(), libraries.begin(), libraries.end());
    process_ = settings.start("/proc/self/exe", arguments);
    const int number = errno;
    close(requests[0]);
    close(answers[1]);
    requests_ = requests[1];
    answers_ = fdopen(answers[0], "r");
    if (process_ < 0) throw out_of_resources("no process that runs the model can be started", number);
  }
  ~WorkerProcess() {
    close(requests_);
    std::fclose(answers_);
    std::free(line_);
    if (process_ > 0) wait_for_end(process_);
  }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  nlohmann::json ask(const nlohmann::json& request) {
    send(line_of(request));
    const ssize_t length = getline(&line_, &capacity_, answers_);
    if (length <= 0) throw_ended(end());
    return nlohmann::json::parse(line_, line_ + length);
  }

 private:
  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::write(requests_, text.data(), text.size());
      if (sent <= 0) throw_ended(end());
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  int end() { return wait_for_end(std::exchange(process_, -1)); }

  pid_t process_{-1};
  int requests_{-1};
  std::FILE* answers_{nullptr};
  char* line_{nullptr};
  std::size_t capacity_{0};
};

}  // namespace

int run_bench_worker(const std::vector<std::string>& libraries) {
  for (const std::string& library : libraries) load_library(library);
  std::ofstream answers(fmt::format("/dev/fd/{}", kAnswers));
  bench::serve(std::cin, answers);
  return 0;
}

bench::Start bench_workers(const Session& session) {
  return [libraries = session.libraries]() -> bench::Ask {
    const auto process = std::make_shared<WorkerProcess>(libraries);
    return [process](const nlohmann::json& request) { return process->ask(request); };
  };
}

}  // namespace tsq::cli
