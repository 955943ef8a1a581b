#include "backends/backends.h"
#include "backends/rows.h"

namespace tsq {
namespace {

Configs arithmetic_overload_rows(const DTypes& dtypes) {
  return of_two_operands({{.pattern = chain({aten::add, aten::relu})},
                          {.pattern = aten::add},
                          {.pattern = chain({aten::add, aten::relu_})},
                          {.pattern = chain({aten::add_, aten::relu})},
                          {.pattern = aten::add_},
                          {.pattern = chain({aten::add_, aten::relu_})}},
                         dtypes);
}

}  // namespace

// Source: torch/ao/quantization/backend_config/_qnnpack_pt2e.py: overloads of torch.ops.aten, which an
// exported graph calls.
BackendConfig qnnpack_pt2e_backend_config() {
  const DTypes dtypes{kWeightedInt8};
  Rows linear = {
      {.pattern = aten::addmm, .inputs = {{"weight", 2}, {"bias", 0}}},
      {.pattern = aten::mm, .inputs = {{"weight", 1}}},
  };
  Rows conv = {
      {.pattern = aten::convolution, .inputs = {{"weight", 1}, {"bias", 2}}},
      {.pattern = chain({aten::convolution, aten::relu}), .inputs = {{"weight", 1}, {"bias", 2}}},
      {.pattern = chain({aten::convolution, aten::relu_}), .inputs = {{"weight", 1}, {"bias", 2}}},
  };
  BackendPatternConfig pooling{
      .pattern_complex_format = op::getitem(aten::max_pool2d_with_indices, symbol("0")),
      .observation_type = kSharedObserver,
      .dtype_configs = dtypes,
      .root_node_getter = RootNodeGetter::FirstArgument};
  return BackendConfig("qnnpack_pytorch_2.0_export")
      .set_backend_pattern_configs(with_columns(linear, kOwnObserver, dtypes))
      .set_backend_pattern_configs(arithmetic_overload_rows(dtypes))
      .set_backend_pattern_configs(with_columns(conv, kOwnObserver, dtypes))
      .set_backend_pattern_config(std::move(pooling))
      .set_backend_pattern_configs(with_columns({{.pattern = aten::relu}}, kSharedObserver, dtypes));
}

}  // namespace tsq
