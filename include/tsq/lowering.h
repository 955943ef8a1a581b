#pragma once

#include <tsq/pattern.h>

#include <string>
#include <string_view>
#include <vector>

namespace tsq {

/// Which part of the reference model a kernel stands for, with op the operators of the row's pattern.
enum class LoweringForm {
  Static,       ///< quantize(op(dequantize(x), …)): reads and returns quantized tensors
  FloatOutput,  ///< op(dequantize(x), …): reads quantized tensors, returns a float one
  Dynamic,      ///< op(x, …), where x is rounded at run time: reads float tensors and rounds them itself
  WeightOnly,   ///< op(x, …), of which the weight alone is rounded: reads and returns float tensors
};

/// A row of the lowering table that a program adds: the operator of a library that computes in one call what
/// the reference model computes by several. Rows are written with designated initialisers: fields may be
/// added.
struct LoweringRow {
  /// Name of the BackendConfig whose models the row lowers.
  std::string backend{};
  /// What is replaced: a module class (unfused, fused or a reference module's root), a function, or several
  /// operators as the rows of a table write them: `chain({torch.nn.Linear, torch.nn.ReLU})`. No
  /// other operator may read the values between them.
  Pattern op{};
  /// "my::linear", which returns one tensor. It takes the arguments of the operators in the order of the
  /// flow, but for what they read of each other, as quantized tensors where the reference model dequantizes
  /// them (Static, FloatOutput); arguments with the operators' own defaults are left out where it has no
  /// place for them. Then the packed weight where `prepack` is given; then, in form Static, `float scale, int
  /// zero_point` of the result: a kernel without arguments whose names end so returns the scale and zero
  /// point of its first tensor. Further arguments of its schema get their defaults.
  std::string kernel{};
  /// "my::linear_prepack": called once while the model is lowered, with the quantized weight and the bias
  /// (Tensor?) of the first operator that has a weight and, by their names where its schema has them, with
  /// stride, padding, output_padding (int[]), dilation (int[]) and groups (int). What it returns, a tensor or
  /// an object, is an attribute of the lowered model; of torch.nn.functional.linear and the convolutions the
  /// kernel is given the input alone then. Empty: the kernel takes the arguments as they are.
  std::string prepack{};
  LoweringForm form{LoweringForm::Static};
};

/// Adds a row for this process. It goes before tsq's own rows and before rows that were added earlier; rows
/// of longer patterns go before those of shorter ones. Throws Error(BadConfig) for a row without backend,
/// operator or kernel, for operators that no loaded library has, and for kernels that return anything but one
/// tensor. Safe to call from several threads.
void register_lowering(LoweringRow row);

/// The added rows of a backend, in the order in which they are tried.
std::vector<LoweringRow> lowering_rows(std::string_view backend);

}  // namespace tsq
