#include "operators/images/convolution_inputs.h"

#include <ATen/ATen.h>

#include "ir/edit.h"
#include "operators/images/convolution_padding.h"

namespace tsq::operators {

using ir::Node;
using ir::Value;

Value* padded_input(const ir::Weighted& weighted, Value* input, Node* before) {
  if (!pads_outside(weighted)) return input;
  const std::string mode = weighted.padding_mode == "zeros" ? "constant" : weighted.padding_mode;
  Value* padding = ir::constant_before(before, explicit_padding(weighted));
  Value* none = ir::constant_before(before, c10::IValue());
  if (mode == "reflect")
    return ir::insert_before(before, "aten::pad", {input, padding, ir::constant_before(before, mode), none});
  // The other modes have no kernel for quantized tensors. Padding copies values, so nothing is lost on the
  // way through float.
  Value* as_float = ir::insert_before(before, "aten::pad",
                                      {ir::insert_before(before, "aten::dequantize", {input}), padding,
                                       ir::constant_before(before, mode), none});
  Value* scale = ir::insert_before(before, "aten::q_scale", {input}, c10::FloatType::get());
  Value* zero_point = ir::insert_before(before, "aten::q_zero_point", {input}, c10::IntType::get());
  return ir::insert_before(before, "aten::quantize_per_tensor",
                           {as_float, scale, zero_point,
                            ir::constant_before(before, static_cast<int64_t>(c10::ScalarType::QUInt8))});
}

Value* expanded_addend(const ir::Weighted& weighted, Value* input, Value* addend, Node* before) {
  const auto number = [&](const char* kind, const std::vector<Value*>& inputs) {
    return ir::insert_before(before, kind, inputs, c10::IntType::get());
  };
  const auto integer = [&](int64_t value) { return ir::constant_before(before, value); };
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
  Value* list = ir::list_before(before, c10::IntType::get(), sizes);
  return ir::insert_before(before, "aten::expand", {addend, list, ir::constant_before(before, false)});
}

}  // namespace tsq::operators
