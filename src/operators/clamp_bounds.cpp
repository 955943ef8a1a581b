#include "operators/clamp_bounds.h"

#include <algorithm>
#include <array>
#include <limits>

#include "operators/arguments.h"
#include "operators/weighted.h"

namespace tsq::operators {
namespace {

const c10::Symbol kLowest = c10::Symbol::attr("tsq_lowest");
const c10::Symbol kHighest = c10::Symbol::attr("tsq_highest");

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Clamp { ReLU, ReLU6, Hardtanh, Range };

struct ClampName {
  std::string_view name;  ///< the last part of PyTorch's names
  Clamp clamp;
};
constexpr std::array kModules{
    ClampName{"torch.nn.ReLU", Clamp::ReLU},
    ClampName{"torch.nn.ReLU6", Clamp::ReLU6},
    ClampName{"torch.nn.Hardtanh", Clamp::Hardtanh},
};
constexpr std::array kFunctions{
    ClampName{"relu", Clamp::ReLU},         ClampName{"relu_", Clamp::ReLU},
    ClampName{"relu6", Clamp::ReLU6},       ClampName{"relu6_", Clamp::ReLU6},
    ClampName{"hardtanh", Clamp::Hardtanh}, ClampName{"hardtanh_", Clamp::Hardtanh},
    ClampName{"clamp", Clamp::Range},       ClampName{"clip", Clamp::Range},
    ClampName{"clamp_min", Clamp::Range},   ClampName{"clamp_max", Clamp::Range},
};

std::optional<Clamp> clamp_of(const ir::GraphModule& gm, const ir::Node* node) {
  const auto find = [](const auto& names, std::string_view name) -> std::optional<Clamp> {
    const auto found = std::ranges::find(names, name, &ClampName::name);
    return found == names.end() ? std::nullopt : std::optional(found->clamp);
  };
  // Functions of traced files have the name of the module that called them.
  for (const Symbol& target : ir::targets(gm, node)) {
    const std::string_view name = target.name;
    if (const auto module = find(kModules, name)) return module;
    if (ir::is_module_call(node)) continue;
    if (const auto function = find(kFunctions, name.substr(name.find_last_of('.') + 1))) return function;
  }
  return std::nullopt;
}

std::optional<c10::IValue> argument(const ir::GraphModule& gm, const ir::Node* node, const char* name) {
  if (!ir::is_module_call(node)) return argument_constant(gm, node, name);
  const ir::ModuleCall& call = ir::call_of(gm, node);
  return call.module ? module_constant(*call.module, name, c10::aten::hardtanh, name) : std::nullopt;
}

/// A number, or `absent` for None.
std::optional<double> bound(const std::optional<c10::IValue>& value, double absent) {
  if (!value) return std::nullopt;
  if (value->isNone()) return absent;
  if (value->isDouble()) return value->toDouble();
  return value->isInt() ? std::optional(static_cast<double>(value->toInt())) : std::nullopt;
}

}  // namespace

std::optional<ClampBounds> clamp_bounds(const ir::GraphModule& gm, const ir::Node* node) {
  const auto clamp = clamp_of(gm, node);
  if (!clamp || node->outputs().size() != 1) return std::nullopt;
  if (*clamp == Clamp::ReLU) return ClampBounds{.lowest = 0, .highest = kInfinity};
  if (*clamp == Clamp::ReLU6) return ClampBounds{.lowest = 0, .highest = 6};
  const bool is_range = *clamp == Clamp::Range;
  const auto one_side = [&](const char* of_range, const char* of_hardtanh,
                            double absent) -> std::optional<double> {
    const bool has_side =
        ir::is_module_call(node) || argument_named(node, is_range ? of_range : of_hardtanh) != nullptr;
    return has_side ? bound(argument(gm, node, is_range ? of_range : of_hardtanh), absent) : absent;
  };
  const auto lowest = one_side("min", "min_val", -kInfinity);
  const auto highest = one_side("max", "max_val", kInfinity);
  if (!lowest || !highest) return std::nullopt;
  return ClampBounds{.lowest = *lowest, .highest = *highest};
}

void set_cut_off(ir::Node* quantize, const ClampBounds& bounds) {
  const ClampBounds before = cut_off(quantize).value_or(bounds);
  quantize->f_(kLowest, std::max(before.lowest, bounds.lowest));
  quantize->f_(kHighest, std::min(before.highest, bounds.highest));
}

std::optional<ClampBounds> cut_off(const ir::Node* quantize) {
  if (!quantize->hasAttribute(kLowest)) return std::nullopt;
  return ClampBounds{.lowest = quantize->f(kLowest), .highest = quantize->f(kHighest)};
}

}  // namespace tsq::operators
