#pragma once

#include <c10/util/ScopeExit.h>
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
    const auto end = c10::make_scope_exit([&] {
      if (events_.on_end) events_.on_end(step);
    });
    return work(Progress([this, step](std::size_t done, std::size_t total) {
      if (events_.on_progress) events_.on_progress(step, done, total);
    }));
  }

 private:
  const QuantizeEvents& events_;
};

}  // namespace tsq::detail
