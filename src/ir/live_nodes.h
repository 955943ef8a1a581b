#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "ir/analysis.h"

namespace tsq::ir {

/// Every node, in the order of nodes_in_order, for a loop that destroys some: without those that are gone
/// when their turn comes, and without those that it makes.
class LiveNodes {
  /// A node that is destroyed clears it.
  using Wrapped = std::shared_ptr<torch::jit::Wrap<Node>>;

 public:
  explicit LiveNodes(Graph& graph) {
    for (Node* node : nodes_in_order(graph)) nodes_.push_back(node->wrap());
  }

  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = Node*;

    Iterator() = default;
    explicit Iterator(std::span<const Wrapped> left) : left_(left) { skip_dead(); }
    Node* operator*() const { return left_.front()->elem; }
    Iterator& operator++() {
      left_ = left_.subspan(1);
      skip_dead();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t /*end*/) const { return left_.empty(); }

   private:
    void skip_dead() {
      while (!left_.empty() && left_.front()->elem == nullptr) left_ = left_.subspan(1);
    }

    std::span<const Wrapped> left_{};
  };

  [[nodiscard]] Iterator begin() const { return Iterator(nodes_); }
  [[nodiscard]] static std::default_sentinel_t end() { return {}; }

 private:
  std::vector<Wrapped> nodes_{};
};

}  // namespace tsq::ir
