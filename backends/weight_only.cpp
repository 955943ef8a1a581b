// What PyTorch's tables lack for weight-only quantization. The kernels belong to LibTorch, not to an engine.

#include <tsq/backends.h>

#include <algorithm>

#include "backends/dtypes.h"
#include "backends/symbols.h"

namespace tsq {
namespace {

void add_missing(BackendPatternConfig& row, const DTypes& dtypes) {
  for (const DTypeConfig& config : dtypes) {
    if (std::find(row.dtype_configs.begin(), row.dtype_configs.end(), config) == row.dtype_configs.end())
      row.dtype_configs.push_back(config);
  }
}

}  // namespace

BackendConfig with_weight_only(BackendConfig backend) {
  const DTypes linear{kWeightOnlyQInt8, kWeightOnlyQUInt4x2};
  const DTypes embedding{kWeightOnlyQUInt8, kWeightOnlyQUInt4x2, kWeightOnlyQUInt2x4};
  for (BackendPatternConfig row : std::vector(backend.configs())) {
    if (row.root_module == nn::Linear) {
      add_missing(row, linear);
    } else if (row.root_module == nn::Embedding || row.root_module == nn::EmbeddingBag) {
      add_missing(row, embedding);
    } else {
      continue;
    }
    backend.set_backend_pattern_config(std::move(row));
  }
  for (const Symbol& function : {F::embedding, F::embedding_bag})
    backend.set_backend_pattern_config({.pattern = Pattern(function), .dtype_configs = embedding});
  return backend;
}

}  // namespace tsq
