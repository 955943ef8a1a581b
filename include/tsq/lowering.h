#pragma once

#include <tsq/pattern.h>

#include <string>
#include <string_view>
#include <vector>

namespace tsq {

/// A row of the lowering table that a program adds: the operator of a library that computes on quantized
/// tensors, in one call, what the reference model computes as
///   quantize_per_tensor(op(dequantize(x), ...), scale, zero_point, dtype)
/// Rows are written with designated initialisers: fields may be added.
struct LoweringRow {
  /// Name of the BackendConfig whose models the row lowers.
  std::string backend{};
  /// The module class (unfused, fused or a reference module's root) or the function that is replaced.
  Symbol op{};
  /// "my::linear", with the arguments of `op` in their order, quantized where the reference model dequantizes
  /// them, then the packed weight where `prepack` is given, then `float scale, int zero_point` of the result,
  /// which it returns quantized.
  std::string kernel{};
  /// "my::linear_prepack": called once while the model is lowered, with the quantized weight and the bias
  /// (Tensor?) and, by their names where its schema has them, with stride, padding, output_padding (int[]),
  /// dilation (int[]) and groups (int). What it returns, a tensor or an object, is an attribute of the
  /// lowered model. Empty: the operator has no weight.
  std::string prepack{};
};

/// Adds a row for this process. It goes before tsq's own rows and before rows that were added earlier for the
/// same operator. Throws Error(BadConfig) for a row without backend, operator or kernel, and for operators
/// that no loaded library has. Safe to call from several threads.
void register_lowering(LoweringRow row);

/// The added rows of a backend, the latest first.
std::vector<LoweringRow> lowering_rows(std::string_view backend);

}  // namespace tsq
