#pragma once

#include <tsq/pattern.h>

/// The PyTorch names that the tables speak of, as constants: a slip of the pen does not compile. One line a
/// name.
namespace tsq {

constexpr Symbol module(std::string_view name) { return {SymbolKind::Module, name}; }
constexpr Symbol function(std::string_view name) { return {SymbolKind::Function, name}; }
constexpr Symbol method(std::string_view name) { return {SymbolKind::Method, name}; }

/// torch.nn
namespace nn {
inline constexpr Symbol AdaptiveAvgPool1d = module("torch.nn.AdaptiveAvgPool1d");
inline constexpr Symbol AdaptiveAvgPool2d = module("torch.nn.AdaptiveAvgPool2d");
inline constexpr Symbol AdaptiveAvgPool3d = module("torch.nn.AdaptiveAvgPool3d");
inline constexpr Symbol AvgPool1d = module("torch.nn.AvgPool1d");
inline constexpr Symbol AvgPool2d = module("torch.nn.AvgPool2d");
inline constexpr Symbol AvgPool3d = module("torch.nn.AvgPool3d");
inline constexpr Symbol BatchNorm1d = module("torch.nn.BatchNorm1d");
inline constexpr Symbol BatchNorm2d = module("torch.nn.BatchNorm2d");
inline constexpr Symbol BatchNorm3d = module("torch.nn.BatchNorm3d");
inline constexpr Symbol ConstantPad2d = module("torch.nn.ConstantPad2d");
inline constexpr Symbol Conv2d = module("torch.nn.Conv2d");
inline constexpr Symbol ConvTranspose2d = module("torch.nn.ConvTranspose2d");
inline constexpr Symbol Dropout = module("torch.nn.Dropout");
inline constexpr Symbol ELU = module("torch.nn.ELU");
inline constexpr Symbol Embedding = module("torch.nn.Embedding");
inline constexpr Symbol EmbeddingBag = module("torch.nn.EmbeddingBag");
inline constexpr Symbol Flatten = module("torch.nn.Flatten");
inline constexpr Symbol GRU = module("torch.nn.GRU");
inline constexpr Symbol GRUCell = module("torch.nn.GRUCell");
inline constexpr Symbol Hardswish = module("torch.nn.Hardswish");
inline constexpr Symbol Hardtanh = module("torch.nn.Hardtanh");
inline constexpr Symbol Identity = module("torch.nn.Identity");
inline constexpr Symbol InstanceNorm1d = module("torch.nn.InstanceNorm1d");
inline constexpr Symbol InstanceNorm2d = module("torch.nn.InstanceNorm2d");
inline constexpr Symbol InstanceNorm3d = module("torch.nn.InstanceNorm3d");
inline constexpr Symbol LSTM = module("torch.nn.LSTM");
inline constexpr Symbol LSTMCell = module("torch.nn.LSTMCell");
inline constexpr Symbol LayerNorm = module("torch.nn.LayerNorm");
inline constexpr Symbol LeakyReLU = module("torch.nn.LeakyReLU");
inline constexpr Symbol Linear = module("torch.nn.Linear");
inline constexpr Symbol MaxPool1d = module("torch.nn.MaxPool1d");
inline constexpr Symbol MaxPool2d = module("torch.nn.MaxPool2d");
inline constexpr Symbol MaxPool3d = module("torch.nn.MaxPool3d");
inline constexpr Symbol PReLU = module("torch.nn.PReLU");
inline constexpr Symbol PixelShuffle = module("torch.nn.PixelShuffle");
inline constexpr Symbol PixelUnshuffle = module("torch.nn.PixelUnshuffle");
inline constexpr Symbol ReLU = module("torch.nn.ReLU");
inline constexpr Symbol ReLU6 = module("torch.nn.ReLU6");
inline constexpr Symbol RNNCell = module("torch.nn.RNNCell");
inline constexpr Symbol Sigmoid = module("torch.nn.Sigmoid");
inline constexpr Symbol Tanh = module("torch.nn.Tanh");
}  // namespace nn

/// torch.ao.nn.intrinsic: fused modules
namespace nni {
inline constexpr Symbol BNReLU2d = module("torch.ao.nn.intrinsic.BNReLU2d");
inline constexpr Symbol BNReLU3d = module("torch.ao.nn.intrinsic.BNReLU3d");
inline constexpr Symbol ConvAdd2d = module("torch.ao.nn.intrinsic.ConvAdd2d");
inline constexpr Symbol ConvAddReLU2d = module("torch.ao.nn.intrinsic.ConvAddReLU2d");
inline constexpr Symbol ConvReLU2d = module("torch.ao.nn.intrinsic.ConvReLU2d");
inline constexpr Symbol LinearBn1d = module("torch.ao.nn.intrinsic.LinearBn1d");
inline constexpr Symbol LinearLeakyReLU = module("torch.ao.nn.intrinsic.LinearLeakyReLU");
inline constexpr Symbol LinearReLU = module("torch.ao.nn.intrinsic.LinearReLU");
inline constexpr Symbol LinearTanh = module("torch.ao.nn.intrinsic.LinearTanh");
}  // namespace nni

/// torch.ao.nn.qat: modules that fake-quantize their weights
namespace nnqat {
inline constexpr Symbol Embedding = module("torch.ao.nn.qat.Embedding");
inline constexpr Symbol EmbeddingBag = module("torch.ao.nn.qat.EmbeddingBag");
inline constexpr Symbol Linear = module("torch.ao.nn.qat.Linear");
}  // namespace nnqat

/// torch.ao.nn.intrinsic.qat: fused modules that fake-quantize their weights
namespace nniqat {
inline constexpr Symbol ConvBn2d = module("torch.ao.nn.intrinsic.qat.ConvBn2d");
inline constexpr Symbol ConvBnReLU2d = module("torch.ao.nn.intrinsic.qat.ConvBnReLU2d");
inline constexpr Symbol ConvReLU2d = module("torch.ao.nn.intrinsic.qat.ConvReLU2d");
inline constexpr Symbol LinearBn1d = module("torch.ao.nn.intrinsic.qat.LinearBn1d");
inline constexpr Symbol LinearReLU = module("torch.ao.nn.intrinsic.qat.LinearReLU");
}  // namespace nniqat

/// torch.ao.nn.quantized.reference: modules with quantized weights and float arithmetic
namespace nnqr {
inline constexpr Symbol Conv2d = module("torch.ao.nn.quantized.reference.Conv2d");
inline constexpr Symbol Embedding = module("torch.ao.nn.quantized.reference.Embedding");
inline constexpr Symbol EmbeddingBag = module("torch.ao.nn.quantized.reference.EmbeddingBag");
inline constexpr Symbol GRU = module("torch.ao.nn.quantized.reference.GRU");
inline constexpr Symbol GRUCell = module("torch.ao.nn.quantized.reference.GRUCell");
inline constexpr Symbol LSTM = module("torch.ao.nn.quantized.reference.LSTM");
inline constexpr Symbol LSTMCell = module("torch.ao.nn.quantized.reference.LSTMCell");
inline constexpr Symbol Linear = module("torch.ao.nn.quantized.reference.Linear");
inline constexpr Symbol RNNCell = module("torch.ao.nn.quantized.reference.RNNCell");
}  // namespace nnqr

/// torch.nn.functional, with the functions that torch holds as well (torch.conv2d is F::conv2d)
namespace F {
inline constexpr Symbol adaptive_avg_pool1d = function("torch.nn.functional.adaptive_avg_pool1d");
inline constexpr Symbol adaptive_avg_pool2d = function("torch.nn.functional.adaptive_avg_pool2d");
inline constexpr Symbol adaptive_avg_pool3d = function("torch.nn.functional.adaptive_avg_pool3d");
inline constexpr Symbol avg_pool1d = function("torch.nn.functional.avg_pool1d");
inline constexpr Symbol avg_pool2d = function("torch.nn.functional.avg_pool2d");
inline constexpr Symbol avg_pool3d = function("torch.nn.functional.avg_pool3d");
inline constexpr Symbol conv2d = function("torch.nn.functional.conv2d");
inline constexpr Symbol dropout = function("torch.nn.functional.dropout");
inline constexpr Symbol elu = function("torch.nn.functional.elu");
inline constexpr Symbol embedding = function("torch.nn.functional.embedding");
inline constexpr Symbol embedding_bag = function("torch.nn.functional.embedding_bag");
inline constexpr Symbol group_norm = function("torch.nn.functional.group_norm");
inline constexpr Symbol hardswish = function("torch.nn.functional.hardswish");
inline constexpr Symbol hardtanh = function("torch.nn.functional.hardtanh");
inline constexpr Symbol hardtanh_ = function("torch.nn.functional.hardtanh_");
inline constexpr Symbol instance_norm = function("torch.nn.functional.instance_norm");
inline constexpr Symbol interpolate = function("torch.nn.functional.interpolate");
inline constexpr Symbol layer_norm = function("torch.nn.functional.layer_norm");
inline constexpr Symbol leaky_relu = function("torch.nn.functional.leaky_relu");
inline constexpr Symbol leaky_relu_ = function("torch.nn.functional.leaky_relu_");
inline constexpr Symbol linear = function("torch.nn.functional.linear");
inline constexpr Symbol max_pool1d = function("torch.nn.functional.max_pool1d");
inline constexpr Symbol max_pool2d = function("torch.nn.functional.max_pool2d");
inline constexpr Symbol max_pool3d = function("torch.nn.functional.max_pool3d");
inline constexpr Symbol pad = function("torch.nn.functional.pad");
inline constexpr Symbol pixel_shuffle = function("torch.nn.functional.pixel_shuffle");
inline constexpr Symbol pixel_unshuffle = function("torch.nn.functional.pixel_unshuffle");
inline constexpr Symbol relu = function("torch.nn.functional.relu");
inline constexpr Symbol relu6 = function("torch.nn.functional.relu6");
}  // namespace F

/// torch's functions; not `torch`, which would hide LibTorch's namespace
namespace fn {
inline constexpr Symbol add = function("torch.add");
inline constexpr Symbol addmm = function("torch.addmm");
inline constexpr Symbol cat = function("torch.cat");
inline constexpr Symbol clamp = function("torch.clamp");
inline constexpr Symbol concat = function("torch.concat");
inline constexpr Symbol concatenate = function("torch.concatenate");
inline constexpr Symbol flatten = function("torch.flatten");
inline constexpr Symbol matmul = function("torch.matmul");
inline constexpr Symbol mean = function("torch.mean");
inline constexpr Symbol mul = function("torch.mul");
inline constexpr Symbol narrow = function("torch.narrow");
inline constexpr Symbol permute = function("torch.permute");
inline constexpr Symbol permute_copy = function("torch.permute_copy");
inline constexpr Symbol relu = function("torch.relu");
inline constexpr Symbol repeat_interleave = function("torch.repeat_interleave");
inline constexpr Symbol squeeze = function("torch.squeeze");
inline constexpr Symbol stack = function("torch.stack");
inline constexpr Symbol sub = function("torch.sub");
inline constexpr Symbol tanh = function("torch.tanh");
inline constexpr Symbol transpose = function("torch.transpose");
inline constexpr Symbol unsqueeze = function("torch.unsqueeze");
}  // namespace fn

/// Python's operators
namespace op {
inline constexpr Symbol add = function("operator.add");
inline constexpr Symbol floordiv = function("operator.floordiv");
inline constexpr Symbol getitem = function("operator.getitem");
inline constexpr Symbol mul = function("operator.mul");
inline constexpr Symbol sub = function("operator.sub");
}  // namespace op

/// torch.ops.aten: the overloads that an exported graph calls
namespace aten {
inline constexpr Symbol add = function("torch.ops.aten.add.Tensor");
inline constexpr Symbol add_ = function("torch.ops.aten.add_.Tensor");
inline constexpr Symbol addmm = function("torch.ops.aten.addmm.default");
inline constexpr Symbol convolution = function("torch.ops.aten.convolution.default");
inline constexpr Symbol max_pool2d_with_indices = function("torch.ops.aten.max_pool2d_with_indices.default");
inline constexpr Symbol mm = function("torch.ops.aten.mm.default");
inline constexpr Symbol relu = function("torch.ops.aten.relu.default");
inline constexpr Symbol relu_ = function("torch.ops.aten.relu_.default");
}  // namespace aten

}  // namespace tsq
