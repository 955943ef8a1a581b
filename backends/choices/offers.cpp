#include "backends/choices/offers.h"

#include <fmt/format.h>
#include <tsq/dtype_config.h>

#include <utility>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/first_row.h"
#include "backends/kernels/kernel_arguments.h"
#include "backends/kernels/layer_kind.h"
#include "backends/kernels/operands.h"
#include "backends/kernels/packed.h"
#include "backends/kernels/packing_rules.h"
#include "backends/programs/translations.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "match/dtype_check.h"
#include "observers/observer_module.h"
#include "operators/arguments.h"
#include "operators/functional_weighted.h"
#include "operators/weighted.h"
#include "torchscript/modules/embedding.h"
#include "torchscript/modules/recurrent.h"
#include "torchscript/modules/weight_only_linear.h"

namespace tsq::kernels {
namespace {

using ir::Model;
using ir::Node;
using ir::Reason;
using ir::Value;

constexpr std::string_view kLinear = "torch.nn.Linear";
constexpr const char* kSavesNoTime = "give it no qconfig: the rounding before and after it saves no time";

std::optional<Refusal> refusal_by_fault(const KernelUse& use) {
  const KernelFault* fault = fault_of(use, Precaution::KeepReference);
  if (fault == nullptr) return std::nullopt;
  return Refusal{Reason::KernelFault, std::string(fault->reason), remedy_of(*fault)};
}

std::optional<Refusal> refusal_by_packing(const Target& target, std::string_view prepack,
                                          const ir::Weighted& weighted) {
  std::string why = packing_refusal(target, prepack, weighted);
  return why.empty() ? std::nullopt : std::optional(refusal_of_packing(std::move(why)));
}

std::optional<Refusal> refusal_of_layer(const KernelUse& use, std::string_view prepack) {
  auto refusal = refusal_by_fault(use);
  return refusal ? refusal : refusal_by_packing(use.target, prepack, *use.weighted);
}

const Value* first_operand(const Node* op) {
  const auto operands = ir::operands(op);
  return operands.empty() ? nullptr : operands.front();
}

KernelUse use_of(const Target& target, const Model& model, const Node* op, std::string_view kernel) {
  const Value* first = first_operand(op);
  return {.target = target,
          .model = model,
          .op = op,
          .kernel = kernel,
          .input = first == nullptr ? std::nullopt : bytes_read(model, first)};
}

/// The row that the first of an operator's names has in a table, and that name.
template <typename RowOf>
auto named_row(const Model& model, const Node* op, const RowOf& row_of) {
  std::string name;
  decltype(row_of(Symbol{})) row = nullptr;
  for (const Symbol& target : ir::targets(model, op)) {
    row = row_of(target);
    name = target.name;
    if (row != nullptr) break;
  }
  return std::pair(row, name);
}

/// The slope of a LeakyReLU after a function is written into the call.
bool is_known(const Model& model, const Node* op, const Node* post, PostOp post_op) {
  return post_op != PostOp::LeakyReLU || ir::is_module_call(op) || slope_after(model, post).has_value();
}

/// What a layer and the activation after it are to the table.
std::optional<LayerKind> kind_with(const Model& model, const Node* op, const Node* post) {
  auto kind = layer_kind(model, op);
  if (!kind || post == nullptr) return kind;
  const PostOp post_op = post_op_of(model, post);
  // FX drops this ReLU (L-03); the kernel with ReLU is the one that is meant.
  const bool is_one_kernel = ir::is_module_call(op) ? kind->post_op == PostOp::None && post_op == PostOp::ReLU
                                                    : post_op != PostOp::None;
  if (!is_one_kernel || !is_known(model, op, post, post_op)) return std::nullopt;
  kind->post_op = post_op;
  return kind;
}

/// The dtype of a layer's weight, also of one that is computed when the model runs.
std::optional<c10::ScalarType> weight_dtype(const Node* op, const ir::Weighted* weighted) {
  if (weighted != nullptr)
    return weighted->weight_qparams ? std::optional(weighted->weight_qparams->dtype) : std::nullopt;
  return ir::is_module_call(op) || op->inputs().size() < 2 ? std::nullopt
                                                           : operators::functional_weight_dtype(op);
}

/// The kernels have no alpha: add(x, y, alpha=2) stays as it is (FX drops the alpha).
bool has_unit_alpha(const Node* op) {
  if (op->kind() != c10::aten::add || op->inputs().size() < 3) return true;
  return ir::whole_number_constant(op->input(2)) == 1;
}

Refusal refusal_of_table(std::string why) {
  return {Reason::NoKernel, std::move(why),
          "give it float_qparams_weight_only_qconfig, whose weights have a scale for each row, or none"};
}

/// That a kernel's arguments cannot be told.
Refusal refusal_of_arguments(std::string_view kernel, const Model& model, const Node* op) {
  const ir::ModuleCall* call = ir::is_module_call(op) ? &ir::root_of(ir::call_of(model, op)) : nullptr;
  const bool is_batch_norm = kernel.starts_with("quantized::batch_norm") && call != nullptr && call->module;
  if (is_batch_norm && !operators::batch_norm_parameters(*call->module))
    return {Reason::NoKernel, fmt::format("{} needs running statistics, and the layer has none", kernel),
            "give the layer running statistics (track_running_stats=True), or no qconfig"};
  return {Reason::NoKernel, fmt::format("{} does not take its arguments", kernel), kSavesNoTime};
}

bool is_number(const Value* value) { return ir::is_constant(value) && !ir::holds_tensor(value); }

}  // namespace

Refusal refusal_of_packing(std::string why) {
  return {Reason::PackingRefused, std::move(why),
          "choose a qconfig whose weight observer the engine takes, or none for this layer"};
}

PostOp post_op_of(const Model& model, const Node* activation) {
  for (const Symbol& target : ir::targets(model, activation)) {
    const PostOp post_op = activation_post_op(target.name);
    if (post_op != PostOp::None) return post_op;
  }
  return PostOp::None;
}

std::optional<double> slope_after(const Model& model, const Node* leaky_relu) {
  if (ir::is_module_call(leaky_relu)) return operators::negative_slope(ir::call_of(model, leaky_relu));
  const auto slope = operators::argument_constant(model, leaky_relu, "negative_slope");
  return slope && slope->isScalar() ? std::optional(slope->toScalar().toDouble()) : std::nullopt;
}

Offer<WeightedKernel> weighted_offer(const Target& target, const Model& model, const Node* op,
                                     const Node* post) {
  const auto kind = kind_with(model, op, post);
  const WeightedKernel* row = kind ? weighted_kernel(kind->op, kind->post_op) : nullptr;
  if (row == nullptr || op->inputs().empty()) return {};
  const LayerWeight weight = weight_read(model, op);
  const auto dtype = weight_dtype(op, weight.get());
  if (dtype && *dtype != c10::ScalarType::QInt8) {
    return {row, Refusal{Reason::NoKernel, fmt::format("no kernel takes a weight of {}", dtype_name(*dtype)),
                         "give it a weight observer of qint8; where it is what flows that is rounded, name "
                         "the weight by 'input_type_to_index' in the backend's row"}};
  }
  if (weight.get() == nullptr) {
    // Packed when the model runs.
    if (ir::is_module_call(op) || !may_be_packed_at_run(op, row->prepack)) return {};
    return {row};
  }
  if (!weight.get()->weight_qparams) return {};
  KernelUse use = use_of(target, model, op, row->kernel);
  use.weighted = weight.get();
  return {row, refusal_of_layer(use, row->prepack)};
}

BinaryOffer binary_offer(const Target& target, const Model& model, const Node* op, const Node* post) {
  if (post != nullptr && post_op_of(model, post) != PostOp::ReLU) return {};
  const BinaryKernel* row =
      named_row(model, op, [](const Symbol& name) { return binary_kernel(name.name); }).first;
  if (row == nullptr || op->inputs().size() < 2) return {};
  const std::string_view kernel = post == nullptr ? row->kernel : row->relu_kernel;
  if (kernel.empty()) return {};
  if (!has_unit_alpha(op)) {
    return {{row, Refusal{Reason::NoKernel, "the kernels of addition have no alpha",
                          "multiply the second operand before the addition"}},
            kernel};
  }
  // With a number the result's range follows from the input's and the number; the kernel works it out.
  if (is_number(op->input(1))) return {{row}, kernel};
  return {{row, refusal_by_fault(use_of(target, model, op, kernel))}, kernel};
}

UnaryOffer unary_offer(const Target& target, const Model& model, const Node* op) {
  const auto [row, name] = named_row(model, op, [](const Symbol& each) { return unary_kernel(each); });
  if (row == nullptr || ir::arguments(op).empty()) return {};
  const bool has_kernel = row->how == Unary::Kernel;
  std::string kernel = has_kernel ? std::string(row->kernel) : name;
  auto refusal = refusal_by_fault(use_of(target, model, op, kernel));
  if (!refusal && has_kernel && !kernel_arguments(row->kernel, model, op))
    refusal = refusal_of_arguments(row->kernel, model, op);
  return {{row, std::move(refusal)}, std::move(kernel)};
}

Offer<FloatOutputKernel> float_output_offer(const Target& target, const Model& model, const Node* layer) {
  if (layer->inputs().empty() || (ir::is_module_call(layer) && layer->inputs().size() != 1)) return {};
  const auto kind = layer_kind(model, layer);
  const FloatOutputKernel* row = kind ? float_output_kernel(target.engine, kind->op, kind->post_op) : nullptr;
  if (row == nullptr) return {};
  const LayerWeight weight = weight_read(model, layer);
  const auto dtype = weight_dtype(layer, weight.get());
  if (weight.get() == nullptr || dtype != c10::ScalarType::QInt8) {
    return {row, Refusal{Reason::NoKernel, "its weight is not rounded to qint8 before the model runs",
                         "give it a weight observer of qint8"}};
  }
  KernelUse use = use_of(target, model, layer, row->kernel);
  use.weighted = weight.get();
  return {row, refusal_of_layer(use, row->prepack)};
}

std::string_view pointwise_activation(const FloatOutputKernel& kernel, const Model& model,
                                      const Node* activation) {
  if (kernel.post_op != PostOp::None) return {};
  for (const Symbol& target : ir::targets(model, activation)) {
    const std::string_view name = pointwise_post_op(target.name, kernel.kernel);
    if (!name.empty()) return name;
  }
  return {};
}

Offer<DynamicKernel> dynamic_offer(const Target& target, const Model& model, const Node* op,
                                   const Node* relu) {
  const auto kind = op->inputs().empty() ? std::nullopt : layer_kind(model, op);
  if (!kind || (relu != nullptr && post_op_of(model, relu) != PostOp::ReLU)) return {};
  const LayerWeight weight = weight_read(model, op);
  const auto dtype = weight_dtype(op, weight.get());
  const DynamicKernel* row =
      dtype ? dynamic_kernel(kind->op, relu == nullptr ? kind->post_op : PostOp::ReLU, *dtype) : nullptr;
  if (row == nullptr) return {};
  KernelUse use{.target = target, .model = model, .op = op, .kernel = row->prepack, .weighted = weight.get()};
  auto refusal = refusal_by_fault(use);
  if (weight.get() == nullptr) {
    const bool is_listed = refusal || may_be_packed_at_run(op, row->prepack);
    return {is_listed ? row : nullptr, std::move(refusal)};
  }
  use.kernel = row->kernel;
  if (!refusal) refusal = refusal_by_fault(use);
  return {row, refusal ? refusal : refusal_by_packing(target, row->prepack, *weight.get())};
}

Offer<RecurrentKernel> recurrent_offer(const Target& target, const Model& model, const Node* op) {
  const ir::ModuleCall& call = ir::call_of(model, op);
  const std::vector<QParams> rounded = programs::recurrent_qparams(model, op);
  if (rounded.empty()) {
    std::string why = torchscript::recurrent_weights(call).refusal;
    if (!why.empty()) return {nullptr, Refusal{Reason::NoKernel, std::move(why)}};
  }
  const std::string_view kernel = torchscript::recurrent_kernel_of(call);
  const RecurrentKernel* row =
      first_row(recurrent_kernels(), [&](const RecurrentKernel& each) { return each.kernel == kernel; });
  for (const QParams& qparams : rounded) {
    const RecurrentPacking* packing = recurrent_packing(qparams.dtype);
    if (packing == nullptr) continue;  // a first layer may stay float
    auto refusal = refusal_by_fault({.target = target, .model = model, .op = op, .kernel = packing->prepack});
    if (!refusal) refusal = refusal_by_packing(target, packing->prepack, {.weight_qparams = qparams});
    if (refusal) return {row, std::move(refusal)};
  }
  return {row};
}

NamedOffer embedding_offer(const Model& model, const Node* op) {
  if (!ir::is_module_call(op)) return {};
  const ir::ModuleCall& call = ir::call_of(model, op);
  const QConfig* qconfig = ir::observed_qconfig(model, op);
  if (!call.embedding) {
    if (qconfig == nullptr || !torchscript::is_embedding(call.type)) return {};
    return {std::string(call.type.name), refusal_of_table("the file does not show its mode and arguments")};
  }
  ir::EmbeddingTable table = *call.embedding;
  if (table.weight_qparams) return {torchscript::embedding_kernel(table)};
  if (qconfig == nullptr) return {};
  std::string why = torchscript::unquantizable(table, {});
  if (!why.empty()) return {std::string(call.type.name), refusal_of_table(std::move(why))};
  table.weight_qparams = QParams{.dtype = resolve(qconfig->weight).dtype};
  if (!c10::isQIntType(table.weight_qparams->dtype)) return {};
  why = torchscript::unquantizable(table, observe_once(qconfig->weight, table.weight.slice(0, 0, 1)));
  return {torchscript::embedding_kernel(table),
          why.empty() ? std::nullopt : std::optional(refusal_of_table(std::move(why)))};
}

NamedOffer weight_only_offer(const Model& model, const Node* op) {
  if (!ir::is_module_call(op) || ir::root_of(ir::call_of(model, op)).type.name != kLinear) return {};
  const QConfig* qconfig = ir::observed_qconfig(model, op);
  const LayerWeight weight = weight_read(model, op);
  if (qconfig == nullptr || !match::is_weight_only(*qconfig) || weight.get() == nullptr ||
      !weight.get()->weight_qparams)
    return {};
  NamedOffer offer{std::string(torchscript::weight_only_kernel(*weight.get()))};
  if (!torchscript::takes_weight_only(*weight.get())) {
    offer.refusal = Refusal{Reason::NoKernel,
                            fmt::format("no kernel takes its weight ({}), which is rounded and stays float",
                                        dtype_name(weight.get()->weight_qparams->dtype)),
                            "give it a weight observer of symmetric qint8 for each row, or of quint4x2 with "
                            "a group_size, or none"};
  }
  return offer;
}

}  // namespace tsq::kernels
