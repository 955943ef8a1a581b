#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "trial/captured.h"

/// Weights of operators that ran, in int8 and in float.
namespace tsq::detail {

/// Of an int8 operator, out of its packed params, or of its program; undefined where it has none.
at::Tensor int8_weight(const Captured& op);

/// A float tensor that an operator takes after its input, and that has as many numbers as the int8 weight and
/// as many channels; undefined where it takes none.
at::Tensor float_weight(const Captured& op, const at::Tensor& int8);

/// Pairs layers of one model in two files by their weights, where one of the files was frozen, or was made
/// with other names: what `exact` and `got` ran is given the same names of layers. Weights of `got` may be
/// int8 or float. Does nothing where files share the name of a layer with a weight. Names once found stay,
/// for further runs of the same files.
class LayerPairs {
 public:
  void name(std::vector<Captured>& exact, std::vector<Captured>& got);

 private:
  void find(const std::vector<Captured>& exact, const std::vector<Captured>& got);

  bool has_looked_{false};
  std::unordered_map<const void*, std::string> paths_{};  ///< of weights and packed params of both files
};

}  // namespace tsq::detail
