#include "modules/clamp_bounds.h"

#include <algorithm>
#include <array>
#include <limits>

#include "modules/kernel_arguments.h"
#include "modules/weighted.h"

namespace tsq::modules {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Clamp { ReLU, ReLU6, Hardtanh, Range };

struct ClampName {
  std::string_view name;
  Clamp clamp;
};
constexpr std::array kClamps{
    ClampName{"torch.nn.ReLU", Clamp::ReLU},
    ClampName{"torch.nn.functional.relu", Clamp::ReLU},
    ClampName{"torch.relu", Clamp::ReLU},
    ClampName{"relu", Clamp::ReLU},
    ClampName{"relu_", Clamp::ReLU},
    ClampName{"torch.nn.ReLU6", Clamp::ReLU6},
    ClampName{"torch.nn.functional.relu6", Clamp::ReLU6},
    ClampName{"torch.nn.Hardtanh", Clamp::Hardtanh},
    ClampName{"torch.nn.functional.hardtanh", Clamp::Hardtanh},
    ClampName{"torch.nn.functional.hardtanh_", Clamp::Hardtanh},
    ClampName{"torch.clamp", Clamp::Range},
    ClampName{"clamp", Clamp::Range},
};

std::optional<Clamp> clamp_of(const ir::GraphModule& gm, const ir::Node* node) {
  for (const Symbol& target : ir::targets(gm, node)) {
    const auto found = std::ranges::find(kClamps, target.name, &ClampName::name);
    if (found != kClamps.end()) return found->clamp;
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
  const auto lowest = bound(argument(gm, node, is_range ? "min" : "min_val"), -kInfinity);
  const auto highest = bound(argument(gm, node, is_range ? "max" : "max_val"), kInfinity);
  if (!lowest || !highest) return std::nullopt;
  return ClampBounds{.lowest = *lowest, .highest = *highest};
}

}  // namespace tsq::modules
