#pragma once

#include <tsq/runtime_library.h>

#include <string_view>

namespace tsq {

/// Whether an operator reads or returns quantized tensors, or is a fused program: "quantized::conv2d",
/// "aten::dequantize".
inline bool is_quantized_operator(std::string_view kind) {
  return kind.starts_with("quantized::") || kind.starts_with("onednn::") ||
         kind.starts_with("aten::quantized_") || kind.find("quantize_per") != std::string_view::npos ||
         kind == "aten::dequantize" || kind == kProgramOperator;
}

}  // namespace tsq
