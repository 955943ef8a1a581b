#include "cli/process/supervisor.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tsq/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <optional>
#include <vector>

#include "base/out_of_resources.h"
#include "base/process_limits.h"
#include "cli/process/failure.h"
#include "cli/process/given_paths.h"
#include "cli/process/interrupt.h"
#include "cli/process/loading.h"
#include "cli/process/model_file.h"

namespace tsq::cli {
namespace {

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, number);
  return signals;
}

[[noreturn]] void work_and_end(const Session& session, pid_t supervisor, const sigset_t& mask,
                               const std::function<int()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != supervisor) std::_Exit(0);  // it has ended already
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  try {
    end_cleanly_on_signals();
  } catch (const Error& error) {
    std::exit(explain(error, session.json));
  }
  std::exit(work());
}

/// Passes signals on until the child has ended: its status.
int wait_for(pid_t child) {
  const sigset_t signals = watched_signals();
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    int number = 0;
    if (sigwait(&signals, &number) == 0 && number != SIGCHLD) kill(child, number);
  }
}

[[noreturn]] void end_by(int number, const sigset_t& mask) {
  std::signal(number, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  std::raise(number);
  std::_Exit(128 + number);  // blocked when the program was started
}

Error killed_for_memory() {
  return Error(ErrorCode::OutOfMemory, "the work was killed, probably for lack of memory",
               "give smaller or fewer samples, or use a machine with more memory");
}

/// What LibTorch does in the child is more than it survives.
Error died_of_a_file(int number) {
  const std::string does = what_libtorch_does();
  if (number == SIGXCPU)
    return Error(ErrorCode::BadModel, fmt::format("LibTorch takes too long when it {}", does),
                 "export the model again");
  return Error(ErrorCode::BadModel,
               fmt::format("LibTorch ends by signal {} ({}) when it {}", number, strsignal(number), does),
               "the file is damaged, or has code that LibTorch does not survive: export the model again");
}

/// Loads the files that the command reads, and runs the models among them on the first sample of the data
/// among them: nothing of tsq works on them.
[[noreturn]] void use_files_and_end(const Session& session) {
  const ProcessLimits limits({.bytes = std::int64_t{1} << 40, .seconds = 10});
  try {
    set_up(session);
    std::vector<ModelFile> models;
    std::vector<std::string> others;
    for (const GivenPath& given : given_paths(session.path_options).inputs) {
      try {
        models.push_back(load_any(given.file));
      } catch (const std::exception&) {
        others.push_back(given.file);
      }
    }
    for (ModelFile& model : models) {
      for (const std::string& data : others) {
        try {
          const std::vector<Sample> samples = load_samples(data, model.module);
          const LibTorchDoes doing(fmt::format("runs '{}' on the first sample of '{}'", model.path, data));
          run(model, samples.front(), 0);
        } catch (const std::exception&) {
          // Its own refusal.
        }
      }
    }
  } catch (const std::exception&) {
    // What is wrong with a file the work has said, or it did not come so far.
  }
  std::_Exit(0);
}

/// Whether LibTorch alone dies of the files, too: then they are at fault.
std::optional<Error> fault_of_files(const Session& session) {
  const pid_t child = fork();
  if (child == 0) use_files_and_end(session);
  const int status = child < 0 ? 0 : wait_for(child);
  const bool died = WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGXCPU;
  return died ? std::optional(died_of_a_file(WTERMSIG(status))) : std::nullopt;
}

Error died(int number, const Session& session) {
  if (number == SIGKILL) return killed_for_memory();
  if (!what_libtorch_does().empty()) return died_of_a_file(number);
  if (const std::optional<Error> fault = fault_of_files(session)) return *fault;
  return Error(ErrorCode::Internal, fmt::format("ended by signal {} ({})", number, strsignal(number)),
               "please report it, with the command and its files");
}

}  // namespace

int supervise(const Session& session, const std::function<int()>& work) {
  share_what_libtorch_does();
  const sigset_t signals = watched_signals();
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, &signals, &mask);
  const pid_t supervisor = getpid();
  const pid_t child = fork();
  if (child == 0) work_and_end(session, supervisor, mask, work);
  if (child < 0) return explain(out_of_resources("no process can be started", errno), session.json);
  const int status = wait_for(child);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  if (number == SIGINT || number == SIGTERM || number == SIGHUP) end_by(number, mask);
  return explain(died(number, session), session.json);
}

}  // namespace tsq::cli
