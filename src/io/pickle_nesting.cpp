#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "io/pickle_values.h"

namespace tsq::io {
namespace {

/// What is known of a value once all of its parts are.
struct Reach {
  int depth{0};
  std::int64_t visits{0};  ///< of it and its parts, each as often as it is reached; 0: not known yet
};

/// Visits values after their parts, with a stack of its own.
class Nesting {
 public:
  explicit Nesting(const std::vector<PickledValue>& values)
      : values_(values), reaches_(values.size()), is_open_(values.size(), false) {}

  void check() {
    for (std::size_t place = 0; place < values_.size(); ++place) visit(place);
  }

 private:
  struct Step {
    std::size_t place;
    std::size_t next_part;
  };

  void visit(std::size_t first) {
    if (reaches_[first].visits > 0) return;
    open(first);
    while (!path_.empty()) {
      Step& step = path_.back();
      const std::vector<std::size_t>& parts = values_[step.place].parts;
      if (step.next_part < parts.size()) {
        const std::size_t part = parts[step.next_part++];
        if (reaches_[part].visits == 0) open(part);
      } else {
        close(step.place);
        path_.pop_back();
      }
    }
  }

  void open(std::size_t place) {
    if (is_open_[place]) throw PickleFault("has a value that holds itself");
    is_open_[place] = true;
    path_.push_back({.place = place, .next_part = 0});
  }

  void close(std::size_t place) {
    Reach reach{.depth = 1, .visits = weight_of(values_[place].kind)};
    for (const std::size_t part : values_[place].parts) {
      reach.depth = std::max(reach.depth, reaches_[part].depth + 1);
      reach.visits += reaches_[part].visits;
      if (reach.visits > kMostPickledValues)
        throw PickleFault(fmt::format("holds more than {} values", kMostPickledValues));
    }
    if (reach.depth > kDeepestPickle)
      throw PickleFault(fmt::format("nests values deeper than {} levels", kDeepestPickle));
    reaches_[place] = reach;
    is_open_[place] = false;
  }

  const std::vector<PickledValue>& values_;
  std::vector<Reach> reaches_;
  std::vector<bool> is_open_;
  std::vector<Step> path_{};
};

}  // namespace

void check_nesting(const std::vector<PickledValue>& values) { Nesting(values).check(); }

}  // namespace tsq::io
