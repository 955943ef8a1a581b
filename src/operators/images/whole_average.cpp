#include "operators/images/whole_average.h"

#include <algorithm>

#include "operators/arguments.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

bool is_image_pool(const ir::Model& model, const ir::Node* node) {
  return is_one_of(model, node, {"adaptive_avg_pool2d"});
}

/// Of numbers, a number, or a tuple of numbers.
bool holds_ones(const c10::IValue& sizes) {
  const auto is_one = [](const c10::IValue& size) { return size.isInt() && size.toInt() == 1; };
  if (sizes.isTuple()) return std::ranges::all_of(sizes.toTupleRef().elements(), is_one);
  if (sizes.isList()) {
    const auto list = sizes.toList();
    return std::all_of(list.begin(), list.end(), [&](const c10::IValue& size) { return is_one(size); });
  }
  return is_one(sizes);
}

bool gives_one_value(const ir::Model& model, const ir::Node* pool) {
  const c10::Symbol aten =
      is_image_pool(model, pool) ? c10::aten::adaptive_avg_pool2d : c10::aten::adaptive_avg_pool1d;
  const auto sizes = argument_constant(model, pool, "output_size", aten, "output_size");
  return sizes && holds_ones(*sizes);
}

/// The dimensions of a mean; empty where they are not known, or where all are meant.
std::optional<std::vector<int64_t>> averaged_dims(const ir::Model& model, const ir::Node* node) {
  if (node->kind() != c10::aten::mean) return std::nullopt;
  const auto dims = argument_constant(model, node, "dim");
  return dims && dims->isIntList() ? std::optional(dims->toIntVector()) : std::nullopt;
}

}  // namespace

bool is_whole_average(const ir::Model& model, const ir::Node* node) {
  if (averaged_dims(model, node)) return true;
  return is_one_of(model, node, {"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"}) &&
         gives_one_value(model, node);
}

bool is_whole_image_average(const ir::Model& model, const ir::Node* node) {
  if (is_image_pool(model, node)) return gives_one_value(model, node);
  return averaged_and_kept(model, node) == std::vector<int64_t>{2, 3};
}

std::optional<std::vector<int64_t>> averaged_and_kept(const ir::Model& model, const ir::Node* node) {
  auto dims = averaged_dims(model, node);
  if (!dims) return std::nullopt;
  std::ranges::sort(*dims);
  const auto keeps = argument_constant(model, node, "keepdim");
  return keeps && keeps->isBool() && keeps->toBool() ? dims : std::nullopt;
}

}  // namespace tsq::operators
