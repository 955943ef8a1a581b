#include "backends/kernels/packed.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>

#include "base/libtorch_error.h"
#include "ir/edit.h"
#include "operators/arguments.h"
#include "operators/images/convolution_padding.h"

namespace tsq::kernels {
namespace {

bool is_linear_prepack(std::string_view prepack) {
  return prepack == "quantized::linear_prepack" || prepack == "quantized::linear_prepack_fp16";
}
bool is_transposed_prepack(std::string_view prepack) {
  return prepack.find("conv_transpose") != std::string_view::npos;
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

/// at::quantize_per_channel's bits (fbgemm::Quantize: nearbyint(zero_point + x · (1 / scale)), clamped), by
/// vector operations instead of its loop over single values, which takes twenty times as long.
at::Tensor quantize_channels(const at::Tensor& weight, const QParams& qparams) {
  constexpr double kMin = -128;
  constexpr double kMax = 127;
  std::vector<int64_t> shape(static_cast<std::size_t>(weight.dim()), 1);
  shape[static_cast<std::size_t>(qparams.axis)] = -1;
  at::Tensor codes = weight * at::reciprocal(qparams.scale).reshape(shape);
  codes.add_(qparams.zero_point.to(at::kFloat).reshape(shape)).round_().clamp_(kMin, kMax);
  return at::_make_per_channel_quantized_tensor(codes.to(at::kChar), qparams.scale, qparams.zero_point,
                                                qparams.axis);
}

/// What a packing operator is given after the weight of a function; empty where it does not take that.
std::vector<ir::Value*> arguments_at_run(const ir::Node* op, std::string_view prepack) {
  const bool is_linear = is_linear_prepack(prepack);
  if (!is_linear && (is_transposed_prepack(prepack) || op->inputs().size() < 4)) return {};
  std::vector<ir::Value*> arguments{operators::argument_named(op, "bias")};
  if (!is_linear) {
    for (const char* name : {"stride", "padding", "dilation", "groups"})
      arguments.push_back(operators::argument_named(op, name));
  }
  const auto is_taken = [](const ir::Value* value) {
    return value != nullptr && value->type()->kind() != c10::TypeKind::StringType;
  };
  return std::ranges::all_of(arguments, is_taken) ? arguments : std::vector<ir::Value*>{};
}

}  // namespace

at::Tensor quantized_weight(const ir::Weighted& weighted) {
  const QParams& qparams = *weighted.weight_qparams;
  const at::Tensor weight = weighted.weight.detach().contiguous();
  if (qparams.qscheme == c10::QScheme::PER_TENSOR_AFFINE) {
    return at::quantize_per_tensor(weight, qparams.scale.item<float>(), qparams.zero_point.item<int64_t>(),
                                   qparams.dtype);
  }
  const bool plain = qparams.dtype == c10::ScalarType::QInt8 && weight.scalar_type() == at::kFloat;
  if (plain && at::isfinite(weight.sum()).item<bool>()) return quantize_channels(weight, qparams);
  return at::quantize_per_channel(weight, qparams.scale, qparams.zero_point, qparams.axis, qparams.dtype);
}

c10::TypePtr packed_type(std::string_view prepack) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(std::string(prepack).c_str(), "")
      .schema()
      .returns()
      .front()
      .type();
}

torch::jit::Stack call_operator(std::string_view name, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(std::string(name).c_str(), "").callBoxed(&stack);
  return stack;
}

std::optional<UnpackedParams> unpacked(const ir::Model& model, const ir::Value* packed,
                                       std::string_view unpack) {
  const ir::Node* attribute = packed->node();
  if (attribute->kind() != c10::prim::GetAttr || attribute->input(0) != model.graph->inputs().at(0))
    return std::nullopt;
  const torch::jit::Stack parts =
      call_operator(unpack, {model.attributes.attr(attribute->s(c10::attr::name))});
  return UnpackedParams{.weight = parts.at(0).toTensor(),
                        .bias = parts.at(1).isNone() ? at::Tensor() : parts.at(1).toTensor()};
}

Error refusal(std::string_view prepack, const char* reason) {
  return {ErrorCode::Unsupported, fmt::format("{} refused the weight: {}", prepack, first_line(reason)),
          "choose a qconfig whose weight observer the engine takes, or none for this layer"};
}

c10::IValue pack(std::string_view prepack, const ir::Weighted& weighted, const at::Tensor& quantized) {
  // Packing rounds what becomes float16.
  torch::jit::Stack stack{weighted.weight_qparams->dtype == c10::ScalarType::Half
                              ? weighted.weight.detach().to(at::kFloat)
                              : (quantized.defined() ? quantized : quantized_weight(weighted)),
                          weighted.bias.defined() ? c10::IValue(weighted.bias.detach()) : c10::IValue()};
  if (!is_linear_prepack(prepack)) {
    stack.insert(stack.end(), {weighted.stride, operators::kernel_padding(weighted)});
    if (is_transposed_prepack(prepack)) stack.emplace_back(weighted.output_padding);
    stack.insert(stack.end(), {weighted.dilation, weighted.groups});
  }
  try {
    return call_operator(prepack, std::move(stack)).back();
  } catch (const c10::Error& error) {
    rethrow_out_of_memory(error);
    throw refusal(prepack, error.what_without_backtrace());
  }
}

bool may_be_packed_at_run(const ir::Node* op, std::string_view prepack) {
  return !arguments_at_run(op, prepack).empty();
}

ir::Value* packed_at_run(const ir::Node* op, std::string_view prepack, ir::Node* before) {
  std::vector<ir::Value*> inputs = arguments_at_run(op, prepack);
  inputs.insert(inputs.begin(), op->input(1)->node()->input(0));
  return ir::insert_before(before, std::string(prepack).c_str(), inputs, packed_type(prepack));
}

}  // namespace tsq::kernels
