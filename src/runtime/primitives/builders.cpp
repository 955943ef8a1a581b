#include "runtime/primitives/builders.h"

#include <array>

namespace tsq::runtime {
namespace {

constexpr std::array kBuilders{
    BuilderRow{Kind::Convert, "convert", build_convert},
    BuilderRow{Kind::Convolution, "depthwise convolution with products of bytes", build_depthwise},
    BuilderRow{Kind::Convolution, "convolution of oneDNN", build_convolution},
    BuilderRow{Kind::TransposedConvolution, "deconvolution of oneDNN", build_transposed_convolution},
    BuilderRow{Kind::Linear, "matmul of oneDNN with packed weights", build_linear},
    BuilderRow{Kind::Matmul, "matmul of oneDNN", build_matmul},
    BuilderRow{Kind::Attention, "blocks of queries", build_attention},
    BuilderRow{Kind::Lstm, "gates of the input, then the steps", build_recurrent},
    BuilderRow{Kind::Gru, "gates of the input, then the steps", build_recurrent},
    BuilderRow{Kind::Add, "binary", build_binary},
    BuilderRow{Kind::Sub, "binary", build_binary},
    BuilderRow{Kind::Mul, "binary", build_binary},
    BuilderRow{Kind::Div, "binary", build_binary},
    BuilderRow{Kind::Maximum, "binary", build_binary},
    BuilderRow{Kind::Minimum, "binary", build_binary},
    BuilderRow{Kind::Equal, "binary", build_binary},
    BuilderRow{Kind::NotEqual, "binary", build_binary},
    BuilderRow{Kind::Less, "binary", build_binary},
    BuilderRow{Kind::LessEqual, "binary", build_binary},
    BuilderRow{Kind::Where, "one of two", build_where},
    BuilderRow{Kind::Prelu, "channel by channel", build_prelu},
    BuilderRow{Kind::ScaleShift, "channel by channel", build_scale_shift},
    BuilderRow{Kind::Activation, "table of 256 values", build_lookup},
    BuilderRow{Kind::Activation, "eltwise of oneDNN", build_eltwise},
    BuilderRow{Kind::Concat, "in place, or copies", build_concat},
    BuilderRow{Kind::MaxPool, "pooling of oneDNN", build_pool},
    BuilderRow{Kind::AvgPool, "pooling of oneDNN", build_pool},
    BuilderRow{Kind::GlobalAvgPool, "sums of channels", build_global_pool},
    BuilderRow{Kind::AdaptiveAvgPool, "windows", build_adaptive_pool},
    BuilderRow{Kind::AdaptiveMaxPool, "windows", build_adaptive_pool},
    BuilderRow{Kind::Mean, "sums of channels", build_global_mean},
    BuilderRow{Kind::Mean, "reduction", build_reduction},
    BuilderRow{Kind::Sum, "reduction", build_reduction},
    BuilderRow{Kind::Amax, "reduction", build_reduction},
    BuilderRow{Kind::Amin, "reduction", build_reduction},
    BuilderRow{Kind::Softmax, "rows with requantization", build_softmax_of_rows},
    BuilderRow{Kind::Softmax, "softmax of oneDNN", build_softmax},
    BuilderRow{Kind::LogSoftmax, "rows with requantization", build_softmax_of_rows},
    BuilderRow{Kind::LogSoftmax, "softmax of oneDNN", build_softmax},
    BuilderRow{Kind::LayerNorm, "normalization with requantization", build_layer_norm},
    BuilderRow{Kind::GroupNorm, "normalization with requantization", build_group_norm},
    BuilderRow{Kind::Embedding, "rows of a table", build_embedding},
    BuilderRow{Kind::Pad, "borders and a copy", build_pad},
    BuilderRow{Kind::Reshape, "view", build_reshape},
    BuilderRow{Kind::Permute, "view", build_permute},
    BuilderRow{Kind::Expand, "view", build_expand},
    BuilderRow{Kind::Slice, "view", build_slice},
    BuilderRow{Kind::ResizeNearest, "copies of positions", build_resize_nearest},
    BuilderRow{Kind::ResizeBilinear, "four taps", build_resize_bilinear},
};

}  // namespace

std::span<const BuilderRow> builder_table() { return kBuilders; }

}  // namespace tsq::runtime
