#include <array>
#include <string>

#include "backends/programs/translations.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/weighted.h"

namespace tsq::programs {
namespace {

using ir::Node;
using ir::Value;
using runtime::Extent;
using runtime::Kind;

/// What torch.nn.functional.interpolate is asked for. Undefined arguments are not known before the model
/// runs.
struct Interpolation {
  const Value* input{};
  std::optional<c10::IValue> mode{};
  std::optional<c10::IValue> factors{};
  std::optional<c10::IValue> align_corners{};
  std::optional<c10::IValue> recomputes_factors{};
  std::optional<c10::IValue> antialias{false};
  std::optional<std::vector<Extent>> size{};
};

/// A single number stands for all dimensions, of which a signal has one and an image two.
std::optional<std::vector<Extent>> size_asked(ProgramBuilder& program, const Value* size) {
  const auto constant = ir::constant_value(size);
  if (constant && constant->isInt()) return std::vector{Extent(constant->toInt())};
  if (constant && constant->isNone()) return std::nullopt;
  return program.extents(size);
}

std::optional<std::vector<double>> factors_asked(const std::optional<c10::IValue>& factors) {
  if (!factors) return std::nullopt;
  if (factors->isScalar()) return std::vector{factors->toScalar().toDouble()};
  if (factors->isDoubleList()) return factors->toDoubleVector();
  if (!factors->isTuple()) return std::nullopt;
  std::vector<double> numbers;
  for (const c10::IValue& number : factors->toTupleRef().elements()) {
    if (!number.isScalar()) return std::nullopt;
    numbers.push_back(number.toScalar().toDouble());
  }
  return numbers;
}

std::optional<Interpolation> of_function(ProgramBuilder& program, const Node* node) {
  if (!is_interpolate(program.model(), node)) return std::nullopt;
  return Interpolation{.input = node->input(1),
                       .mode = ir::constant_value(node->input(4)),
                       .factors = ir::constant_value(node->input(3)),
                       .align_corners = ir::constant_value(node->input(5)),
                       .recomputes_factors = ir::constant_value(node->input(6)),
                       .antialias = ir::constant_value(node->input(7)),
                       .size = size_asked(program, node->input(2))};
}

std::optional<Interpolation> of_module(const ir::Model& model, const Node* node) {
  if (!ir::is_module_call(node)) return std::nullopt;
  const ir::ModuleCall& call = ir::call_of(model, node);
  if (!call.module || call.type.name != "torch.nn.Upsample") return std::nullopt;
  const auto constant = [&](const char* name) {
    return operators::module_constant(*call.module, name, c10::aten::upsample_nearest2d, name);
  };
  Interpolation asked{.input = node->input(0),
                      .mode = constant("mode"),
                      .factors = constant("scale_factor"),
                      .align_corners = constant("align_corners"),
                      .recomputes_factors = constant("recompute_scale_factor")};
  const auto size = constant("size");
  if (size && size->isInt()) asked.size = std::vector{Extent(size->toInt())};
  return asked;
}

bool is_off(const std::optional<c10::IValue>& flag) {
  return flag && (flag->isNone() || (flag->isBool() && !flag->toBool()));
}

}  // namespace

bool is_interpolate(const ir::Model& model, const Node* node) {
  constexpr std::size_t kArguments = 8;  // the function itself and its seven
  if (node->kind() != c10::prim::CallFunction || node->inputs().size() != kArguments) return false;
  const auto targets = ir::targets(model, node);
  return !targets.empty() && targets.front().name == "torch.nn.functional.interpolate";
}

bool translate_interpolation(ProgramBuilder& program, const Node* node) {
  auto asked = of_function(program, node);
  if (!asked) asked = of_module(program.model(), node);
  if (!asked || !asked->mode || !asked->mode->isString() || !is_off(asked->align_corners) ||
      !is_off(asked->recomputes_factors) || !is_off(asked->antialias))
    return false;
  const bool is_nearest = asked->mode->toStringRef() == "nearest";
  if (!is_nearest && asked->mode->toStringRef() != "bilinear") return false;
  const auto factors = factors_asked(asked->factors);
  const auto input = asked->size || factors ? program.tensor(asked->input) : std::nullopt;
  if (!input) return false;
  runtime::Operation operation{.kind = is_nearest ? Kind::ResizeNearest : Kind::ResizeBilinear,
                               .inputs = {*input}};
  if (asked->size) {
    operation.size = *asked->size;
  } else {
    operation.scale_factors = *factors;
  }
  const runtime::Value type = is_nearest ? program.type_of(*input) : runtime::Value{};
  program.define(node->output(), program.write(std::move(operation), type));
  return true;
}

}  // namespace tsq::programs
