#pragma once

#include <functional>

#include "ir/graph.h"

namespace tsq::operators {

/// Tracing writes what a recurrent cell computes instead of the cell: puts the cells back.
///   g = linear(x, w_ih, b_ih) + linear(h, w_hh, b_hh); i, f, c, o = unsafe_chunk(g, 4, 1) …   →   lstm_cell
/// tanh(linear(x) + linear(h)) may be anybody's: it is an RNNCell where `is_of_cell` says so of its last
/// node. Whether there were any.
bool restore_cells(ir::Graph& graph, const std::function<bool(const ir::Node*)>& is_of_cell);

}  // namespace tsq::operators
