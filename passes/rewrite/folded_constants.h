#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/graph_module.h"

namespace tsq::passes {

/// Attributes that hold the results of constant expressions. Equal tensors made from the same attributes
/// become one.
class FoldedConstants {
 public:
  explicit FoldedConstants(ir::GraphModule& gm) : gm_(gm) {}

  /// Puts `tensor`, computed from the attributes `sources`, in the place of `value`.
  void replace(ir::Value* value, const std::vector<std::string>& sources, const at::Tensor& tensor);

 private:
  struct Folded {
    std::vector<std::string> sources;
    at::Tensor tensor;
    std::string name;
  };

  const std::string& name_of(const std::vector<std::string>& sources, const at::Tensor& tensor);

  ir::GraphModule& gm_;
  std::vector<Folded> folded_;
};

}  // namespace tsq::passes
