#pragma once

#include <torch/csrc/jit/frontend/source_range.h>

#include <cctype>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "support/graph_model.h"

/// Operators between dequantize and quantize, as lowering finds them, in the spelling that a table has.
namespace tsq::testing {

constexpr const char* kQuantized = "  %v : Tensor = aten::quantize_per_tensor(%x, %scale, %zero, %dtype)\n";

/// `op` computes y of d, which is the tensor v that `quantized` makes, dequantized; y is quantized again.
inline ir::Model between_roundings(const std::string& op, const std::string& quantized = kQuantized,
                                   c10::ScalarType dtype = c10::ScalarType::QUInt8) {
  ir::Model model = model_of_graph(
      "%x : Tensor", "  %dtype : int = prim::Constant[value=" + std::to_string(static_cast<int>(dtype)) +
                         "]()\n" + quantized + "  %d : Tensor = aten::dequantize(%v)\n  " + op +
                         "\n  %r : Tensor = aten::quantize_per_tensor(%y, %scale, %zero, %dtype)\n"
                         "  %z : Tensor = aten::dequantize(%r)\n  return (%z)\n");
  quantized_record(model, "y");
  return model;
}

/// The operator that computes y is written as `name`: "torch.relu", "relu" of the method, "torch.nn.ReLU".
inline void write_as(ir::Model& model, std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (std::isupper(static_cast<unsigned char>(last.front())) != 0) {
    put_call(model, "y", {.type = symbol(name), .path = "layer"});
    return;
  }
  const std::string text = last == name ? "x." + std::string(name) : std::string(name);
  node_named(model, "y")
      ->setSourceRange(torch::jit::SourceRange(
          std::make_shared<torch::jit::Source>(text, std::string("model.py"), 1), 0, text.size()));
}

}  // namespace tsq::testing
