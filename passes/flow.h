#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "passes/context/pass_context.h"

/// The way of a model: every pass, in the order in which it runs.
namespace tsq::passes {

/// A folder of passes, in the order of the flow.
enum class Room {
  Capture,
  Plain,
  Rewrite,
  Match,
  Observe,
  Train,
  Ranges,
  Place,
  Numerics,
  Convert,
  Weights,
  Lower,
  Tune,
  Pack
};
/// "capture": the name of its folder.
std::string_view to_string(Room room);

/// A span of the flow that is run as one: tsq::fuse runs Fuse, prepare Fuse to Observe, convert Settle to
/// Convert, lower Lower. Calibration lies between Observe and Settle. The rows of Plan are rules: they run on
/// a draft of the model, and what they have decided is the plan that Place carries out.
enum class Step { Fuse, Match, Observe, Settle, Plan, Place, Convert, Lower };

/// Which recipes and which ways take a pass. What is static, dynamic or weight-only is asked of each node's
/// QConfig, for one mapping may have all of them. What has been trained is deployed as it is: of what recipe
/// best adds, a model that trains takes what moves no value to another grid (EachBest).
enum class Takes { All, PostTraining, Training, Best, EachBest };

struct FlowRow {
  std::string_view name;
  Room room;
  Step step;
  Takes takes;
  bool (*run)(ir::Model& model, const PassContext& context);
  /// For people: before → after.
  std::string_view sentence;
  /// On forward, then on each method beside it that is captured as forward is, as if it were forward.
  bool on_each_method{false};
  /// Null: always.
  bool (*when)(const ir::Model& model, const PassContext& context){nullptr};
};

/// THE list.
std::span<const FlowRow> flow();

/// Whether a row runs.
[[nodiscard]] bool is_taken(const FlowRow& row, const ir::Model& model, const PassContext& context);

/// Runs a row, on each method where it says so. Returns the number of graphs that it changed. Throws the
/// pass's Error with the name of the row.
std::size_t run_row(const FlowRow& row, ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
