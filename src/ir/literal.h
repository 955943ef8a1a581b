#pragma once

#include <ATen/core/interned_strings.h>

namespace tsq::ir {

/// An attribute of GetAttr nodes: the tensor is a literal of the model's code, made of constants.
inline const c10::Symbol kLiteral = c10::Symbol::attr("tsq_literal");

}  // namespace tsq::ir
