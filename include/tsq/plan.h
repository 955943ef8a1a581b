#pragma once

#include <tsq/placement.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

/// What convert decides about a calibrated model, as data: which operators compute in int8, by which kind of
/// kernel, and which values are rounded. docs/plan.md.
namespace tsq {

/// Zero padding before a convolution that its kernel is to do.
struct PaddingFold {
  std::vector<std::int64_t> before{};  ///< of the input, the convolution's own padding included
  std::vector<std::int64_t> after{};
  std::vector<std::int64_t> padding{};  ///< of the convolution then
  std::vector<std::int64_t> kernel{};   ///< its sizes then
  std::vector<std::int64_t> offset{};   ///< where in it the old taps begin
  bool may_have_too_many_outputs{false};

  bool operator==(const PaddingFold&) const = default;
};

/// One operator.
struct PlannedOperator {
  std::string node{};   ///< its name in the plan: "layer1.0/torch.add", "layer1.0/torch.add#1"
  std::string layer{};  ///< module path in the user's model
  std::string op{};     ///< "torch.nn.Conv2d"
  Placement placement{Placement::Float};
  Reason reason{Reason::None};  ///< why it is not Int8
  std::string detail{};         ///< what the sentence of the reason names; of LeftOut: the sentence
  std::string remedy{};         ///< what to change; empty: what the reason says
  std::vector<std::string> notes{};
  bool has_qconfig{true};  ///< false: it stays float as if prepare had given it no QConfig
  std::string kernel{};    ///< what computes it, where that is no kernel of its own: a convolution's padding
  std::optional<PaddingFold> fold{};        ///< of a convolution
  std::int64_t float_recurrent_weights{0};  ///< of a recurrent module: its first weights, which stay float

  bool operator==(const PlannedOperator&) const = default;
};

/// One value that an observer looks at.
struct PlannedValue {
  std::string value{};     ///< the operator that returns it, or the name of an argument
  std::string observer{};  ///< the observer's, "activation_post_process_3"
  bool is_rounded{true};
  std::vector<std::string> exact_for{};  ///< operators that read it as it was before it was rounded

  bool operator==(const PlannedValue&) const = default;
};

/// What a plan takes and costs, by the profile of the machine and by the noise of roundings.
struct PlanPrediction {
  double seconds{};  ///< of operators whose kernels the profile knows, on one thread
  double noise{};    ///< that is added to the outputs, as shares of their powers, summed up

  bool operator==(const PlanPrediction&) const = default;
};

/// A plan belongs to a model, a table, a target and a recipe: convert refuses it for others.
struct Plan {
  std::string backend{};  ///< name of the table
  std::string engine{};
  std::string target{};  ///< "stock" or "fused"
  std::string recipe{};
  std::vector<PlannedOperator> operators{};  ///< in the order of the graph
  std::vector<PlannedValue> values{};        ///< in the order of the graph
  std::map<std::string, Plan> standalone{};  ///< of standalone modules, by path
  /// Of a plan that was chosen by a price (RecipeOptions::decibel_price), before anybody edited it.
  std::optional<PlanPrediction> prediction{};

  /// {"format": "tsq plan", "version": 1, …}. A member that has its default is left out.
  [[nodiscard]] nlohmann::json to_dict() const;
  /// Throws Error(BadConfig), naming the place, for JSON that is no plan, and for a newer version.
  static Plan from_dict(const nlohmann::json& json);

  bool operator==(const Plan&) const = default;
};

}  // namespace tsq
