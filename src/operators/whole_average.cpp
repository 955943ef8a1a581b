#include "operators/whole_average.h"

#include <algorithm>
#include <array>

#include "operators/arguments.h"
#include "operators/weighted.h"

namespace tsq::operators {
namespace {

constexpr std::array<std::string_view, 2> kImagePools{"torch.nn.AdaptiveAvgPool2d",
                                                      "torch.nn.functional.adaptive_avg_pool2d"};
constexpr std::array<std::string_view, 4> kOtherPools{
    "torch.nn.AdaptiveAvgPool1d", "torch.nn.functional.adaptive_avg_pool1d", "torch.nn.AdaptiveAvgPool3d",
    "torch.nn.functional.adaptive_avg_pool3d"};

bool is_one_of(const ir::GraphModule& gm, const ir::Node* node, std::span<const std::string_view> names) {
  return std::ranges::any_of(ir::targets(gm, node), [&](const Symbol& target) {
    return std::ranges::find(names, target.name) != names.end();
  });
}

std::optional<c10::IValue> output_size(const ir::GraphModule& gm, const ir::Node* pool) {
  if (!ir::is_module_call(pool)) return argument_constant(gm, pool, "output_size");
  const ir::ModuleCall& call = ir::call_of(gm, pool);
  if (!call.module) return std::nullopt;
  const bool is_image = is_one_of(gm, pool, kImagePools);
  return module_constant(*call.module, "output_size",
                         is_image ? c10::aten::adaptive_avg_pool2d : c10::aten::adaptive_avg_pool1d,
                         "output_size");
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

bool gives_one_value(const ir::GraphModule& gm, const ir::Node* pool) {
  const auto sizes = output_size(gm, pool);
  return sizes && holds_ones(*sizes);
}

/// The dimensions of a mean; empty where they are not known, or where all are meant.
std::optional<std::vector<int64_t>> averaged_dims(const ir::GraphModule& gm, const ir::Node* node) {
  if (node->kind() != c10::aten::mean) return std::nullopt;
  const auto dims = argument_constant(gm, node, "dim");
  return dims && dims->isIntList() ? std::optional(dims->toIntVector()) : std::nullopt;
}

}  // namespace

bool is_whole_average(const ir::GraphModule& gm, const ir::Node* node) {
  if (averaged_dims(gm, node)) return true;
  return (is_one_of(gm, node, kImagePools) || is_one_of(gm, node, kOtherPools)) && gives_one_value(gm, node);
}

bool is_whole_image_average(const ir::GraphModule& gm, const ir::Node* node) {
  if (is_one_of(gm, node, kImagePools)) return gives_one_value(gm, node);
  return averaged_and_kept(gm, node) == std::vector<int64_t>{2, 3};
}

std::optional<std::vector<int64_t>> averaged_and_kept(const ir::GraphModule& gm, const ir::Node* node) {
  auto dims = averaged_dims(gm, node);
  if (!dims) return std::nullopt;
  std::ranges::sort(*dims);
  const auto keeps = argument_constant(gm, node, "keepdim");
  return keeps && keeps->isBool() && keeps->toBool() ? dims : std::nullopt;
}

}  // namespace tsq::operators
