#pragma once

#include <ATen/core/interned_strings.h>

namespace tsq::ir {

inline const c10::Symbol kQuantize = c10::Symbol::fromQualString("aten::quantize_per_tensor");
inline const c10::Symbol kQuantizePerChannel = c10::Symbol::fromQualString("aten::quantize_per_channel");
inline const c10::Symbol kDequantize = c10::Symbol::fromQualString("aten::dequantize");

}  // namespace tsq::ir
