#pragma once

#include <tsq/quantize.h>

#include <chrono>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "cli/process/session.h"

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
    const Running running(*this, name);
    return work(Progress([this](std::size_t done, std::size_t total) { update(done, total); }));
  }

  /// The same in parts. A step may begin within another.
  void begin(const std::string& name) { open_.emplace_back(*this, name); }
  void update(std::size_t done, std::size_t total) { open_.back().line.update(done, total); }
  void end() { open_.pop_back(); }

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

  struct OpenStep {
    OpenStep(Steps& owner, const std::string& name)
        : line(name, !owner.session_.quiet), stopwatch(owner, name) {}
    ProgressLine line;
    Stopwatch stopwatch;
  };
  struct Running {
    Running(Steps& owner, const std::string& name) : steps(owner) { steps.begin(name); }
    ~Running() { steps.end(); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    Steps& steps;
  };

  const Session& session_;
  std::vector<std::pair<std::string, double>> seconds_{};
  std::list<OpenStep> open_{};
};

}  // namespace tsq::cli
