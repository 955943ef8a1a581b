#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/model.h"
#include "operators/known_sizes.h"

/// Which channels of which tensors have one factor, wherever operators put their values.
namespace tsq::match {

/// The channels of a tensor, each by a key. Channels of one key have one factor.
struct Channels {
  int64_t rank{};         ///< dimensions of the tensor; 0: not known
  int64_t axis{-1};       ///< of the channels, counted from the last dimension
  bool is_spread{false};  ///< flattened: several neighbours along the axis are of one channel, equally many
  std::vector<int> keys{};
  /// Several dimensions from `axis` on whose places are channels, row by row: between the views that write a
  /// channel shuffle. Empty: one dimension.
  std::vector<int64_t> shape{};
  /// A number for each dimension's size, where the rank is known: equal numbers are equal sizes.
  std::vector<int> sizes{};
};

/// Multiplying a layer's rows by factors and dividing the columns of those that read them by the same leaves
/// a model what it was, if all that lies in between hands factors on: operators that move values or join them
/// (cat, split, select, views, pixel_shuffle), for which f(k x) is k f(x) (relu, pools, resizing), and sums
/// of values that have the same factors, those of a layer that adds its second input among them. What reads a
/// value otherwise binds its channels: their factor is 1.
class ChannelFlow {
 public:
  /// The weight of a layer whose rows and columns may be scaled; null for other nodes.
  using LayerOf = std::function<const ir::Weighted*(const ir::Node*)>;

  /// Before calibration ranks are assumed: layers read batches.
  ChannelFlow(const ir::Model& model, LayerOf layer_of, bool is_calibrated);

  /// The channels of a value, and what a layer or batch norm reads, one key for each of its input channels;
  /// null where none are known.
  [[nodiscard]] const Channels* of(const ir::Value* value) const;
  [[nodiscard]] const std::vector<int>* read_by(const ir::Node* layer) const;
  /// The layers and batch norms that read channels, in the order of the graph.
  [[nodiscard]] const std::vector<ir::Node*>& readers() const { return readers_; }

  /// The key that stands for all that are one with it.
  [[nodiscard]] int representative(int key) const;
  [[nodiscard]] bool is_bound(int key) const { return bound_.contains(representative(key)); }
  [[nodiscard]] int keys() const { return static_cast<int>(parents_.size()); }
  /// The layer or batch norm whose output channel a key was made for; null for what is bound from the start.
  [[nodiscard]] ir::Node* source(int key) const { return sources_[static_cast<std::size_t>(key)]; }
  /// Binds every key of a value.
  void bind(const ir::Value* value);
  void bind(const std::vector<int>& keys);

 private:
  std::vector<int> new_keys(int64_t count, ir::Node* source);
  void unite(int a, int b);
  bool unite_all(const Channels& a, const Channels& b);

  void visit(ir::Node* node);
  bool visit_layer(ir::Node* node, const ir::Weighted& layer);
  void visit_addend(const ir::Node* layer);
  bool visit_batch_norm(ir::Node* node);
  bool visit_list(ir::Node* node);
  bool visit_parts(ir::Node* node, const Channels& whole);
  std::optional<Channels> result_of(ir::Node* node, const Channels& x);
  std::optional<Channels> of_new_sizes(std::optional<Channels> channels);
  std::optional<Channels> resized(ir::Node* node, const Channels& x);
  std::optional<Channels> permuted(const ir::Node* node, const Channels& x);
  Channels with_new_channel_size(Channels channels);
  std::optional<Channels> viewed(const ir::Node* node, const Channels& x);
  std::optional<Channels> viewed_after(const ir::Node* node, const Channels& x);
  [[nodiscard]] static Channels without_dim(Channels channels, int64_t axis);
  [[nodiscard]] bool moves_other_dims(const ir::Node* node, const Channels& x) const;
  [[nodiscard]] std::pair<const Channels*, int64_t> measured(const ir::Value* number) const;
  [[nodiscard]] std::optional<int64_t> count_of(const ir::Value* number) const;
  [[nodiscard]] bool is_size(const ir::Value* number, int size) const;
  std::optional<Channels> joined(ir::Node* node);
  std::optional<Channels> stacked(const ir::Node* node);
  std::optional<Channels> sum(const ir::Node* node);
  std::optional<Channels> product(const ir::Node* node);
  std::optional<Channels> without_last_dims(const ir::Node* node, const Channels& x);
  std::optional<Channels> pixels(const ir::Node* node, const Channels& x);
  [[nodiscard]] bool repeats_values(const ir::Node* node, std::size_t dims) const;
  void bind_unknown_uses();

  [[nodiscard]] bool is_one_of(const ir::Node* node, std::initializer_list<std::string_view> names) const;
  [[nodiscard]] std::optional<c10::IValue> constant(const ir::Node* node, const std::string& name) const;
  [[nodiscard]] std::optional<int64_t> whole_number(const ir::Node* node, const std::string& name) const;
  [[nodiscard]] std::optional<std::vector<int64_t>> numbers(const ir::Node* node,
                                                            const std::string& name) const;
  /// The number in front of a last 'd': of "torch.nn.MaxPool2d", "aten::avg_pool2d". 0 without one.
  [[nodiscard]] static int64_t dims_in_name(std::string_view name);
  [[nodiscard]] static std::vector<int> some_of(const std::vector<int>& keys, int64_t begin, int64_t end,
                                                int64_t step = 1);
  /// A dimension counted from the last one; empty where the rank would have to be known.
  [[nodiscard]] static std::optional<int64_t> from_end(const std::optional<int64_t>& dim, int64_t rank);

  const ir::Model& model_;
  LayerOf layer_of_;
  bool is_calibrated_;
  operators::KnownSizes known_sizes_;
  mutable std::vector<int> parents_{};
  std::vector<ir::Node*> sources_{};
  std::unordered_set<int> bound_{};
  std::unordered_map<const ir::Value*, Channels> channels_{};
  /// Of lists that split an axis: the channels of each part.
  std::unordered_map<const ir::Value*, std::vector<Channels>> parts_{};
  std::unordered_map<const ir::Value*, Channels> alike_{};  ///< of lists whose parts have all channels
  std::unordered_map<const ir::Node*, std::vector<int>> read_{};
  std::vector<ir::Node*> readers_{};
  int next_size_{0};
  std::unordered_set<const ir::Node*> known_{};  ///< nodes that hand on what they read
};

}  // namespace tsq::match
