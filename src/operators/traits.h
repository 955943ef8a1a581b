#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/model.h"

/// What is true of an operator, whoever asks and whatever engine computes it: one table, one row an operator.
/// A test goes through every row with random tensors and shows that it is true.
namespace tsq::operators {

/// What the values of a result are, compared with those of the first operand.
enum class Values : std::uint8_t {
  Computed,    ///< new ones
  Rearranged,  ///< each of them once, bit by bit, perhaps in another place: reshape, permute
  Selected,    ///< some of them, perhaps several times, by their place: slice, expand
  Joined,      ///< those of a list of operands, each once: cat
  Chosen,      ///< some of them, chosen by comparing them: max_pool2d
  Filled,      ///< they, or one constant, by their place: pad
  Converted,   ///< they, in another dtype
};

/// What else may be true of an operator. "Keeps" speaks of the result and the first operand; of operators of
/// two tensors, where both have one shape.
enum Trait : std::uint32_t {
  KeepsRank = 1U << 0,             ///< the number of dimensions
  KeepsShape = 1U << 1 | 1U << 0,  ///< all sizes
  KeepsOrder = 1U << 2,            ///< the order of the values, row by row: reshape, not permute
  KeepsLayout = 1U << 3,           ///< images stored channels last stay so
  KeepsDtype = 1U << 4,            ///< also bfloat16, whatever its other operands are
  IsView = 1U << 5,                ///< the result is memory of the operand where that is possible
  /// A value of the result depends on that of the first operand in the same place alone, and not on the
  /// place.
  Elementwise = 1U << 6,
  /// … on those of the first two operands, which are broadcast.
  ElementwiseOfTwo = 1U << 7,
  Monotone = 1U << 8,  ///< a larger value never becomes a smaller one
  /// Quantizing the result does not show whether the operand was quantized before, to the same numbers; where
  /// the operator has a kernel that takes quantized tensors, its result has the scale and zero point of its
  /// operand. Operators that only move values do so without this flag.
  CommutesWithRounding = 1U << 9,
  /// A factor of a tensor operand is a factor of the result: f(k x) = k f(x). Operators that only move values
  /// do so without this flag.
  PassesFactors = 1U << 10,
  IsIdentity = 1U << 11,      ///< in evaluation the result is the operand: dropout
  ReadsShapeOnly = 1U << 12,  ///< the sizes of the operand, not its values
  /// Zero stays zero, values near it stay near it, and no others come near it. Clamps to either side of zero
  /// have no such flag.
  KeepsSmall = 1U << 13,
};

/// A bound of a clamp: a number, or the argument of this name, where it is not None.
struct Bound {
  std::optional<double> number{};
  std::string_view argument{};
};
/// What a clamp limits its operand to; without number and argument: not limited.
struct Clamp {
  Bound lowest{};
  Bound highest{};
};
/// All values below `lowest` become one, and so do all above `highest`.
struct Saturation {
  std::optional<double> lowest{};
  std::optional<double> highest{};
};

struct OperatorTraits {
  /// ATen's name. PyTorch's other spellings of an operator differ from it in namespace, capitals and
  /// underscores: torch.nn.LeakyReLU, torch.nn.functional.leaky_relu_, aten::leaky_relu. With its namespace:
  /// of an operator of quantized tensors, whose name in ATen another one has.
  std::string_view name;
  std::array<std::string_view, 6> also{};  ///< names that differ in more
  Values values{Values::Computed};
  std::uint32_t traits{0};
  std::optional<Clamp> clamp{};
  std::optional<Saturation> saturates{};  ///< of others than clamps
  /// An operand for whose small (or nearly limiting) values the slope grows without bound, or far above what
  /// it is over a wide range.
  std::optional<std::size_t> steep_in{};

  [[nodiscard]] constexpr bool has(Trait trait) const { return (traits & trait) == trait; }
};

/// All rows.
[[nodiscard]] std::span<const OperatorTraits> all();

/// The row of an operator by any of its spellings, ATen's with "aten::"; null where there is none.
[[nodiscard]] const OperatorTraits* find(std::string_view name);
/// The row of a node, be it an operator, a function or a module, that reads a tensor or a list of tensors;
/// null where there is none.
[[nodiscard]] const OperatorTraits* traits_of(const ir::Model& model, const ir::Node* node);
/// The same where modules do not matter.
[[nodiscard]] const OperatorTraits* traits_of(const ir::Node* node);

/// Whether a node is one of the operators of these names, in any spelling.
[[nodiscard]] bool is_one_of(const ir::Model& model, const ir::Node* node,
                             std::initializer_list<std::string_view> names);

/// Whether a node is a product of two activations, what normalises them, or GELU: of a wide range, and no
/// engine is fast with them, so that recipe best computes them in float.
[[nodiscard]] bool is_of_attention(const ir::Model& model, const ir::Node* node);

/// The nodes that read a value's numbers, each as often as it does: all but questions of its shape.
[[nodiscard]] std::vector<ir::Node*> readers_of_numbers(const ir::Value* value);

/// Whether the name of an operator, "relu_", says that it writes its result into its first operand.
[[nodiscard]] bool is_in_place(std::string_view name);

// Questions of a row that may be null: then the answer is no.

[[nodiscard]] bool has(const OperatorTraits* row, Trait trait);
/// Whether a result consists of values of the one operand, by their place: an operator that only moves
/// values.
[[nodiscard]] bool moves_values(const OperatorTraits* row);
/// Whether it has each of them once, in the order that they had.
[[nodiscard]] bool only_reshapes(const OperatorTraits* row);
[[nodiscard]] bool commutes_with_rounding(const OperatorTraits* row);
/// Whether the result of a quantized operand has its scale and zero point.
[[nodiscard]] bool keeps_qparams(const OperatorTraits* row);
/// Whether the result has as many dimensions as the one tensor operand.
[[nodiscard]] bool keeps_rank(const OperatorTraits* row);
/// Whether it computes each value from the one in its place, or only hands it on.
[[nodiscard]] bool is_elementwise(const OperatorTraits* row);

}  // namespace tsq::operators
