#include "operators/folded_constants.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ir/edit.h"

namespace tsq::operators {
namespace {

/// Equal in all that a kernel sees.
bool is_same(const at::Tensor& a, const at::Tensor& b) {
  if (a.layout() != at::kStrided || b.layout() != at::kStrided) return a.is_same(b);
  if (a.is_quantized() != b.is_quantized() || a.sizes() != b.sizes() || a.strides() != b.strides() ||
      a.scalar_type() != b.scalar_type())
    return false;
  return a.is_quantized() ? at::equal(a, b) : at::equal(a, b) && at::equal(a.signbit(), b.signbit());
}

/// A file keeps whole storages: a view of a larger tensor is copied out of it.
at::Tensor without_rest(const at::Tensor& tensor) {
  const bool is_whole = tensor.layout() != at::kStrided || tensor.storage().nbytes() == tensor.nbytes();
  return is_whole ? tensor.detach() : tensor.detach().clone();
}

}  // namespace

void FoldedConstants::replace(ir::Value* value, const std::vector<std::string>& sources,
                              const at::Tensor& tensor) {
  ir::Value* held = ir::read_attribute(value->node(), model_.graph->inputs().at(0), name_of(sources, tensor),
                                       c10::TensorType::get());
  ir::take_scope(held->node(), value->node());
  value->replaceAllUsesWith(held);
}

std::string FoldedConstants::name_of(const std::vector<std::string>& sources, const at::Tensor& tensor) {
  std::vector<Folded>& same_sources = folded_[sources];
  const auto found =
      std::ranges::find_if(same_sources, [&](const Folded& each) { return is_same(each.tensor, tensor); });
  if (found != same_sources.end()) return found->name;
  std::string name =
      ir::unique_attribute_name(model_, sources.empty() ? std::string("constant") : sources.front());
  model_.attributes.add({.name = name, .type = c10::TensorType::get(), .value = without_rest(tensor)});
  same_sources.push_back({tensor, name});
  return name;
}

}  // namespace tsq::operators
