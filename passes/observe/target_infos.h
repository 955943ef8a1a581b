#pragma once

#include <tsq/observer.h>
#include <tsq/qconfig.h>

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/model.h"
#include "passes/context/pass_context.h"
#include "passes/observe/masks.h"

/// What the values around an operator should be (target_dtype_info in torch/ao/quantization/fx/prepare.py).
namespace tsq::passes {

/// An observer's constructor with what the rules ask of it.
struct WantedObserver {
  ObserverSpec spec{};
  c10::ScalarType dtype{c10::ScalarType::Float};
  bool is_dynamic{false};
};
WantedObserver wanted_observer(const ObserverSpec& spec);
/// Of a value that has this dtype without being observed.
WantedObserver placeholder(c10::ScalarType dtype);

[[nodiscard]] bool is_quantized_dtype(c10::ScalarType dtype);

/// What an argument of an operator is to it.
enum class Role { Activation, Weight, Bias };

/// target_dtype_info of a node (D-01). An empty observer means "not a float tensor": never observed (D-02).
struct TargetInfo {
  std::optional<WantedObserver> input{};
  std::optional<WantedObserver> weight{};
  std::optional<WantedObserver> bias{};
  std::optional<WantedObserver> output{};
  int weight_index{-1};
  int bias_index{-1};
  bool shares_observer{false};
  bool reuses_input{false};

  [[nodiscard]] Role role_of(std::size_t argument) const;
};

/// The match that a node belongs to; null where nothing matched it.
const ir::Match* match_of(const ir::Model& model, const ir::Node* node);

/// The target infos of all nodes, by what the user has configured (D-01 … D-04).
class TargetInfos {
 public:
  TargetInfos(const ir::Model& model, const PassContext& context);

  [[nodiscard]] const TargetInfo& of(const ir::Node* node) const { return infos_.at(node); }
  /// What a value is declared to be by the node that makes it; observers are looked through.
  [[nodiscard]] std::optional<WantedObserver> of_value(const ir::Value* value) const;
  /// Whether a node makes a mask, or what one comes from.
  [[nodiscard]] bool is_of_mask(const ir::Node* node) const { return masks_.nodes.contains(node); }

  /// The backend does not take the match: its nodes compute in float.
  void refuse(const ir::Match& match);

 private:
  const ir::Model& model_;
  std::unordered_map<const ir::Node*, TargetInfo> infos_;
  Masks masks_;
  std::unordered_set<const ir::Value*> quantized_inputs_;  ///< of the model (D-03)
};

}  // namespace tsq::passes
