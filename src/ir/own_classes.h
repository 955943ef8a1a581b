#pragma once

#include "ir/model.h"

namespace tsq::ir {

/// Gives sub-modules of which the graphs read and write attributes alone classes of tsq's own, which have
/// these attributes and no methods: a file holds the source of every class in it, and nobody calls the
/// user's. Sub-modules keep their names, and what they share stays shared. `unit` becomes the classes' home.
/// `keeps_tensors`: they have all parameters and buffers besides.
void own_classes(Model& model, const std::shared_ptr<torch::jit::CompilationUnit>& unit, bool keeps_tensors);

}  // namespace tsq::ir
