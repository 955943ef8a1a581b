#include "operators/convolution_inputs.h"

#include <ATen/ATen.h>

#include "ir/edit.h"
#include "operators/convolution_padding.h"

namespace tsq::operators {

using ir::Model;
using ir::Node;
using ir::Value;

Value* padded_input(Model& gm, const ir::Weighted& weighted, Value* input, Node* before) {
  if (!pads_outside(weighted)) return input;
  const std::string mode = weighted.padding_mode == "zeros" ? "constant" : weighted.padding_mode;
  Value* padding = constant_before(gm, before, explicit_padding(weighted));
  Value* none = constant_before(gm, before, c10::IValue());
  if (mode == "reflect")
    return insert_before(gm, before, "aten::pad", {input, padding, constant_before(gm, before, mode), none});
  // The other modes have no kernel for quantized tensors. Padding copies values, so nothing is lost on the
  // way through float.
  Value* as_float = insert_before(gm, before, "aten::pad",
                                  {insert_before(gm, before, "aten::dequantize", {input}), padding,
                                   constant_before(gm, before, mode), none});
  Value* scale = insert_before(gm, before, "aten::q_scale", {input});
  scale->setType(c10::FloatType::get());
  Value* zero_point = insert_before(gm, before, "aten::q_zero_point", {input});
  zero_point->setType(c10::IntType::get());
  return insert_before(gm, before, "aten::quantize_per_tensor",
                       {as_float, scale, zero_point,
                        constant_before(gm, before, static_cast<int64_t>(c10::ScalarType::QUInt8))});
}

Value* expanded_addend(Model& gm, const ir::Weighted& weighted, Value* input, Value* addend, Node* before) {
  const auto number = [&](const char* kind, std::vector<Value*> inputs) {
    Value* value = insert_before(gm, before, kind, inputs);
    value->setType(c10::IntType::get());
    return value;
  };
  const auto integer = [&](int64_t value) { return constant_before(gm, before, value); };
  const bool pads_itself = !pads_outside(weighted) && weighted.padding_name.empty();
  std::vector<Value*> sizes{number("aten::size", {input, integer(0)}), integer(weighted.weight.size(0))};
  for (std::size_t i = 0; i < 2; ++i) {
    const int64_t reach = weighted.dilation[i] * (weighted.weight.size(static_cast<int64_t>(i) + 2) - 1);
    const int64_t offset = (pads_itself ? 2 * weighted.padding[i] : 0) - reach - 1;
    Value* size = number("aten::size", {input, integer(static_cast<int64_t>(i) + 2)});
    size = number("aten::add", {size, integer(offset)});
    size = number("aten::floordiv", {size, integer(weighted.stride[i])});
    sizes.push_back(number("aten::add", {size, integer(1)}));
  }
  Node* list = gm.graph->createList(c10::IntType::get(), sizes);
  list->insertBefore(before);
  return insert_before(gm, before, "aten::expand",
                       {addend, list->output(), constant_before(gm, before, false)});
}

}  // namespace tsq::operators
