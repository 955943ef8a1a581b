#include "cli/process/evaluation_program.h"

#include <c10/util/StringUtil.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <tsq/error.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <system_error>

#include "cli/process/spawn.h"

namespace tsq::cli {
namespace {

namespace fs = std::filesystem;

/// Of what the program prints, as much of the end is kept.
constexpr std::size_t kKept = 1 << 16;

[[noreturn]] void refuse_program(const std::string& command, const std::string& problem) {
  throw Error(ErrorCode::BadConfig, fmt::format("the evaluation program '{}' {}", command, problem),
              "it must print the model's score as its last number and exit with 0");
}

std::string in_quotes(std::string path) {
  c10::ReplaceAll(path, "'", "'\\''");
  return "'" + path + "'";
}

std::string with_path(std::string command, const std::string& model) {
  const std::string path = in_quotes(model);
  return c10::ReplaceAll(command, "{}", path) > 0 ? command : command + " " + path;
}

/// The end of what comes out of a pipe, which is closed.
std::string read_all(int pipe) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > 2 * kKept) text.erase(0, text.size() - kKept);
  }
  ::close(pipe);
  return text;
}

std::string last_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string last;
  for (std::string line; std::getline(stream, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  constexpr std::size_t kLongest = 200;
  return last.substr(0, kLongest);
}

void check_status(const std::string& command, int status, const fs::path& errors) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  const std::string said = last_line(errors);
  refuse_program(command,
                 fmt::format("{} {}{}", WIFEXITED(status) ? "failed with exit code" : "was ended by signal",
                             WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
                             said.empty() ? "" : fmt::format(": {}", said)));
}

}  // namespace

std::optional<double> last_number(std::string_view text) {
  std::optional<double> last;
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    double number = 0;
    const auto [after, error] = std::from_chars(at + (*at == '+' ? 1 : 0), end, number);
    if (error == std::errc::invalid_argument) {
      ++at;
      continue;
    }
    const bool begins = at == text.data() || !is_word(at[-1]);
    if (error == std::errc() && begins && (after == end || !is_word(*after))) last = number;
    at = after;
  }
  return last && std::isnan(*last) ? std::nullopt : last;
}

double evaluate_with(const std::string& command, const std::string& model, const fs::path& scratch) {
  const fs::path errors = scratch / "stderr.txt";
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    refuse_program(command, fmt::format("cannot be run: {}", std::strerror(errno)));
  SpawnSettings settings;
  settings.open(STDIN_FILENO, "/dev/null", O_RDONLY);
  settings.redirect(ends[1], STDOUT_FILENO);
  settings.open(STDERR_FILENO, errors, O_WRONLY | O_CREAT | O_TRUNC);
  const pid_t process = settings.start("/bin/sh", {"sh", "-c", with_path(command, model)});
  const int number = errno;
  close(ends[1]);
  if (process < 0) {
    close(ends[0]);
    refuse_program(command, fmt::format("cannot be run: no shell can be started: {}", std::strerror(number)));
  }
  const std::string printed = read_all(ends[0]);
  check_status(command, wait_for_end(process), errors);
  const std::optional<double> score = last_number(printed);
  if (!score) refuse_program(command, "printed no number");
  return *score;
}

}  // namespace tsq::cli
