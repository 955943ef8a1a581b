#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// A table of an embedding that is the weight of a quantized linear layer as well gets the layer's codes and
/// scales, one for each row.
///   Embedding(ids) … Linear(x) with one weight   →   both with the codes of the linear layer
void tie_tables(ir::GraphModule& gm);

/// At the end of lowering: the packed weight of a linear layer with the codes of a table is made of the
/// table's rows when the file is loaded, so that the file holds them once.
///   packed   →   tied.packed, where tied is saved as rows and bias
void hold_tied_tables_once(ir::GraphModule& gm);

}  // namespace tsq::passes
