#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// What a fused program is: plain data, as it stands in the file.
namespace tsq::runtime {

/// The version that this library writes. It reads this one and those before it.
inline constexpr int kProgramVersion = 1;

using Shape = std::vector<std::int64_t>;

enum class Dtype : std::uint8_t { F32, U8, S8, I64 };

/// A tensor of the program. An int8 value q stands for `scale * (q - zero_point)`. An `I64` value is an
/// input, or a view of one, and holds rows for an embedding.
struct Value {
  Dtype dtype = Dtype::F32;
  double scale = 1;
  int zero_point = 0;
  std::optional<int> constant{};  ///< the tensor that holds it, for a value that no operation writes

  friend bool operator==(const Value&, const Value&) = default;
};

/// A number of an operation: as it stands in the file, or one that each call computes.
struct Extent {
  std::int64_t number = 0;
  int integer = -1;  ///< row of Program::integers; if there is one, `number` is not read

  constexpr Extent() = default;
  constexpr Extent(std::int64_t written) : number(written) {}  // NOLINT: lists of sizes are lists of numbers
  [[nodiscard]] static constexpr Extent of_integer(int row) {
    Extent extent;
    extent.integer = row;
    return extent;
  }
  [[nodiscard]] constexpr bool is_computed() const { return integer >= 0; }

  friend bool operator==(const Extent&, const Extent&) = default;
};
using Extents = std::vector<Extent>;

enum class IntegerKind : std::uint8_t {
  Given,  ///< the call's integer `axis`
  Size,   ///< of `value` in dimension `axis`
  Add,
  Subtract,
  Multiply,
  FloorDivide,  ///< rounds down, as Python does
  Remainder,    ///< has the sign of the divisor, as in Python
  Minimum,
  Maximum,
  Index,   ///< the place `left` of a dimension of `right`, counted from the end if negative; an error outside
  Border,  ///< the same between two places, or at the end
};

/// A number that each call computes from its integers and from the sizes of tensors.
struct Integer {
  IntegerKind kind = IntegerKind::Given;
  int value = -1;
  std::int64_t axis = 0;
  Extent left{};  ///< operands are numbers or earlier rows
  Extent right{};

  friend bool operator==(const Integer&, const Integer&) = default;
};

/// What happens to a result before it is rounded to the dtype of the output, in real numbers.
enum class PostOpKind : std::uint8_t {
  Relu,
  Clamp,      ///< to [alpha, beta]
  LeakyRelu,  ///< slope alpha
  Elu,        ///< alpha
  Hardswish,
  Hardsigmoid,
  Sigmoid,
  Silu,
  Tanh,
  Gelu,
  GeluTanh,
  Exp,
  Log,
  Sqrt,
  Rsqrt,
  Square,
  Abs,
  Neg,
  Pow,     ///< exponent alpha
  Linear,  ///< alpha * x + beta
  Softplus,
  Mish,
  Add,  ///< of `value`
  Mul,  ///< by `value`
};

struct PostOp {
  PostOpKind kind = PostOpKind::Relu;
  double alpha = 0;
  double beta = 0;
  int value = -1;

  friend bool operator==(const PostOp&, const PostOp&) = default;
};

enum class Kind : std::uint8_t {
  Convert,  ///< between dtypes, scales and zero points: quantize, dequantize, requantize
  Convolution,
  TransposedConvolution,
  Linear,
  Matmul,
  Attention,  ///< softmax(alpha q k^T + mask) v
  Lstm,       ///< a layer in one direction: the states after each step, then the last cell states
  Gru,        ///< the states after each step
  Add,
  Sub,
  Mul,
  Div,
  Maximum,
  Minimum,
  Equal,  ///< these four write 1 where it is true, else 0
  NotEqual,
  Less,
  LessEqual,
  Where,       ///< the second input where the first is not 0, else the third
  Activation,  ///< its post-ops, and nothing else
  Prelu,       ///< slopes for each channel
  ScaleShift,  ///< times weight, plus bias, for each place of `axis`
  Concat,
  MaxPool,
  AvgPool,
  GlobalAvgPool,  ///< over all dimensions after the second, which become 1
  AdaptiveAvgPool,
  AdaptiveMaxPool,
  Mean,
  Sum,
  Amax,
  Amin,
  Softmax,
  LogSoftmax,
  LayerNorm,
  GroupNorm,
  Embedding,  ///< rows of `weight`, int8 ones times their scale plus their bias
  Pad,        ///< of the last dimensions, with `fill`
  Reshape,
  Permute,
  Transpose,  ///< swaps `axis` and `other_axis`
  Unsqueeze,  ///< a dimension of one element, which becomes `axis` of the output
  Squeeze,    ///< drops `axis` if it has one element
  Flatten,    ///< joins the dimensions from `axis` to `end_axis`
  Unflatten,  ///< the dimension `axis` becomes those of `shape`
  Expand,
  Slice,
  ResizeNearest,
  ResizeBilinear,
  Number,  ///< a tensor of no dimensions: `number`, then its post-ops
};

/// One row of the flat list. Which members a kind reads stands in operation_table.cpp; those of spatial
/// dimensions are empty (every one is the default) or have an entry for each.
struct Operation {
  Kind kind = Kind::Convert;
  std::vector<int> inputs{};
  int output = -1;
  std::vector<PostOp> post_ops{};

  // Constants.
  std::optional<int> weight{};            ///< int8 or float, in PyTorch's layout
  std::optional<int> weight_scales{};     ///< of an int8 weight: one, or one for each output channel
  std::optional<int> bias{};              ///< float, in real numbers
  std::optional<int> recurrent_weight{};  ///< these three are of the states of an LSTM or GRU
  std::optional<int> recurrent_scales{};
  std::optional<int> recurrent_bias{};

  Shape kernel{};
  Shape stride{};
  Shape padding_begin{};
  Shape padding_end{};  ///< of a transposed convolution: its padding less its output padding
  Shape dilation{};
  std::int64_t groups = 1;
  bool ceil_mode = false;
  bool count_include_pad = false;

  /// No sum of two neighbouring products leaves 16 bits: |w0| + |w1| <= 128 for each pair of weights.
  bool bounded = false;

  double alpha = 1;     ///< multiplies a product of activations; of an attention 0 stands for 1 / sqrt(width)
  bool causal = false;  ///< no query of an attention reads the keys after its own place
  bool backward = false;  ///< an LSTM or GRU goes from the last step to the first
  /// What an LSTM or GRU reads are states of another, between -1 and 1 and of one size: bytes will do.
  bool reads_states = false;
  double epsilon = 1e-5;
  std::int64_t axis = -1;  ///< this and the others count from the end if negative
  std::int64_t other_axis = -2;
  std::int64_t end_axis = -1;
  Extent begin{};  ///< of a slice; counted from the end if negative, and clamped, as in PyTorch
  Extent end{std::numeric_limits<std::int64_t>::max()};  ///< one after the last
  std::int64_t step = 1;
  /// Reshape: 0 keeps the input's size at this place, one -1 takes what is left. Expand: -1 keeps.
  Extents shape{};
  Shape order{};
  Shape axes{};  ///< over which is reduced; none: all
  bool keep_dims = false;
  double fill = 0;
  Extents size{};                       ///< of a resized image or an adaptive pool
  std::vector<double> scale_factors{};  ///< used where `size` is empty
  Extent number{};

  std::string name{};  ///< of the layer that it computes, for people

  friend bool operator==(const Operation&, const Operation&) = default;
};

struct Program {
  std::vector<Value> values{};
  std::vector<int> inputs{};
  std::vector<int> outputs{};
  int given_integers = 0;  ///< how many a call brings
  std::vector<Integer> integers{};
  std::vector<Operation> operations{};

  friend bool operator==(const Program&, const Program&) = default;
};

/// A contiguous tensor of the file. `data` keeps it alive.
struct Constant {
  Dtype dtype = Dtype::F32;
  Shape shape{};
  std::shared_ptr<const void> data{};

  [[nodiscard]] const float* floats() const { return static_cast<const float*>(data.get()); }
  [[nodiscard]] const std::int8_t* int8s() const { return static_cast<const std::int8_t*>(data.get()); }
};

/// A program with its tensors.
struct Model {
  Program program{};
  std::vector<Constant> constants{};
};

[[nodiscard]] constexpr std::int64_t bytes_of(Dtype dtype) {
  return dtype == Dtype::F32 ? 4 : dtype == Dtype::I64 ? 8 : 1;
}
[[nodiscard]] constexpr bool is_int8(Dtype dtype) { return dtype == Dtype::U8 || dtype == Dtype::S8; }

[[nodiscard]] inline std::int64_t elements_of(const Shape& shape) {
  std::int64_t count = 1;
  for (const auto size : shape) count *= size;
  return count;
}

/// `[1, 3, 224, 224]`.
[[nodiscard]] inline std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (const auto size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// Does every input channel of this convolution's weight stand alone?
[[nodiscard]] inline bool is_depthwise(const Operation& operation, const Shape& weight) {
  return operation.kind == Kind::Convolution && operation.groups > 1 && weight[1] == 1;
}

}  // namespace tsq::runtime
