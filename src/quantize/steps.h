#pragma once

#include <tsq/quantize_model.h>

#include <string_view>

namespace tsq::detail {

/// Runs the steps of quantize and tells of each.
class Steps {
 public:
  /// `events` must outlive it.
  explicit Steps(const QuantizeEvents& events) : events_(events) {}

  /// `work` gets a Progress to report to.
  template <typename Work>
  auto run(std::string_view step, Work&& work) const {
    if (events_.on_begin) events_.on_begin(step);
    const Progress progress([this, step](std::size_t done, std::size_t total) {
      if (events_.on_progress) events_.on_progress(step, done, total);
    });
    auto result = [&] {
      try {
        return work(progress);
      } catch (...) {
        end_failed(step);
        throw;
      }
    }();
    if (events_.on_end) events_.on_end(step);
    return result;
  }

 private:
  /// What has failed first is what the caller hears.
  void end_failed(std::string_view step) const noexcept {
    try {
      if (events_.on_end) events_.on_end(step);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }

  const QuantizeEvents& events_;
};

}  // namespace tsq::detail
