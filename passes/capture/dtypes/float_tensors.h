#pragma once

#include <torch/csrc/jit/api/module.h>

#include <map>
#include <tuple>
#include <vector>

#include "ir/attributes.h"
#include "passes/capture/dtypes/replaced_dtypes.h"

namespace tsq::passes {

/// Tensors in float, each once, however many places hold it.
class FloatTensors {
 public:
  explicit FloatTensors(const Dtypes& replaced) : replaced_(replaced) {}

  /// The value with all tensors that it holds in float; modules change in place.
  c10::IValue of(const c10::IValue& value);
  at::Tensor of(const at::Tensor& tensor);

  /// The attributes of a module, which is a copy of the user's module, and so are its children.
  void replace_in(torch::jit::Module module);
  void replace_in(ir::Attributes& attributes);

 private:
  c10::IValue of_tuple(const c10::IValue& tuple);

  const Dtypes& replaced_;
  std::map<std::tuple<const void*, c10::ScalarType, std::vector<int64_t>, std::vector<int64_t>>, at::Tensor>
      made_;
};

}  // namespace tsq::passes
