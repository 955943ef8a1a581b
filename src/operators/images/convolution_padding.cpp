#include "operators/images/convolution_padding.h"

namespace tsq::operators {

bool pads_outside(const ir::Weighted& weighted) {
  return weighted.padding_mode != "zeros" || weighted.padding_name == "same";
}

std::vector<int64_t> kernel_padding(const ir::Weighted& weighted) {
  const bool own_padding = !pads_outside(weighted) && weighted.padding_name.empty();
  return own_padding ? weighted.padding : std::vector<int64_t>(weighted.stride.size(), 0);
}

std::vector<int64_t> explicit_padding(const ir::Weighted& weighted) {
  std::vector<int64_t> result;
  const std::size_t dims = weighted.stride.size();
  for (std::size_t i = dims; i-- > 0;) {
    if (weighted.padding_name == "same") {
      const int64_t total = weighted.dilation[i] * (weighted.weight.size(static_cast<int64_t>(i) + 2) - 1);
      result.push_back(total / 2);
      result.push_back(total - total / 2);
    } else {
      const int64_t each = weighted.padding_name == "valid" ? 0 : weighted.padding[i];
      result.push_back(each);
      result.push_back(each);
    }
  }
  return result;
}

}  // namespace tsq::operators
