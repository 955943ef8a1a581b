#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace tsq::testing {

/// How the program `tsq` ended, and what it said.
struct Outcome {
  int exit_code{-1};  ///< -1 when a signal ended it
  int signal{0};
  std::string out{};
  std::string err{};
};

/// `tsq` running in a process of its own, with standard output and error caught in files.
class Program {
 public:
  /// `largest_file`: RLIMIT_FSIZE of the process, the nearest thing to a full disk; 0: none. `file`: another
  /// copy of the program; empty: the one that was built.
  explicit Program(const std::vector<std::string>& arguments, std::size_t largest_file = 0,
                   const std::string& file = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void send(int signal) const;
  [[nodiscard]] pid_t process() const noexcept { return process_; }
  /// Whether it still runs.
  bool running();
  /// Waits for the end. After two minutes it is killed: a hang shows as signal 9.
  Outcome wait();

 private:
  void reap(int options);

  pid_t process_{0};
  int status_{0};
  bool ended_{false};
  std::string out_path_;
  std::string err_path_;
};

/// Runs `tsq` to its end; `quantize` with --no-check and --force.
Outcome tsq(const std::vector<std::string>& arguments);

/// Copies the program without the libraries beside it.
void copy_program(const std::string& file);

/// The file's bytes, empty when there is none.
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

}  // namespace tsq::testing
