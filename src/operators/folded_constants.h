#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/model.h"

namespace tsq::operators {

/// Attributes that hold the results of constant expressions. Equal tensors made from the same attributes
/// become one.
class FoldedConstants {
 public:
  explicit FoldedConstants(ir::Model& model) : model_(model) {}

  /// Puts `tensor`, computed from the attributes `sources`, in the place of `value`.
  void replace(ir::Value* value, const std::vector<std::string>& sources, const at::Tensor& tensor);

 private:
  struct Folded {
    at::Tensor tensor;
    std::string name;
  };

  std::string name_of(const std::vector<std::string>& sources, const at::Tensor& tensor);

  ir::Model& model_;
  std::map<std::vector<std::string>, std::vector<Folded>> folded_;  ///< by their sources
};

}  // namespace tsq::operators
