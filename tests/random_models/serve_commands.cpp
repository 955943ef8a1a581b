// Runs many commands in one process: reads the arguments of one command a line, as a JSON array, and answers
// each with one line, {"exit": code, "out": text, "error": text}, as the program would have ended. Loading
// LibTorch takes longer than quantizing a small model; here it is loaded once, and each command runs in a
// fork of its own, so that a crash ends that command only.

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <tsq/runner.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"

namespace {

using nlohmann::json;

constexpr unsigned kSecondsPerCommand = 120;

/// A file without a name, for what a command prints.
class Printed {
 public:
  Printed() : file_(std::tmpfile()) {}
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  ~Printed() { std::fclose(file_); }

  void takes_the_place_of(int stream) const { dup2(fileno(file_), stream); }
  [[nodiscard]] std::string text() const {
    std::rewind(file_);
    std::string text;
    std::array<char, 4096> buffer{};
    for (std::size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), file_)) > 0;)
      text.append(buffer.data(), count);
    return text;
  }

 private:
  std::FILE* file_;
};

[[noreturn]] void run_in_child(const std::vector<std::string>& arguments, const Printed& out,
                               const Printed& error) {
  alarm(kSecondsPerCommand);
  out.takes_the_place_of(STDOUT_FILENO);
  error.takes_the_place_of(STDERR_FILENO);
  at::set_num_threads(1);
  std::vector<const char*> argv{"tsq"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const int code = tsq::cli::run(static_cast<int>(argv.size()), argv.data());
  std::cout.flush();
  std::cerr.flush();
  _exit(code);
}

json run_in_fork(const std::vector<std::string>& arguments) {
  const Printed out;
  const Printed error;
  const pid_t child = fork();
  if (child == 0) run_in_child(arguments, out, error);
  int status = 0;
  waitpid(child, &status, 0);
  const bool signalled = WIFSIGNALED(status);
  return {{"exit", signalled ? -WTERMSIG(status) : WEXITSTATUS(status)},
          {"out", out.text()},
          {"error", signalled ? fmt::format("ended by signal {}", WTERMSIG(status)) : error.text()}};
}

}  // namespace

int main() {
  tsq::keep_freed_memory();
  tsq::cli::settle_libtorch();
  std::string line;
  while (std::getline(std::cin, line)) {
    const json answer = run_in_fork(json::parse(line).get<std::vector<std::string>>());
    std::cout << answer.dump(-1, ' ', false, json::error_handler_t::replace) << '\n' << std::flush;
  }
  return 0;
}
