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
    const Running running(events_, step);
    return work(Progress([this, step](std::size_t done, std::size_t total) {
      if (events_.on_progress) events_.on_progress(step, done, total);
    }));
  }

 private:
  struct Running {
    Running(const QuantizeEvents& owner, std::string_view name) : events(owner), step(name) {
      if (events.on_begin) events.on_begin(step);
    }
    ~Running() {
      if (events.on_end) events.on_end(step);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

    const QuantizeEvents& events;
    std::string_view step;
  };

  const QuantizeEvents& events_;
};

}  // namespace tsq::detail
