#include "passes/weights/equal_parameters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace tsq::passes {
namespace {

/// Gives `parameter` the memory of an equal tensor among `known`, or joins them; whether its memory is
/// another then.
bool share(at::Tensor& parameter, std::vector<at::Tensor>& known) {
  if (!parameter.defined()) return false;
  const auto equal = std::ranges::find_if(known, [&](const at::Tensor& other) {
    return other.scalar_type() == parameter.scalar_type() && at::equal(other, parameter);
  });
  if (equal == known.end()) {
    known.push_back(parameter);
    return false;
  }
  const bool has_changed = !parameter.is_same(*equal);
  parameter = *equal;
  return has_changed;
}

/// Numbers the layers that calls are of: those at one path, and those whose weight is one tensor of the file.
class LayersOfCalls {
 public:
  std::size_t of(const std::string& path, const at::Tensor& origin) {
    const auto [by_path, is_new] = by_path_.try_emplace(path, by_path_.size());
    return is_new ? by_path->second =
                        by_origin_.try_emplace(origin.const_data_ptr(), by_path->second).first->second
                  : by_path->second;
  }

 private:
  std::map<std::string, std::size_t> by_path_;
  std::map<const void*, std::size_t> by_origin_;
};

}  // namespace

bool join_equal_parameters(ir::Model& model) {
  bool has_changed = false;
  LayersOfCalls layers;
  std::map<std::size_t, std::vector<at::Tensor>> weights;
  std::map<std::size_t, std::vector<at::Tensor>> biases;
  for (ir::ModuleCall& call : model.calls) {
    ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr) continue;
    const std::size_t layer = layers.of(call.path, ir::origin_of(*weighted));
    has_changed |= share(weighted->weight, weights[layer]);
    has_changed |= share(weighted->bias, biases[layer]);
  }
  return has_changed;
}

}  // namespace tsq::passes
