#include "backends/kernels/operands.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "backends/kernels/layer_kind.h"
#include "config/qscheme.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "operators/arguments.h"
#include "operators/dynamic_input.h"
#include "operators/functional_weighted.h"
#include "operators/quantize_after.h"
#include "operators/roundings.h"
#include "operators/traits.h"
#include "operators/weighted.h"

namespace tsq::kernels {
namespace {

using ir::kDequantize;
using ir::kQuantize;
using ir::Model;
using ir::Node;
using ir::Value;

const c10::Symbol kDTypeAttribute = c10::Symbol::attr("tsq_dtype");

/// A value that was rounded to float16 is a tensor of halves, which no kernel reads.
bool is_rounded_to_half(const Value* value) {
  const auto rounded = operators::dynamic_input(value);
  return rounded ? rounded->dtype == c10::ScalarType::Half
                 : value->node()->input(0)->node()->kind() == c10::aten::to;
}

bool is_interpolation(const Node* node) {
  if (node->kind() != c10::prim::CallFunction) return false;
  const auto function = node->input(0)->type()->cast<c10::FunctionType>();
  return function && function->function()->qualname().name() == "interpolate";
}

/// The number of dimensions that an operator says of its result: flatten(x, 1), reshape(x, [a, b]).
std::optional<std::int64_t> written_rank(const Node* node) {
  if (node->kind() == c10::aten::flatten) {
    const bool is_matrix =
        ir::whole_number_constant(node->input(1)) == 1 && ir::whole_number_constant(node->input(2)) == -1;
    return is_matrix ? std::optional<std::int64_t>(2) : std::nullopt;
  }
  if (node->kind() != c10::aten::reshape && node->kind() != c10::aten::view) return std::nullopt;
  const Node* sizes = node->input(1)->node();
  if (sizes->kind() == c10::prim::ListConstruct) return std::ssize(sizes->inputs());
  const auto constant = ir::constant_value(node->input(1));
  return constant && constant->isIntList() ? std::optional<std::int64_t>(constant->toIntList().size())
                                           : std::nullopt;
}

bool is_mean_of_all(const Node* node) {
  const c10::FunctionSchema* schema = node->kind() == c10::aten::mean ? node->maybeSchema() : nullptr;
  return schema != nullptr && !schema->argumentIndexWithName("dim");
}

std::optional<std::int64_t> rank_of_name(std::string_view name) {
  constexpr std::array<std::string_view, 3> kDimensions{"1d", "2d", "3d"};
  const auto* const found = std::ranges::find_if(
      kDimensions, [&](std::string_view dims) { return name.find(dims) != std::string_view::npos; });
  return found == kDimensions.end() ? std::nullopt : std::optional(found - kDimensions.begin() + 3);
}

std::optional<std::int64_t> rank_of(const Model& model, const Value* bytes);

/// Of what a kernel returns in the place of a float operator whose output is observed.
std::optional<std::int64_t> rank_observed(const Model& model, const Value* observed) {
  const Node* maker = observed->node();
  const auto layer = layer_kind(model, maker);
  if (!layer || !ir::is_module_call(maker)) return rank_of(model, observed);
  return layer->op == "torch.nn.Linear" ? rank_of(model, maker->input(0)) : rank_of_name(layer->op);
}

std::optional<std::int64_t> rank_of(const Model& model, const Value* bytes) {
  const Node* node = bytes->node();
  const bool is_rounding = node->kind() == kQuantize || ir::is_observer(node);
  const Node* maker = is_rounding ? node->input(0)->node() : node;
  if (is_interpolation(node)) return rank_of(model, node->input(1));
  if (const auto rank = written_rank(maker)) return rank;
  if (is_mean_of_all(maker)) return 0;
  if (ir::is_observer(node)) return rank_observed(model, node->input(0));
  if (node->kind() == kQuantize && !is_interpolation(maker)) return std::nullopt;
  if (node->kind() == kQuantize || node->kind() == kDequantize) return rank_of(model, node->input(0));
  const std::string_view kind = node->kind().toQualString();
  if (kind.starts_with("quantized::add") || kind.starts_with("quantized::mul")) {
    const auto left = rank_of(model, node->input(0));
    const auto right = ir::holds_tensor(node->input(1)) ? rank_of(model, node->input(1)) : left;
    return left && right ? std::max(left, right) : std::nullopt;
  }
  if (kind.starts_with("quantized::linear")) return rank_of(model, node->input(0));
  if (const auto rank = rank_of_name(kind)) return rank;
  return operators::keeps_rank(operators::traits_of(node)) ? rank_of(model, ir::operands(node).front())
                                                           : std::nullopt;
}

LayerWeight rounded_as(const ObserverSpec& spec, ir::Weighted weighted) {
  const ResolvedObserver observer = resolve(spec);
  weighted.weight_qparams = form_of_qparams(observer, weighted.weight);
  weighted.group_size = observer.group_size;
  return LayerWeight(std::move(weighted));
}

LayerWeight weight_of_module(const Model& model, const Node* layer) {
  const ir::Weighted* weighted = ir::weighted_of(ir::call_of(model, layer));
  if (weighted == nullptr || weighted->weight_qparams) return LayerWeight(weighted);
  const QConfig* qconfig = ir::observed_qconfig(model, layer);
  if (qconfig == nullptr) return {};
  const Symbol type = ir::root_of(ir::call_of(model, layer)).type;
  return rounded_as(operators::weight_observer(type, qconfig->weight), *weighted);
}

}  // namespace

std::optional<c10::ScalarType> Operand::dtype() const {
  const Node* node = bytes_->node();
  while (node->kind() != kQuantize) {
    if (operators::is_static_rounding(*model_, node))
      return resolve(ir::observer_of(*model_, node).spec).dtype;
    if (node->hasAttribute(kDTypeAttribute)) return static_cast<c10::ScalarType>(node->i(kDTypeAttribute));
    if (node->inputs().empty() || node->kind().is_prim()) return std::nullopt;
    node = node->input(0)->node();
  }
  return ir::dtype_constant(node->input(3));
}

std::optional<double> Operand::scale() const {
  const Node* node = bytes_->node();
  while (operators::keeps_qparams(operators::traits_of(node))) node = ir::operands(node).front()->node();
  const Value* scale =
      node->kind() == kQuantize ? node->input(1) : operators::argument_named(node, "output_scale");
  if (scale == nullptr && node->kind().toQualString() == std::string_view("quantized::add"))
    scale = operators::argument_named(node, "scale");
  return scale == nullptr ? std::nullopt : ir::number_constant(scale);
}

std::optional<std::int64_t> Operand::rank() const { return rank_of(*model_, bytes_); }

bool Operand::batch_was_added() const {
  const Node* node = bytes_->node();
  while (ir::is_observer(node) ||
         (node->kind() != kQuantize && operators::is_elementwise(operators::traits_of(node))))
    node = (ir::is_observer(node) ? node->input(0) : ir::operands(node).front())->node();
  return node->kind() == c10::aten::unsqueeze || node->kind() == c10::aten::reshape;
}

Value* quantized_before(const Value* value) {
  const Node* node = value->node();
  const bool is_rounded = node->kind() == kDequantize && !is_rounded_to_half(value);
  return is_rounded ? const_cast<Value*>(node->input(0)) : nullptr;
}

std::optional<Operand> bytes_read(const Model& model, const Value* value) {
  if (const Value* quantized = quantized_before(value)) return Operand(model, quantized);
  const Value* observed = operators::before_channel_observers(model, const_cast<Value*>(value));
  if (!operators::is_static_rounding(model, observed->node())) return std::nullopt;
  return Operand(model, observed);
}

std::optional<Operand> bytes_returned(const Model& model, const Node* op) {
  if (const Node* quantize = operators::quantize_after(op)) return Operand(model, quantize->output());
  const Node* reader = ir::only_reader(op);
  while (reader != nullptr && !operators::is_static_rounding(model, reader)) reader = ir::only_reader(reader);
  return reader == nullptr ? std::nullopt : std::optional(Operand(model, reader->output()));
}

QParams form_of_qparams(const ResolvedObserver& observer, const at::Tensor& weight) {
  const bool is_each_channel = is_per_channel(observer.qscheme);
  const std::int64_t axis = is_each_channel ? at::maybe_wrap_dim(observer.ch_axis, weight.dim()) : 0;
  const at::Tensor scale = at::ones({is_each_channel ? weight.size(axis) : 1});
  return {.scale = scale,
          .zero_point = is_symmetric(observer.qscheme) ? at::zeros_like(scale) : at::ones_like(scale),
          .dtype = observer.dtype,
          .qscheme = affine_form(observer.qscheme),
          .axis = axis};
}

LayerWeight weight_read(const Model& model, const Node* layer) {
  if (ir::is_module_call(layer)) return weight_of_module(model, layer);
  if (layer->inputs().size() < 2) return {};
  if (auto rounded = operators::functional_parameters(model, layer)) return LayerWeight(*std::move(rounded));
  const Node* observer = layer->input(1)->node();
  auto exact =
      ir::is_observer(observer) ? operators::float_functional_parameters(model, layer) : std::nullopt;
  return exact ? rounded_as(ir::observer_of(model, observer).spec, *std::move(exact)) : LayerWeight();
}

void note_dtype(const Model& model, Node* kernel) {
  if (const auto dtype = Operand(model, kernel->output()).dtype())
    kernel->i_(kDTypeAttribute, static_cast<std::int64_t>(*dtype));
}

}  // namespace tsq::kernels
