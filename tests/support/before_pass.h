#pragma once

#include <string_view>

#include "support/calibrated_model.h"

/// Passes of the room place, tried one by one.
namespace tsq::testing {

/// A calibrated model as a pass between calibration and convert finds it: after all those in front of it.
CalibratedModel before_pass(const Prepared& prepared, std::string_view pass);
/// The same of what recipe best prepares for an engine and calibrates with one input.
CalibratedModel before_pass(const torch::jit::Module& model, const at::Tensor& input,
                            const std::string& engine, std::string_view pass);

/// The first node that calls the layer at `path`, or of a kind ("aten::mul"); throws where there is none.
ir::Node* call_node(const ir::Model& model, std::string_view path);
ir::Node* node_of_kind(const ir::Model& model, std::string_view kind);

/// The observer of what a node reads first, and the one that alone reads its output; null where something
/// else does.
ir::Node* input_observer(const ir::Node* node);
ir::Node* output_observer(const ir::Node* node);

}  // namespace tsq::testing
