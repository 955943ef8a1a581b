#include "cli/program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace tsq::testing {
namespace {

constexpr std::chrono::minutes kPatience{2};

std::string temporary_file() {
  std::string name = (std::filesystem::temp_directory_path() / "tsq-cli-test-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file < 0) throw std::runtime_error("no temporary file");
  close(file);
  return name;
}

void redirect(int stream, const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_TRUNC);
  dup2(file, stream);
  close(file);
}

#if defined(__SANITIZE_ADDRESS__)
/// AddressSanitizer has a line of its own for each allocation that is too large.
std::string said(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("WARNING: AddressSanitizer failed to allocate") == std::string::npos) kept += line + '\n';
  }
  return kept;
}
#else
std::string said(const std::string& path) { return read_file(path); }
#endif

}  // namespace

Program::Program(const std::vector<std::string>& arguments, std::size_t largest_file, const std::string& file)
    : out_path_(temporary_file()), err_path_(temporary_file()) {
  std::vector<char*> argv{const_cast<char*>("tsq")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  process_ = fork();
  if (process_ != 0) return;
  redirect(STDOUT_FILENO, out_path_);
  redirect(STDERR_FILENO, err_path_);
  if (largest_file > 0) {
    const rlimit limit{.rlim_cur = largest_file, .rlim_max = largest_file};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  execv(file.empty() ? TSQ_PROGRAM : file.c_str(), argv.data());
  _exit(127);
}

Program::~Program() {
  if (!ended_) {
    kill(process_, SIGKILL);
    reap(0);
  }
  std::filesystem::remove(out_path_);
  std::filesystem::remove(err_path_);
}

void Program::send(int signal) const { kill(process_, signal); }

void Program::reap(int options) {
  if (!ended_ && waitpid(process_, &status_, options) == process_) ended_ = true;
}

bool Program::running() {
  reap(WNOHANG);
  return !ended_;
}

Outcome Program::wait() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (running() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!ended_) {
    send(SIGKILL);
    reap(0);
  }
  Outcome outcome{.out = read_file(out_path_), .err = said(err_path_)};
  if (WIFEXITED(status_)) outcome.exit_code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) outcome.signal = WTERMSIG(status_);
  return outcome;
}

Outcome tsq(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  // What a stopwatch shows decides nothing in a test, and its models are too small for int8 to pay.
  if (!words.empty() && words.front() == "quantize") words.insert(words.end(), {"--no-check", "--force"});
  return Program(words).wait();
}

void copy_program(const std::string& file) { std::filesystem::copy_file(TSQ_PROGRAM, file); }

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace tsq::testing
