#pragma once

#include <c10/util/ScopeExit.h>
#include <tsq/progress.h>

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
  [[nodiscard]] const std::string& label() const noexcept { return label_; }
  /// Since it began.
  [[nodiscard]] double seconds() const;

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
    begin(name);
    const auto ending = c10::make_scope_exit([this] { end(); });
    return work(Progress([this](std::size_t done, std::size_t total) { update(done, total); }));
  }

  /// The same in parts. A step may begin within another.
  void begin(const std::string& name) { open_.emplace_back(name, !session_.quiet); }
  void update(std::size_t done, std::size_t total) { open_.back().update(done, total); }
  void end();

  [[nodiscard]] const std::vector<std::pair<std::string, double>>& seconds() const noexcept {
    return seconds_;
  }

 private:
  const Session& session_;
  std::vector<std::pair<std::string, double>> seconds_{};
  std::list<ProgressLine> open_{};
};

}  // namespace tsq::cli
