#pragma once

#include <vector>

#include "fuzz/input.h"
#include "runtime/support.h"

namespace tsq::fuzz {

/// A program, and what one call gives it.
struct Call {
  runtime::Model model{};
  std::vector<runtime::test::Tensor> inputs{};
  runtime::Shape integers{};
};

/// The program is text, which may be anything; constants and shapes stand before it.
Call written_call(Input& input);

/// Operations are drawn one after the other, so that most of them fit what is there.
Call drawn_call(Input& input);

/// Numbers of a tensor that one byte chooses.
runtime::test::Tensor any_tensor(Input& input, runtime::Dtype dtype, const runtime::Shape& sizes);
/// Small sizes, now and then 0.
runtime::Shape any_shape(Input& input, std::int64_t most_dimensions, std::int64_t largest);

}  // namespace tsq::fuzz
