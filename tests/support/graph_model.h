#pragma once

#include <tsq/qconfig.h>

#include <string>

#include "ir/model.h"

/// Models whose graph is written down, for passes on what stands before and after lowering.
namespace tsq::testing {

/// The graph of `text`, in TorchScript's notation, with constants in front: %scale (0.05), %zero, %one, %two,
/// %quint8, %yes, %no and %none. Inputs are `inputs` after self; values keep the names that they have here.
ir::Model model_of_graph(const std::string& inputs, const std::string& text);

/// The node that returns the value of a name; throws where there is none.
ir::Node* node_named(const ir::Model& model, const std::string& name);

/// The record of such a node: an operator that is quantized, says the report.
ir::NodeRecord& quantized_record(ir::Model& model, const std::string& name,
                                 const QConfig& qconfig = default_qconfig("x86"));

/// Calls a layer in the place of the operator that returns the value of a name.
ir::Node* put_call(ir::Model& model, const std::string& name, ir::ModuleCall call);

/// An attribute in the place of an input.
void put_attribute(ir::Model& model, const std::string& input, const c10::IValue& value);

/// A linear layer whose weight has a scale for each row, the same weight each time; it is rounded to `dtype`.
ir::Weighted rounded_linear(int64_t in, int64_t out, c10::ScalarType dtype = c10::ScalarType::QInt8);
/// Its call.
ir::ModuleCall linear_call(const ir::Weighted& layer);

/// What quantized::linear_prepack makes of it.
c10::IValue packed_linear(const ir::Weighted& layer);

}  // namespace tsq::testing
