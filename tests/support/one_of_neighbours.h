#pragma once

#include <ATen/ATen.h>

#include <vector>

// Not in tsq::testing, which would hide that of GoogleTest from the tests of the runtime.
namespace tsq {

/// One of each two neighbours is the largest code, the other none: [outputs, channels, taps].
inline at::Tensor one_of_neighbours(int64_t outputs, int64_t channels, int64_t taps) {
  const auto one_of_two = [](const at::Tensor& like) {  // along the last dimension
    const int64_t count = like.size(-1);
    std::vector<int64_t> sizes = like.sizes().vec();
    sizes.back() = (count + 1) / 2;
    const at::Tensor first = at::rand(sizes).lt(0.5);
    return at::stack({first, first.logical_not()}, -1).flatten(-2).slice(-1, 0, count);
  };
  const at::Tensor across_taps = one_of_two(at::empty({outputs, taps * channels}));
  const at::Tensor in_taps = one_of_two(at::empty({outputs, taps, channels})).flatten(1);
  const at::Tensor both = across_taps.logical_and(in_taps).to(at::kFloat) * 127;
  return both.reshape({outputs, taps, channels}).transpose(1, 2).contiguous();
}

}  // namespace tsq
