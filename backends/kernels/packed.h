#pragma once

#include <tsq/error.h>

#include <string_view>

#include "ir/model.h"

namespace tsq::kernels {

/// The weight of a reference operator, quantized with its qparams.
at::Tensor quantized_weight(const ir::Weighted& weighted);

/// Packed params of a weighted operator for the current engine: `prepack` is the packing operator
/// ("quantized::conv2d_prepack", "quantized::linear_prepack_fp16" for weights of dtype Half). Throws
/// Error(Unsupported) with LibTorch's reason when the engine cannot pack it. Safe to call from several
/// threads. `quantized`: the weight, where it is quantized already.
c10::IValue pack(std::string_view prepack, const ir::Weighted& weighted, const at::Tensor& quantized = {});

/// What an operator of LibTorch returns for `stack`: the dispatcher's boxed call.
torch::jit::Stack call_operator(std::string_view name, torch::jit::Stack stack);

/// The weight and bias in packed params.
struct UnpackedParams {
  at::Tensor weight{};  ///< quantized
  at::Tensor bias{};    ///< undefined: none
};
/// Those that an attribute of the graph module holds, by `unpack` ("quantized::linear_unpack"); empty where
/// `packed` is anything else.
std::optional<UnpackedParams> unpacked(const ir::Model& model, const ir::Value* packed,
                                       std::string_view unpack);

/// That an engine cannot pack a weight, with LibTorch's reason.
Error refusal(std::string_view prepack, const char* reason);

/// The type of what `prepack` returns.
c10::TypePtr packed_type(std::string_view prepack);

/// Whether `prepack` takes the arguments of F.linear / F.conv* when the model runs.
[[nodiscard]] bool may_be_packed_at_run(const ir::Node* op, std::string_view prepack);
/// Packs the weight then, in front of `before` (L-07: what depends on an input is not folded).
ir::Value* packed_at_run(const ir::Node* op, std::string_view prepack, ir::Node* before);

}  // namespace tsq::kernels
