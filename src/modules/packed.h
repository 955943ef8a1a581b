#pragma once

#include <tsq/error.h>

#include <string_view>

#include "ir/graph_module.h"

namespace tsq::modules {

/// The weight of a reference operator, quantized with its qparams.
at::Tensor quantized_weight(const ir::Weighted& weighted);

/// Packed params of a weighted operator for the current engine: `prepack` is the packing operator
/// ("quantized::conv2d_prepack", "quantized::linear_prepack_fp16" for weights of dtype Half). Throws
/// Error(Unsupported) with LibTorch's reason when the engine cannot pack it. Safe to call from several
/// threads. `quantized`: the weight, where it is quantized already.
c10::IValue pack(std::string_view prepack, const ir::Weighted& weighted, const at::Tensor& quantized = {});

/// What an operator of LibTorch gives for `stack`: the dispatcher's boxed call.
torch::jit::Stack call_operator(std::string_view name, torch::jit::Stack stack);

/// The weight and bias in packed params.
struct UnpackedParams {
  at::Tensor weight{};  ///< quantized
  at::Tensor bias{};    ///< undefined: none
};
/// Those that an attribute of the graph module holds, by `unpack` ("quantized::linear_unpack"); empty where
/// `packed` is anything else.
std::optional<UnpackedParams> unpacked(const ir::GraphModule& gm, const ir::Value* packed,
                                       std::string_view unpack);

/// That an engine cannot pack a weight, with LibTorch's reason.
Error refusal(std::string_view prepack, const char* reason);

/// The type of what `prepack` gives.
c10::TypePtr packed_type(std::string_view prepack);

/// How much F.pad adds on each side, innermost dimension first, when padding is not the kernel's own
/// (padding_mode, padding='same').
std::vector<int64_t> explicit_padding(const ir::Weighted& weighted);
/// Whether the input has to be padded before the kernel.
[[nodiscard]] bool pads_outside(const ir::Weighted& weighted);
/// How much a convolution's kernel pads itself on both sides of each dimension.
[[nodiscard]] std::vector<int64_t> kernel_padding(const ir::Weighted& weighted);

}  // namespace tsq::modules
