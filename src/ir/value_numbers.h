#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "ir/model.h"

/// Numbers of values. What is known of a value is kept by its number, which outlives copies of the graph: it
/// stands on the node that makes the value. The inputs of a graph have their places as numbers.
namespace tsq::ir {

/// A mark on a node: the number of each value that it makes.
extern const c10::Symbol kValueNumbers;

/// Numbers the values that may be tensors, in the order of the graph. Whether there were any but the inputs.
bool number_values(Graph& graph);

/// None of values that were made later, and of others than tensors.
[[nodiscard]] std::optional<std::size_t> value_number(const Value* value);
/// `to` is what `from` was: it takes its number, unless it has one of its own.
void take_number(Value* to, const Value* from);
/// A value that is not what it was has no number any more.
void drop_number(Value* value);

struct NumberedValue {
  Value* value{};
  std::size_t number{};
};
/// In the order of the graph, its inputs first.
[[nodiscard]] std::vector<NumberedValue> numbered_values(Graph& graph);

/// The numbers of what operators read and return that may be rounded although nothing observes them
/// (NodeRecord::unobserved_qconfig).
[[nodiscard]] std::set<std::size_t> unobserved_values(const Model& model);

/// What calibration saw of a value of the model's graph; null where nothing is known.
[[nodiscard]] const ValueFacts* facts_of(const Model& model, const Value* value);

}  // namespace tsq::ir
