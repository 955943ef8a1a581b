#pragma once

#include <tsq/quantize.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "cli/session.h"

namespace tsq::cli {

/// One line on standard error that tells how far a long step is. On a terminal it is redrawn in place and
/// wiped at the end; elsewhere a line is printed every half minute, so that a log shows life.
class ProgressLine {
 public:
  ProgressLine(std::string label, bool enabled);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(std::size_t done, std::size_t total);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::string& text);

  std::string label_;
  bool enabled_;
  bool terminal_;
  Clock::time_point begin_{Clock::now()};
  Clock::time_point drawn_{};
};

/// Runs the steps of a command: a progress line while each runs, and the seconds that it took.
class Steps {
 public:
  explicit Steps(const Session& session) : session_(session) {}

  /// `work` gets a Progress to report to.
  template <typename Work>
  auto run(const std::string& name, Work&& work) {
    ProgressLine line(name, !session_.quiet);
    const Stopwatch stopwatch(*this, name);
    return work(Progress([&line](std::size_t done, std::size_t total) { line.update(done, total); }));
  }

  [[nodiscard]] const std::vector<std::pair<std::string, double>>& seconds() const noexcept {
    return seconds_;
  }

 private:
  struct Stopwatch {
    Stopwatch(Steps& owner, std::string step) : steps(owner), name(std::move(step)) {}
    ~Stopwatch() {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      steps.seconds_.emplace_back(name, took.count());
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;
    Steps& steps;
    std::string name;
    std::chrono::steady_clock::time_point begin{std::chrono::steady_clock::now()};
  };

  const Session& session_;
  std::vector<std::pair<std::string, double>> seconds_{};
};

}  // namespace tsq::cli
