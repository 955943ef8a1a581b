#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/program/program.h"

/// The operations of a program, one row each: how they are spelt and what they read.
namespace tsq::runtime {

enum class Attribute : std::uint32_t {
  Kernel = 1U << 0U,
  Stride = 1U << 1U,
  Padding = 1U << 2U,
  Dilation = 1U << 3U,
  Groups = 1U << 4U,
  CeilMode = 1U << 5U,
  CountIncludePad = 1U << 6U,
  Bounded = 1U << 7U,
  Alpha = 1U << 8U,
  Epsilon = 1U << 9U,
  Axis = 1U << 10U,
  Range = 1U << 11U,
  TargetShape = 1U << 12U,
  Order = 1U << 13U,
  Size = 1U << 14U,
  Weight = 1U << 15U,
  Bias = 1U << 16U,
  OptionalWeight = 1U << 17U,
  OtherAxis = 1U << 18U,
  EndAxis = 1U << 19U,
  Axes = 1U << 20U,
  Fill = 1U << 21U,
  Causal = 1U << 22U,
  Recurrent = 1U << 23U,
  Scales = 1U << 24U,
  Number = 1U << 25U,
};

/// A set of attributes.
using Attributes = std::uint32_t;

constexpr Attributes operator|(Attribute a, Attribute b) {
  return static_cast<Attributes>(a) | static_cast<Attributes>(b);
}
constexpr Attributes operator|(Attributes a, Attribute b) { return a | static_cast<Attributes>(b); }
constexpr bool has(Attributes set, Attribute attribute) {
  return (set & static_cast<Attributes>(attribute)) != 0;
}

/// Which post-ops an operation takes.
enum class PostOpsAllowed : std::uint8_t { None, Clamps, Functions, All };

/// The most dimensions of a tensor, as in LibTorch's loops.
inline constexpr std::int64_t kMostDimensions = 64;

/// How many dimensions an operation's first input has.
struct Ranks {
  std::int64_t fewest = 0;
  std::int64_t most = kMostDimensions;
};

struct OperationRow {
  Kind kind;
  std::string_view name;
  int inputs;  ///< -1: one or more
  Attributes attributes;
  PostOpsAllowed post_ops;
  int more_inputs = 0;  ///< that may be left out
  Ranks ranks{};
};

struct IntegerRow {
  IntegerKind kind;
  std::string_view name;
};

/// Which members a post-op has besides its kind.
enum class PostOpMembers : std::uint8_t { None, Alpha, AlphaAndBeta, Value };

struct PostOpRow {
  PostOpKind kind;
  std::string_view name;
  PostOpMembers members;
};

std::span<const OperationRow> operation_table();
std::span<const PostOpRow> post_op_table();
std::span<const IntegerRow> integer_table();

const OperationRow& row_of(Kind kind);
PostOpMembers members_of(PostOpKind kind);
std::string_view name_of(Kind kind);
std::string_view name_of(PostOpKind kind);
std::string_view name_of(IntegerKind kind);
std::string_view name_of(Dtype dtype);

/// Does its output hold the elements of its input, unchanged?
bool is_view(Kind kind);
/// Of activations and weights, or of activations: what takes sums and products after it.
bool is_product(Kind kind);
bool is_recurrent(Kind kind);

/// As an input or in a post-op.
bool reads(const Operation& operation, int value);
/// The numbers of an operation that a call may compute.
Extents extents_of(const Operation& operation);

/// `operation 3 (convolution)`, as errors name it.
std::string name_of_operation(const Program& program, std::size_t index);

}  // namespace tsq::runtime
