#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <tsq/error.h>
#include <tsq/files.h>
#include <tsq/try_load.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/out_of_resources.h"
#include "base/process_limits.h"

namespace tsq {
namespace {

void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(to, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string read_all(int from) {
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t count = 0; (count = ::read(from, part.data(), part.size())) != 0;) {
    if (count < 0 && errno != EINTR) break;
    if (count > 0) text.append(part.data(), static_cast<std::size_t>(count));
  }
  return text;
}

/// In the child: what is wrong with the file and what to do, each on a line; nothing where it loads.
[[noreturn]] void load_and_end(const std::string& path, const LoadLimits& limits, int answers) {
  ::signal(SIGXCPU, SIG_DFL);
  try {
    const ProcessLimits in_limits(limits);
    load(path);
  } catch (const Error& error) {
    write_all(answers, fmt::format("{}\n{}", error.problem(), error.remedy()));
  } catch (const std::exception& error) {
    write_all(answers, fmt::format("'{}' cannot be loaded\n{}", path, error.what()));
  }
  ::_exit(0);
}

Error died(const std::string& path, int signal, const LoadLimits& limits) {
  if (signal == SIGXCPU)
    return Error(ErrorCode::BadModel,
                 fmt::format("loading '{}' takes more than {} s of processor time", path, limits.seconds),
                 "give a file whose code LibTorch reads faster, or larger limits");
  return Error(
      ErrorCode::BadModel,
      fmt::format("LibTorch ends by signal {} ({}) when it loads '{}'", signal, ::strsignal(signal), path),
      "export the model again");
}

}  // namespace

void try_load(const std::string& path) { try_load(path, load_limits(path)); }

void try_load(const std::string& path, const LoadLimits& limits) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw out_of_resources("no pipe can be opened", errno);
  const pid_t child = ::fork();
  if (child == 0) load_and_end(path, limits, ends[1]);
  ::close(ends[1]);
  const int number = errno;
  const std::string answer = child < 0 ? std::string() : read_all(ends[0]);
  ::close(ends[0]);
  if (child < 0) throw out_of_resources("no process can be started", number);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) throw died(path, WTERMSIG(status), limits);
  if (answer.empty()) return;
  const std::size_t end = answer.find('\n');
  throw Error(ErrorCode::BadModel, answer.substr(0, end), answer.substr(end + 1));
}

}  // namespace tsq
