#include "benchmarks/runner/new_process.h"

#include <c10/util/Exception.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

namespace tsq::benchmarks {
namespace {

constexpr const char* kResult = "result";
constexpr const char* kError = "error";

std::string answer_of(const std::function<nlohmann::json()>& work) {
  try {
    return nlohmann::json{{kResult, work()}}.dump();
  } catch (const c10::Error& error) {
    return nlohmann::json{{kError, error.what_without_backtrace()}}.dump();
  } catch (const std::exception& error) {
    return nlohmann::json{{kError, error.what()}}.dump();
  }
}

bool write_all(int file, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  return true;
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = read(file, buffer.data(), buffer.size());
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

nlohmann::json in_new_process(const std::function<nlohmann::json()>& work) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe to a new process: too many files are open");
  std::fflush(stdout);  // what is buffered would be written by both processes
  const pid_t process = fork();
  if (process < 0) throw std::runtime_error("no new process could be started: the system has no room for it");
  if (process == 0) {
    close(ends[0]);
    _exit(write_all(ends[1], answer_of(work)) ? 0 : 1);  // runs no destructors of this process's globals
  }
  close(ends[1]);
  const std::string text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0)
    throw std::runtime_error("a process that measures ended early, with status " + std::to_string(status));
  nlohmann::json answer = nlohmann::json::parse(text);
  if (answer.contains(kError)) throw std::runtime_error(answer[kError].get<std::string>());
  return answer[kResult];
}

}  // namespace tsq::benchmarks
