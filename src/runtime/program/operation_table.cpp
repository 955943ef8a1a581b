#include "runtime/program/operation_table.h"

#include <algorithm>
#include <stdexcept>

#include "runtime/program/table_rows.h"

namespace tsq::runtime {
namespace {

using enum Attribute;

constexpr Attributes kNone = 0;
constexpr Attributes kConvolution = Weight | Bias | Stride | Padding | Dilation | Groups | Bounded;
constexpr Attributes kLinear = Weight | Bias | Bounded;
constexpr Attributes kMaxPool = Kernel | Stride | Padding | Dilation | CeilMode;
constexpr Attributes kAvgPool = Kernel | Stride | Padding | CountIncludePad;
constexpr Attributes kLayerNorm = OptionalWeight | Bias | Epsilon;
constexpr auto kAxis = static_cast<Attributes>(Axis);
constexpr auto kShape = static_cast<Attributes>(TargetShape);
constexpr auto kOrder = static_cast<Attributes>(Order);
constexpr Attributes kGroupNorm = OptionalWeight | Bias | Epsilon | Groups;
constexpr Attributes kScaleShift = OptionalWeight | Bias | Axis;
constexpr Attributes kRecurrent = Weight | Bias | Recurrent;
constexpr auto kWeight = static_cast<Attributes>(OptionalWeight);
constexpr Attributes kEmbedding = OptionalWeight | Scales | Bias;
constexpr auto kAxes = static_cast<Attributes>(Axes);
constexpr auto kSize = static_cast<Attributes>(Size);
constexpr auto kNumber = static_cast<Attributes>(Number);

// clang-format off
constexpr std::array kOperations{
    OperationRow{Kind::Convert,               "convert",                 1, kNone,           PostOpsAllowed::None},
    OperationRow{Kind::Convolution,           "convolution",             1, kConvolution,    PostOpsAllowed::All, 0, {3, 5}},
    OperationRow{Kind::TransposedConvolution, "transposed_convolution",  1, kConvolution,    PostOpsAllowed::All, 0, {3, 5}},
    OperationRow{Kind::Linear,                "linear",                  1, kLinear,         PostOpsAllowed::All, 0, {1}},
    OperationRow{Kind::Matmul,                "matmul",                  2, Alpha | Bounded, PostOpsAllowed::All, 0, {2}},
    OperationRow{Kind::Attention,             "attention",               3, Alpha | Causal,  PostOpsAllowed::None, 1, {2}},
    OperationRow{Kind::Lstm,                  "lstm",                    1, kRecurrent,      PostOpsAllowed::None, 2, {2, 3}},
    OperationRow{Kind::Gru,                   "gru",                     1, kRecurrent,      PostOpsAllowed::None, 1, {2, 3}},
    OperationRow{Kind::Add,                   "add",                     2, kNone,           PostOpsAllowed::Clamps},
    OperationRow{Kind::Sub,                   "sub",                     2, kNone,           PostOpsAllowed::Clamps},
    OperationRow{Kind::Mul,                   "mul",                     2, kNone,           PostOpsAllowed::Clamps},
    OperationRow{Kind::Div,                   "div",                     2, kNone,           PostOpsAllowed::Clamps},
    OperationRow{Kind::Maximum,               "maximum",                 2, kNone,           PostOpsAllowed::Clamps},
    OperationRow{Kind::Minimum,               "minimum",                 2, kNone,           PostOpsAllowed::Clamps},
    OperationRow{Kind::Equal,                 "equal",                   2, kNone,           PostOpsAllowed::None},
    OperationRow{Kind::NotEqual,              "not_equal",               2, kNone,           PostOpsAllowed::None},
    OperationRow{Kind::Less,                  "less",                    2, kNone,           PostOpsAllowed::None},
    OperationRow{Kind::LessEqual,             "less_equal",              2, kNone,           PostOpsAllowed::None},
    OperationRow{Kind::Where,                 "where",                   3, kNone,           PostOpsAllowed::None},
    OperationRow{Kind::Activation,            "activation",              1, kNone,           PostOpsAllowed::Functions},
    OperationRow{Kind::Prelu,                 "prelu",                   1, kWeight,          PostOpsAllowed::None},
    OperationRow{Kind::ScaleShift,            "scale_shift",             1, kScaleShift,     PostOpsAllowed::Clamps, 0, {1}},
    OperationRow{Kind::Concat,                "concat",                 -1, kAxis,           PostOpsAllowed::None},
    OperationRow{Kind::MaxPool,               "max_pool",                1, kMaxPool,        PostOpsAllowed::None, 0, {3, 5}},
    OperationRow{Kind::AvgPool,               "avg_pool",                1, kAvgPool,        PostOpsAllowed::None, 0, {3, 5}},
    OperationRow{Kind::GlobalAvgPool,         "global_avg_pool",         1, kNone,           PostOpsAllowed::None, 0, {3}},
    OperationRow{Kind::AdaptiveAvgPool,       "adaptive_avg_pool",       1, kSize,           PostOpsAllowed::None, 0, {3, 5}},
    OperationRow{Kind::AdaptiveMaxPool,       "adaptive_max_pool",       1, kSize,           PostOpsAllowed::None, 0, {3, 5}},
    OperationRow{Kind::Mean,                  "mean",                    1, kAxes,           PostOpsAllowed::None},
    OperationRow{Kind::Sum,                   "sum",                     1, kAxes,           PostOpsAllowed::None},
    OperationRow{Kind::Amax,                  "amax",                    1, kAxes,           PostOpsAllowed::None},
    OperationRow{Kind::Amin,                  "amin",                    1, kAxes,           PostOpsAllowed::None},
    OperationRow{Kind::Softmax,               "softmax",                 1, kAxis,           PostOpsAllowed::None, 0, {1}},
    OperationRow{Kind::LogSoftmax,            "log_softmax",             1, kAxis,           PostOpsAllowed::None, 0, {1}},
    OperationRow{Kind::LayerNorm,             "layer_norm",              1, kLayerNorm,      PostOpsAllowed::None, 0, {1}},
    OperationRow{Kind::GroupNorm,             "group_norm",              1, kGroupNorm,      PostOpsAllowed::None, 0, {2}},
    OperationRow{Kind::Embedding,             "embedding",               1, kEmbedding,      PostOpsAllowed::None},
    OperationRow{Kind::Pad,                   "pad",                     1, Padding | Fill,  PostOpsAllowed::None},
    OperationRow{Kind::Reshape,               "reshape",                 1, kShape,          PostOpsAllowed::None},
    OperationRow{Kind::Permute,               "permute",                 1, kOrder,          PostOpsAllowed::None},
    OperationRow{Kind::Transpose,             "transpose",               1, Axis | OtherAxis, PostOpsAllowed::None},
    OperationRow{Kind::Unsqueeze,             "unsqueeze",               1, kAxis,           PostOpsAllowed::None},
    OperationRow{Kind::Squeeze,               "squeeze",                 1, kAxis,           PostOpsAllowed::None},
    OperationRow{Kind::Flatten,               "flatten",                 1, Axis | EndAxis,  PostOpsAllowed::None},
    OperationRow{Kind::Unflatten,             "unflatten",               1, Axis | TargetShape, PostOpsAllowed::None},
    OperationRow{Kind::Expand,                "expand",                  1, kShape,          PostOpsAllowed::None},
    OperationRow{Kind::Slice,                 "slice",                   1, Axis | Range,    PostOpsAllowed::None},
    OperationRow{Kind::ResizeNearest,         "resize_nearest",          1, kSize,           PostOpsAllowed::None, 0, {3, 5}},
    OperationRow{Kind::ResizeBilinear,        "resize_bilinear",         1, kSize,           PostOpsAllowed::None, 0, {3, 5}},
    OperationRow{Kind::Number,                "number",                  0, kNumber,         PostOpsAllowed::Functions},
};
// clang-format on

constexpr std::array kPostOps{
    PostOpRow{PostOpKind::Relu, "relu", PostOpMembers::None},
    PostOpRow{PostOpKind::Clamp, "clamp", PostOpMembers::AlphaAndBeta},
    PostOpRow{PostOpKind::LeakyRelu, "leaky_relu", PostOpMembers::Alpha},
    PostOpRow{PostOpKind::Elu, "elu", PostOpMembers::Alpha},
    PostOpRow{PostOpKind::Hardswish, "hardswish", PostOpMembers::None},
    PostOpRow{PostOpKind::Hardsigmoid, "hardsigmoid", PostOpMembers::None},
    PostOpRow{PostOpKind::Sigmoid, "sigmoid", PostOpMembers::None},
    PostOpRow{PostOpKind::Silu, "silu", PostOpMembers::None},
    PostOpRow{PostOpKind::Tanh, "tanh", PostOpMembers::None},
    PostOpRow{PostOpKind::Gelu, "gelu", PostOpMembers::None},
    PostOpRow{PostOpKind::GeluTanh, "gelu_tanh", PostOpMembers::None},
    PostOpRow{PostOpKind::Exp, "exp", PostOpMembers::None},
    PostOpRow{PostOpKind::Log, "log", PostOpMembers::None},
    PostOpRow{PostOpKind::Sqrt, "sqrt", PostOpMembers::None},
    PostOpRow{PostOpKind::Rsqrt, "rsqrt", PostOpMembers::None},
    PostOpRow{PostOpKind::Square, "square", PostOpMembers::None},
    PostOpRow{PostOpKind::Abs, "abs", PostOpMembers::None},
    PostOpRow{PostOpKind::Neg, "neg", PostOpMembers::None},
    PostOpRow{PostOpKind::Pow, "pow", PostOpMembers::Alpha},
    PostOpRow{PostOpKind::Linear, "linear", PostOpMembers::AlphaAndBeta},
    PostOpRow{PostOpKind::Softplus, "softplus", PostOpMembers::None},
    PostOpRow{PostOpKind::Mish, "mish", PostOpMembers::None},
    PostOpRow{PostOpKind::Add, "add", PostOpMembers::Value},
    PostOpRow{PostOpKind::Mul, "mul", PostOpMembers::Value},
};

constexpr std::array kIntegers{
    IntegerRow{IntegerKind::Given, "given"},
    IntegerRow{IntegerKind::Size, "size"},
    IntegerRow{IntegerKind::Add, "add"},
    IntegerRow{IntegerKind::Subtract, "subtract"},
    IntegerRow{IntegerKind::Multiply, "multiply"},
    IntegerRow{IntegerKind::FloorDivide, "floor_divide"},
    IntegerRow{IntegerKind::Remainder, "remainder"},
    IntegerRow{IntegerKind::Minimum, "minimum"},
    IntegerRow{IntegerKind::Maximum, "maximum"},
    IntegerRow{IntegerKind::Index, "index"},
    IntegerRow{IntegerKind::Border, "border"},
};

/// Every kind has a row, unless a test has left it out.
template <typename Row, typename Kind>
const Row& row_among(std::span<const Row> rows, Kind kind) {
  const auto found = std::ranges::find(rows, kind, &Row::kind);
  if (found == rows.end()) throw std::logic_error("a kind has no row");
  return *found;
}

}  // namespace

std::span<const OperationRow> operation_table() {
  static const TableRows<OperationRow> kRows("validator", kOperations);
  return kRows.rows();
}

std::span<const PostOpRow> post_op_table() {
  static const TableRows<PostOpRow> kRows("post_ops", kPostOps);
  return kRows.rows();
}

std::span<const IntegerRow> integer_table() {
  static const TableRows<IntegerRow> kRows("integers", kIntegers);
  return kRows.rows();
}

const OperationRow& row_of(Kind kind) { return row_among(operation_table(), kind); }
PostOpMembers members_of(PostOpKind kind) { return row_among(post_op_table(), kind).members; }
std::string_view name_of(Kind kind) { return row_of(kind).name; }
std::string_view name_of(PostOpKind kind) { return row_among(post_op_table(), kind).name; }
std::string_view name_of(IntegerKind kind) { return row_among(integer_table(), kind).name; }

bool is_product(Kind kind) { return row_of(kind).post_ops == PostOpsAllowed::All; }

bool is_recurrent(Kind kind) { return kind == Kind::Lstm || kind == Kind::Gru; }

bool is_view(Kind kind) {
  constexpr std::array kViews{Kind::Reshape, Kind::Permute,   Kind::Transpose, Kind::Unsqueeze, Kind::Squeeze,
                              Kind::Flatten, Kind::Unflatten, Kind::Expand,    Kind::Slice};
  return std::ranges::find(kViews, kind) != kViews.end();
}

bool reads(const Operation& operation, int value) {
  const auto in_post_op = [value](const PostOp& post_op) { return post_op.value == value; };
  return std::ranges::find(operation.inputs, value) != operation.inputs.end() ||
         std::ranges::any_of(operation.post_ops, in_post_op);
}

Extents extents_of(const Operation& operation) {
  Extents extents = operation.shape;
  extents.insert(extents.end(), operation.size.begin(), operation.size.end());
  extents.push_back(operation.begin);
  extents.push_back(operation.end);
  extents.push_back(operation.number);
  return extents;
}

std::string_view name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F32:
      return "f32";
    case Dtype::U8:
      return "u8";
    case Dtype::S8:
      return "s8";
    case Dtype::I64:
      return "i64";
  }
  return "";
}

std::string name_of_operation(const Program& program, std::size_t index) {
  return "operation " + std::to_string(index) + " (" + std::string(name_of(program.operations[index].kind)) +
         ")";
}

}  // namespace tsq::runtime
