#pragma once

#include <span>
#include <string_view>

#include "runtime/primitives/compilation.h"

/// From operations to steps: one row for each way to run a kind of operation.
namespace tsq::runtime {

struct BuilderRow {
  Kind kind;
  std::string_view name;
  /// Adds the steps of the compilation's current operation and delivers its output; false if it declines,
  /// having added nothing.
  bool (*build)(Compilation& compilation);
};

/// Rows of a kind are asked in order, and the first that does not decline builds. A kernel of our own is a
/// row before oneDNN's.
std::span<const BuilderRow> builder_table();

bool build_depthwise(Compilation& compilation);
bool build_convolution(Compilation& compilation);
bool build_transposed_convolution(Compilation& compilation);
bool build_linear(Compilation& compilation);
bool build_matmul(Compilation& compilation);
bool build_attention(Compilation& compilation);
bool build_recurrent(Compilation& compilation);
bool build_convert(Compilation& compilation);
bool build_binary(Compilation& compilation);
bool build_where(Compilation& compilation);
bool build_prelu(Compilation& compilation);
bool build_scale_shift(Compilation& compilation);
bool build_lookup(Compilation& compilation);
bool build_eltwise(Compilation& compilation);
bool build_concat(Compilation& compilation);
bool build_pool(Compilation& compilation);
bool build_global_pool(Compilation& compilation);
bool build_global_mean(Compilation& compilation);
bool build_adaptive_pool(Compilation& compilation);
bool build_reduction(Compilation& compilation);
bool build_softmax_of_rows(Compilation& compilation);
bool build_softmax(Compilation& compilation);
bool build_layer_norm(Compilation& compilation);
bool build_group_norm(Compilation& compilation);
bool build_embedding(Compilation& compilation);
bool build_pad(Compilation& compilation);
bool build_reshape(Compilation& compilation);
bool build_permute(Compilation& compilation);
bool build_expand(Compilation& compilation);
bool build_slice(Compilation& compilation);
bool build_resize_nearest(Compilation& compilation);
bool build_resize_bilinear(Compilation& compilation);

}  // namespace tsq::runtime
