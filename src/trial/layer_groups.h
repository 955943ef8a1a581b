#pragma once

#include <functional>
#include <vector>

#include "trial/candidates.h"

namespace tsq::detail {

/// Neighbouring layers, [first, last), and what was measured with them alone in int8.
struct LayerGroup {
  std::size_t first{0};
  std::size_t last{0};
  double work{0};
  double measured{0};

  [[nodiscard]] std::size_t size() const noexcept { return last - first; }
};

/// Layers in groups that are split where it matters, so that what each contributes is known after few runs.
class LayerGroups {
 public:
  /// `measure` tells what a model shows in which these layers are float: all but those of a group.
  using Measure = std::function<double(const Indices& in_float)>;
  LayerGroups(const Candidates& candidates, Measure measure);

  [[nodiscard]] const std::vector<LayerGroup>& groups() const noexcept { return groups_; }
  /// Splits the heaviest group of more than one layer for which `matters` holds, as long as such groups have
  /// a share of the work that is worth a run; measures both halves. Whether there was one.
  bool split(const std::function<bool(const LayerGroup&)>& matters);
  /// All layers outside of the groups for which `in_int8` holds.
  [[nodiscard]] Indices others(const std::function<bool(const LayerGroup&)>& in_int8) const;
  [[nodiscard]] std::size_t runs() const noexcept { return runs_; }

 private:
  LayerGroup group(std::size_t first, std::size_t last);

  const Candidates& candidates_;
  Measure measure_;
  std::vector<LayerGroup> groups_{};
  double work_{0};
  std::size_t runs_{0};
};

}  // namespace tsq::detail
