#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "backends/programs/translations.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/arguments.h"

namespace tsq::programs {
namespace {

using ir::ModuleCall;
using runtime::Kind;
using runtime::Operation;

/// The size that a pool is asked for; a number stands for all dimensions. Empty where one is the input's.
std::optional<std::vector<std::int64_t>> pool_size(const std::optional<c10::IValue>& size, std::size_t rank) {
  if (!size) return std::nullopt;
  if (size->isInt()) return std::vector<std::int64_t>(rank, size->toInt());
  if (size->isIntList()) return size->toIntVector();
  if (!size->isTuple() && !size->isList()) return std::nullopt;
  std::vector<std::int64_t> sizes;
  const auto elements = size->isTuple() ? size->toTupleRef().elements().vec() : size->toListRef().vec();
  for (const c10::IValue& element : elements) {
    if (!element.isInt()) return std::nullopt;
    sizes.push_back(element.toInt());
  }
  return sizes;
}

std::optional<int> batch_norm(ProgramBuilder& program, const ModuleCall& call, int input) {
  const auto norm = call.module ? operators::batch_norm_parameters(*call.module) : std::nullopt;
  return norm ? std::optional(write_batch_norm(program, *norm, input)) : std::nullopt;
}

std::optional<int> batch_norm_relu(ProgramBuilder& program, const ModuleCall& call, int input) {
  const auto norm = call.members.empty() ? std::nullopt : batch_norm(program, call.members.front(), input);
  if (!norm) return std::nullopt;
  return program.write(
      {.kind = Kind::Activation, .inputs = {*norm}, .post_ops = {{.kind = runtime::PostOpKind::Relu}}});
}

template <std::size_t Rank>
std::optional<int> adaptive_avg_pool(ProgramBuilder& program, const ModuleCall& call, int input) {
  constexpr std::array kOperators{c10::aten::adaptive_avg_pool1d, c10::aten::adaptive_avg_pool2d,
                                  c10::aten::adaptive_avg_pool3d};
  if (!call.module) return std::nullopt;
  const auto size = pool_size(
      operators::module_constant(*call.module, "output_size", kOperators.at(Rank - 1), "output_size"), Rank);
  return size ? std::optional(write_adaptive_avg_pool(program, *size, input)) : std::nullopt;
}

struct ModuleRow {
  std::string_view type;
  std::optional<int> (*write)(ProgramBuilder& program, const ModuleCall& call, int input);
};
constexpr std::array kModules{
    ModuleRow{"torch.nn.BatchNorm1d", batch_norm},
    ModuleRow{"torch.nn.BatchNorm2d", batch_norm},
    ModuleRow{"torch.nn.BatchNorm3d", batch_norm},
    ModuleRow{"torch.ao.nn.intrinsic.BNReLU2d", batch_norm_relu},
    ModuleRow{"torch.ao.nn.intrinsic.BNReLU3d", batch_norm_relu},
    ModuleRow{"torch.nn.AdaptiveAvgPool1d", adaptive_avg_pool<1>},
    ModuleRow{"torch.nn.AdaptiveAvgPool2d", adaptive_avg_pool<2>},
    ModuleRow{"torch.nn.AdaptiveAvgPool3d", adaptive_avg_pool<3>},
};

/// F.adaptive_avg_pool*: its size is its second argument.
bool translate_pool_function(ProgramBuilder& program, const ir::Node* node) {
  const auto targets = ir::targets(program.model(), node);
  const bool is_pool = std::ranges::any_of(targets, [](const Symbol& target) {
    return target.name.starts_with("torch.nn.functional.adaptive_avg_pool");
  });
  const auto read = ir::arguments(node);
  if (!is_pool || node->kind() != c10::prim::CallFunction || read.size() < 2) return false;
  const auto rank = static_cast<std::size_t>(targets.front().name.at(targets.front().name.size() - 2) - '0');
  const ir::Value* asked = node->inputs().back();
  const auto size = pool_size(ir::constant_value(asked), rank);
  const auto input = size ? program.tensor(read.front().value) : std::nullopt;
  if (input) program.define(node->output(), write_adaptive_avg_pool(program, *size, *input));
  return input.has_value();
}

}  // namespace

int write_batch_norm(ProgramBuilder& program, const operators::BatchNorm& norm, int input) {
  const at::Tensor deviation = (norm.running_var.detach().to(at::kDouble) + norm.eps).sqrt();
  const at::Tensor gamma =
      norm.weight.defined() ? norm.weight.detach().to(at::kDouble) : at::ones_like(deviation);
  const at::Tensor beta =
      norm.bias.defined() ? norm.bias.detach().to(at::kDouble) : at::zeros_like(deviation);
  const at::Tensor factor = gamma / deviation;
  return program.write(
      {.kind = Kind::ScaleShift,
       .inputs = {input},
       .weight = program.add_constant(factor.to(at::kFloat)),
       .bias = program.add_constant((beta - norm.running_mean.detach() * factor).to(at::kFloat)),
       .axis = 1});
}

int write_adaptive_avg_pool(ProgramBuilder& program, const std::vector<std::int64_t>& size, int input) {
  const bool is_whole = std::ranges::all_of(size, [](std::int64_t length) { return length == 1; });
  if (is_whole) return program.write({.kind = Kind::GlobalAvgPool, .inputs = {input}});
  return program.write(
      {.kind = Kind::AdaptiveAvgPool, .inputs = {input}, .size = {size.begin(), size.end()}});
}

bool translate_module(ProgramBuilder& program, const ir::Node* node) {
  if (!ir::is_module_call(node)) return translate_pool_function(program, node);
  const ModuleCall& call = ir::call_of(program.model(), node);
  const auto* const row = std::ranges::find(kModules, call.type.name, &ModuleRow::type);
  const auto input = row == kModules.end() ? std::nullopt : program.tensor(node->input(0));
  const auto result = input ? row->write(program, call, *input) : std::nullopt;
  if (result) program.define(node->output(), *result);
  return result.has_value();
}

}  // namespace tsq::programs
