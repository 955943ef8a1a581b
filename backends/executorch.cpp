#include "backends/backends.h"
#include "backends/rows.h"

namespace tsq {
namespace {

Configs executorch_linear_rows() {
  return with_columns(
      linear_alone_rows(), kOwnObserver,
      {kWeightedSymmetricInt8, kWeightedInt8, kDynamicInt8, kDynamicSymmetricInt8, kDynamicFloat16});
}

Configs executorch_share_qparams_rows(const DTypes& dtypes) {
  return with_columns(
      {
          {.pattern = nn::Flatten},
          {.pattern = F::adaptive_avg_pool2d},
          {.pattern = F::elu},
          {.pattern = F::hardtanh},
          {.pattern = F::max_pool2d},
          {.pattern = F::pad},
          {.pattern = F::relu},
          {.pattern = F::relu6},
          {.pattern = F::leaky_relu},
          {.pattern = F::leaky_relu_},
          {.pattern = nn::AdaptiveAvgPool2d},
          {.pattern = nn::ConstantPad2d},
          {.pattern = nn::ELU},
          {.pattern = nn::MaxPool2d},
          {.pattern = nn::ReLU6},
          {.pattern = nn::Hardtanh},
          {.pattern = nn::LeakyReLU},
          {.pattern = fn::clamp},
          {.pattern = fn::flatten},
          {.pattern = fn::mean},
          {.pattern = fn::permute},
          {.pattern = fn::permute_copy},
          {.pattern = fn::squeeze},
          {.pattern = method("clamp")},
          {.pattern = method("mean")},
          {.pattern = method("permute")},
          {.pattern = method("reshape")},
          {.pattern = method("relu")},
          {.pattern = method("relu_")},
          {.pattern = method("squeeze")},
          {.pattern = method("squeeze_")},
          {.pattern = method("leaky_relu")},
      },
      kSharedObserver, dtypes);
}

Configs executorch_cat_rows(const DTypes& dtypes) {
  return with_columns({{.pattern = fn::cat}, {.pattern = fn::concat}, {.pattern = fn::concatenate}},
                      kSharedObserver, dtypes);
}

// The functional embedding stands after each class in PyTorch; its second setting changes nothing.
Configs executorch_embedding_rows() {
  return with_columns(joined({module_rows(nn::Embedding, nnqat::Embedding, nnqr::Embedding),
                              {{.pattern = F::embedding, .inputs = {{"weight", 1}}}},
                              module_rows(nn::EmbeddingBag, nnqat::EmbeddingBag, nnqr::EmbeddingBag)}),
                      kOwnObserver, {kWeightOnlyQUInt8});
}

}  // namespace

// Source: torch/ao/quantization/backend_config/executorch.py.
BackendConfig executorch_backend_config() {
  const DTypes conv{kWeightedSymmetricInt8, kWeightedInt8};
  const DTypes arithmetic{kSymmetricInt8, kWeightedInt8};
  const DTypes plain{kSymmetricInt8, kInt8};
  const std::array operators{op::add, fn::add, op::sub, fn::sub, op::mul, fn::mul};
  return BackendConfig("executorch")
      .set_backend_pattern_configs(executorch_linear_rows())
      .set_backend_pattern_configs(with_columns(conv_family_rows(conv_family(2)), kOwnObserver, conv))
      .set_backend_pattern_configs(arithmetic_rows(operators, arithmetic))
      .set_backend_pattern_configs(executorch_share_qparams_rows(plain))
      .set_backend_pattern_configs(with_columns({{.pattern = nn::BatchNorm2d}}, kOwnObserver, plain))
      .set_backend_pattern_configs(executorch_cat_rows(plain))
      .set_backend_pattern_configs(executorch_embedding_rows());
}

}  // namespace tsq
