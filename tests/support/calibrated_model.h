#pragma once

#include <tsq/quantize.h>

#include <string>

#include "ir/model.h"
#include "passes/context/pass_context.h"

namespace tsq::testing {

/// A model between prepare and convert, on which passes are tried as functions, and what these may know.
struct CalibratedModel {
  ir::Model model{};
  passes::PassContext context{};
};

/// What prepare and calibrate have made.
CalibratedModel calibrated_model(const Prepared& prepared);

/// Makes a reference of it as the table alone would: what the table takes is placed in int8, observers
/// become quantize and dequantize.
void make_reference(CalibratedModel& calibrated);

/// The first call of a layer; throws where there is none.
ir::ModuleCall& call_of_layer(ir::Model& model, const std::string& path);
/// Its weight and bias.
ir::Weighted& layer(ir::Model& model, const std::string& path);

/// The number of nodes of a kind ("aten::mul").
std::size_t count(const ir::Model& model, const std::string& kind);

/// Decision::equalization of a layer; "no entry" where the report has none for it.
std::string reported_equalization(const ir::Model& model, const std::string& path);

}  // namespace tsq::testing
