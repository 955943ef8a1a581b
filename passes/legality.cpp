// What may stand in a model after a room, as a table.

#include "passes/legality.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/analysis.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Placement;

bool is_observer(const Model& /*model*/, const Node* node) { return ir::is_observer(node); }

bool is_placed_in_int8(const Model& model, const Node* node) {
  return is_in_int8(ir::placement_of(model, node));
}

/// It was observed, and place has not decided about it.
bool is_undecided(const Model& model, const Node* node) {
  return ir::observed_qconfig(model, node) != nullptr &&
         ir::placement_of(model, node) == Placement::Undecided;
}

bool has_match(const Model& model, const Node* node) {
  const ir::NodeRecord* record = ir::record_of(model, node);
  return record != nullptr && record->match.has_value();
}

/// A layer whose weight has scales: a reference, or what has been trained.
bool is_reference(const Model& model, const Node* node) {
  const ir::Weighted* weighted =
      ir::is_module_call(node) ? ir::weighted_of(ir::call_of(model, node)) : nullptr;
  return weighted != nullptr && weighted->weight_qparams.has_value();
}

bool runs_program(const Model& /*model*/, const Node* node) {
  return std::string_view(node->kind().toQualString()) == "tsq::run";
}

/// What may stand in a graph after the rooms from `first` to `last`, and after no other.
struct Row {
  std::string_view what;
  bool (*is_it)(const Model& model, const Node* node);
  Room first;
  Room last;
};

constexpr std::array kRows{
    Row{"an operator with a match", has_match, Room::Match, Room::Place},
    Row{"an observer", is_observer, Room::Observe, Room::Numerics},
    Row{"an operator that is placed in int8", is_placed_in_int8, Room::Place, Room::Pack},
    Row{"an observed operator that is not placed", is_undecided, Room::Observe, Room::Ranges},
    Row{"a layer with a rounded weight", is_reference, Room::Train, Room::Pack},
    Row{"a fused program", runs_program, Room::Lower, Room::Pack},
};

}  // namespace

std::string illegal_after(Room room, const Model& model) {
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    const auto* const row = std::ranges::find_if(kRows, [&](const Row& each) {
      return (room < each.first || room > each.last) && each.is_it(model, node);
    });
    if (row != kRows.end())
      return fmt::format("{} after the room {}: {}", row->what, to_string(room), node->kind().toQualString());
  }
  return {};
}

}  // namespace tsq::passes
