#include "cli/printing/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

namespace tsq::cli {
namespace {

constexpr std::chrono::milliseconds kTerminalPeriod{100};
constexpr std::chrono::seconds kLogPeriod{30};
constexpr std::size_t kBarWidth = 24;

std::string duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string bar(std::size_t done, std::size_t total) {
  const std::size_t filled = total == 0 ? 0 : kBarWidth * done / total;
  return std::string(filled, '#') + std::string(kBarWidth - filled, '.');
}

}  // namespace

ProgressLine::ProgressLine(std::string label, bool enabled)
    : label_(std::move(label)), enabled_(enabled), terminal_(isatty(STDERR_FILENO) == 1) {
  if (enabled_ && terminal_) draw(label_ + " …");
  drawn_ = Clock::now();
}

ProgressLine::~ProgressLine() {
  if (enabled_ && terminal_) std::cerr << "\r\x1b[K" << std::flush;
}

void ProgressLine::update(std::size_t done, std::size_t total) {
  const Clock::time_point now = Clock::now();
  const Clock::duration period = terminal_ ? Clock::duration(kTerminalPeriod) : Clock::duration(kLogPeriod);
  if (!enabled_ || now - drawn_ < period) return;
  drawn_ = now;
  const double elapsed = seconds();
  const double rate = elapsed > 0 ? static_cast<double>(done) / elapsed : 0;
  const std::string left =
      rate > 0 && total >= done ? duration(static_cast<double>(total - done) / rate) : "?";
  draw(fmt::format("{} [{}] {}/{}, {:.1f}/s, {} left", label_, bar(done, total), done, total, rate, left));
}

double ProgressLine::seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

void ProgressLine::draw(const std::string& text) {
  if (terminal_) {
    std::cerr << "\r\x1b[K" << text << std::flush;
  } else {
    std::cerr << "tsq: " << text << '\n';
  }
}

void Steps::end() {
  // A step that is done again, as with other layers in float, is told once.
  const auto known =
      std::ranges::find(seconds_, open_.back().label(), &std::pair<std::string, double>::first);
  if (known == seconds_.end()) {
    seconds_.emplace_back(open_.back().label(), open_.back().seconds());
  } else {
    known->second += open_.back().seconds();
  }
  open_.pop_back();
}

}  // namespace tsq::cli
