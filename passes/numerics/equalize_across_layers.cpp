// Channels that use a small part of their tensor's range are multiplied in the layer that computes them and
// divided in the one that reads them (Nagel et al., "Data-Free Quantization Through Weight Equalization and
// Bias Correction", 2019, section 4.1, with ranges that are observed).
//   a → relu → observer → b   becomes   a (rows · s) → relu → observer → b (columns / s)
// So it is done across all that hands factors on (match/channel_flow.h): what moves values (cat, split,
// pixel_shuffle), pools, PReLU; and across sums, whose operands then have one factor. A batch norm may be one
// of the layers. The first layer's rows have a scale each and lose nothing. Ranges stay what they were:
// factors only fill them. What factors cost in the layers that read, whose rounding their larger inputs
// multiply, is weighed against what they save. Layers that read channels in common are weighed together.

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "ir/analysis.h"
#include "ir/channel_statistics.h"
#include "match/channel_flow.h"
#include "match/channel_scaling.h"
#include "operators/weighted.h"
#include "passes/numerics/channel_factors.h"
#include "passes/numerics/channel_scales.h"
#include "passes/numerics/passes.h"

namespace tsq::passes {
namespace {

using match::ChannelFlow;
using match::Channels;

/// Of the error that is expected without factors; a larger share is not worth the change.
constexpr double kNoticeable = 0.99;

/// A layer or batch norm that reads channels which may have factors.
struct Reader {
  Node* node{};
  std::vector<int> keys{};  ///< representatives, one for each input channel
  double step{};            ///< of the rounding of what it reads
};

/// A reader with the error that it expects.
struct WeighedReader {
  const Reader& reader;
  ExpectedError error;
  double before{};  ///< without factors
};

class Equalizer {
 public:
  explicit Equalizer(const ChannelFactors& factors)
      : factors_(factors),
        model_(factors.model),
        flow_(
            factors.model, [&](const Node* node) { return equalizable_layer(factors, node); },
            /*is_calibrated=*/true) {}

  bool run() {
    find_room();
    find_readers();
    for (int key = 0; key < flow_.keys(); ++key) {
      if (Node* source = flow_.source(key)) sources_[flow_.representative(key)].push_back(source);
    }
    for (const auto& component : components()) choose(component);
    return apply();
  }

 private:
  /// Whether a value that was only moved has the range that it had before.
  [[nodiscard]] bool has_range_of_before(const Node* observer) const {
    const Value* value = observer->input(0);
    while (flow_.of(value) != nullptr && !ir::is_observer(value->node()) &&
           !ir::operands(value->node()).empty())
      value = ir::operands(value->node()).front();
    return ir::is_observer(value->node()) &&
           ir::observer_index(value->node()) == ir::observer_index(observer);
  }

  /// What quantizing lets through decides how large a factor may be.
  void find_room() {
    largest_.assign(static_cast<std::size_t>(flow_.keys()), std::numeric_limits<double>::infinity());
    for (const Node* node : ir::nodes_in_order(*model_.graph)) {
      const Channels* channels = ir::is_observer(node) ? flow_.of(node->output()) : nullptr;
      if (channels == nullptr) continue;
      if (!channels->shape.empty() && has_range_of_before(node)) continue;
      const auto range = observed_range(model_, node);
      const ir::ChannelStatistics seen = ir::channel_statistics(node);
      const auto count = static_cast<int64_t>(channels->keys.size());
      // The axis was found before calibration told ranks.
      const bool fits = seen.max.defined() && seen.axis == channels->axis &&
                        (channels->is_spread ? seen.max.numel() % count == 0 : seen.max.numel() == count);
      if (!range || !fits) {
        flow_.bind(channels->keys);
        continue;
      }
      const at::Tensor found = headroom(seen, *range, factors_.margin).contiguous();
      const int64_t each = seen.max.numel() / count;
      for (int64_t i = 0; i < seen.max.numel(); ++i) {
        const int key = flow_.representative(channels->keys[static_cast<std::size_t>(i / each)]);
        double& largest = largest_[static_cast<std::size_t>(key)];
        largest = std::min(largest, found.const_data_ptr<double>()[i]);
      }
    }
  }

  [[nodiscard]] double largest(int key) const {
    const double found = largest_[static_cast<std::size_t>(key)];
    // Nothing is known of a channel that was always zero.
    return flow_.is_bound(key) || found == std::numeric_limits<double>::infinity() ? 1 : std::max(found, 1.0);
  }

  /// Of the coarsest of the observers that a value has come through since it was computed.
  double step_of(const Value* value) {
    const auto known = steps_.find(value);
    if (known != steps_.end()) return known->second;
    const Node* node = value->node();
    double step = 0;
    if (ir::is_observer(node)) {
      if (const auto range = observed_range(model_, node)) step = range->step;
    }
    if (flow_.of(value) != nullptr && flow_.read_by(node) == nullptr &&
        equalizable_layer(factors_, node) == nullptr) {
      for (const Value* operand : ir::operands(node)) {
        const Value* whole = operand;
        if (operand->type()->kind() == c10::TypeKind::ListType && !operand->node()->inputs().empty())
          whole = operand->node()->input(0);  // of a split
        if (flow_.of(whole) != nullptr) step = std::max(step, step_of(whole));
      }
    }
    steps_.emplace(value, step);
    return step;
  }

  /// Mean squares of what a batch norm reads.
  [[nodiscard]] static at::Tensor mean_square_before(const Node* bn) {
    const Node* before = bn->input(0)->node();
    return ir::is_observer(before) ? ir::channel_statistics(before).mean_square : at::Tensor();
  }

  /// Whether what rounding costs a reader is known.
  [[nodiscard]] bool is_known(const Node* node) const {
    if (equalizable_layer(factors_, node) != nullptr) return true;
    const at::Tensor mean_square = mean_square_before(node);
    const auto bn = operators::batch_norm_parameters(*ir::call_of(model_, node).module);
    return mean_square.defined() && mean_square.numel() == bn->running_mean.numel();
  }

  [[nodiscard]] ExpectedError error_of(const Reader& reader) const {
    if (const ir::Weighted* layer = equalizable_layer(factors_, reader.node))
      return ExpectedError(*layer, reader.step);
    return ExpectedError(*operators::batch_norm_parameters(*ir::call_of(model_, reader.node).module),
                         mean_square_before(reader.node), reader.step);
  }

  void find_readers() {
    for (Node* node : flow_.readers()) {
      const double step = step_of(node->input(0));
      if (step <= 0 || !is_known(node)) {
        flow_.bind(*flow_.read_by(node));
        continue;
      }
      std::vector<int> keys = *flow_.read_by(node);
      for (int& key : keys) key = flow_.representative(key);
      readers_.push_back({.node = node, .keys = std::move(keys), .step = step});
    }
  }

  /// Readers by what they have in common, directly or through others.
  std::vector<std::vector<const Reader*>> components() const {
    std::vector<std::size_t> component(readers_.size());
    std::map<int, std::size_t> reader_of;  // a key's first
    std::vector<std::vector<std::size_t>> members;
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      component[i] = members.size();
      members.push_back({i});
      for (const int key : readers_[i].keys) {
        if (flow_.is_bound(key)) continue;
        const std::size_t other = component[reader_of.emplace(key, i).first->second];
        if (other == component[i]) continue;
        const auto [into, from] = std::minmax(other, component[i]);
        for (const std::size_t member : members[from]) component[member] = into;
        members[into].insert(members[into].end(), members[from].begin(), members[from].end());
        members[from].clear();
      }
    }
    std::vector<std::vector<const Reader*>> found;
    for (auto& each : members) {
      if (each.empty()) continue;
      std::ranges::sort(each);
      found.emplace_back();
      for (const std::size_t i : each) found.back().push_back(&readers_[i]);
    }
    return found;
  }

  at::Tensor values_of(const std::vector<int>& keys, const std::vector<double>& by_key) const {
    at::Tensor values = at::empty({static_cast<int64_t>(keys.size())}, at::kDouble);
    for (std::size_t i = 0; i < keys.size(); ++i)
      values.data_ptr<double>()[i] = by_key[static_cast<std::size_t>(flow_.representative(keys[i]))];
    return values;
  }

  [[nodiscard]] bool has_no_room(const Reader& reader) const {
    return std::ranges::all_of(reader.keys, [&](int key) { return largest(key) <= 1; });
  }

  /// The factors with which the readers expect the least error, on the average, and none of them more than
  /// without.
  void choose(const std::vector<const Reader*>& readers) {
    if (std::ranges::all_of(readers, [&](const Reader* reader) { return has_no_room(*reader); }))
      return report(readers, /*has_factors=*/false);
    std::map<int, double> found;  // the largest factor that has room and is of use, by key
    std::vector<WeighedReader> weighed;
    for (const Reader* reader : readers) {
      ExpectedError error = error_of(*reader);
      const double before = error(at::ones({static_cast<int64_t>(reader->keys.size())}, at::kDouble));
      std::vector<double> room;
      for (const int key : reader->keys) room.push_back(largest(key));
      const at::Tensor useful = error.useful(at::tensor(room, at::kDouble)).contiguous();
      for (std::size_t i = 0; i < reader->keys.size(); ++i) {
        if (flow_.is_bound(reader->keys[i])) continue;
        double& largest_use = found.emplace(reader->keys[i], 1).first->second;
        largest_use = std::max(largest_use, useful.const_data_ptr<double>()[i]);
      }
      weighed.push_back({.reader = *reader, .error = std::move(error), .before = before});
    }
    std::vector<int> keys;
    std::vector<double> room;
    std::vector<double> use;
    for (const auto& [key, largest_use] : found) {
      keys.push_back(key);
      room.push_back(largest(key));
      use.push_back(largest_use);
    }
    double least = kNoticeable;
    at::Tensor best;
    std::vector<double> by_key(largest_.size(), 1.0);
    for_each_strength(at::tensor(room, at::kDouble), at::tensor(use, at::kDouble), [&](const at::Tensor& f) {
      for (std::size_t i = 0; i < keys.size(); ++i)
        by_key[static_cast<std::size_t>(keys[i])] = f.const_data_ptr<double>()[i];
      double sum = 0;
      for (const WeighedReader& each : weighed) {
        const double share = each.error(values_of(each.reader.keys, by_key)) / each.before;
        if (!(share <= 1)) return;
        sum += share / static_cast<double>(readers.size());
      }
      if (sum >= least) return;
      least = sum;
      best = f.clone();
    });
    report(readers, best.defined());
    for (std::size_t i = 0; best.defined() && i < keys.size(); ++i)
      chosen_[keys[i]] = best.const_data_ptr<double>()[i];
  }

  void report(const std::vector<const Reader*>& readers, bool has_factors) const {
    for (const Reader* reader : readers) {
      std::vector<std::string> names;
      for (const int key : reader->keys) {
        if (flow_.is_bound(key)) continue;
        for (const Node* source : sources_.at(key)) {
          std::string name = fmt::format("'{}'", ir::call_of(model_, source).path);
          if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
        }
      }
      if (names.empty()) continue;
      const std::string with = fmt::format("{}", fmt::join(names, ", "));
      report_equalization(factors_, reader->node,
                          has_factors
                              ? fmt::format("equalized with {}", with)
                              : fmt::format("not equalized with {}: it would not lower the error", with));
    }
  }

  [[nodiscard]] at::Tensor chosen(const std::vector<int>& keys) const {
    std::vector<double> factors;
    bool has_any = false;
    for (const int key : keys) {
      const auto found = chosen_.find(flow_.representative(key));
      factors.push_back(found == chosen_.end() ? 1.0 : found->second);
      has_any |= found != chosen_.end();
    }
    return has_any ? at::tensor(factors, at::kDouble) : at::Tensor();
  }

  bool apply() {
    if (chosen_.empty()) return false;
    for (Node* node : ir::nodes_in_order(*model_.graph)) {
      const bool is_layer = equalizable_layer(factors_, node) != nullptr;
      if (!is_layer && !match::is_affine_batch_norm(model_, node)) continue;
      const std::vector<int>* read = flow_.read_by(node);
      const Channels* written = flow_.of(node->output());
      const ChannelScales scales{.input = read == nullptr ? at::Tensor() : chosen(*read),
                                 .output = written == nullptr ? at::Tensor() : chosen(written->keys)};
      if (!scales.input.defined() && !scales.output.defined()) continue;
      if (is_layer) {
        scale_module(model_, node, scales);
      } else {
        ir::ModuleCall& call = ir::call_of(model_, node);
        call.module = operators::scaled_batch_norm(*call.module, scales.input, scales.output);
      }
    }
    return true;
  }

  const ChannelFactors& factors_;
  Model& model_;
  ChannelFlow flow_;
  std::vector<double> largest_{};  ///< by key
  std::map<const Value*, double> steps_{};
  std::vector<Reader> readers_{};
  std::map<int, std::vector<const Node*>> sources_{};  ///< what computes the channels of a representative
  std::map<int, double> chosen_{};                     ///< factors, by representative
};

}  // namespace

bool equalize_across_layers(Model& model, const PassContext& context) {
  const auto factors = channel_factors(model, context);
  return factors && Equalizer(*factors).run();
}

}  // namespace tsq::passes
