#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/kernels/loops.h"

/// Kernels of our own: what oneDNN does not have or does slowly. Each does the units of work from `begin` to
/// `end` on the calling thread.
namespace tsq::runtime {

/// real = (q - zero_point) * scale, which is 0 for the zero point itself.
struct Affine {
  float scale = 1;
  float zero_point = 0;
};

/// How a real number is written: round(real * scale + offset), within [low, high].
struct Rounding {
  Dtype dtype = Dtype::F32;
  float scale = 1;
  float offset = 0;
  float low = 0;
  float high = 0;
};

struct ConvertTask {
  Loops loops{};
  Dtype from = Dtype::F32;
  Rounding to{};       ///< of the number as it stands in memory
  bool plain = false;  ///< bytes are copied as they are
};

/// A value of 8 bits selects what is written.
struct LookupTask {
  Loops loops{};
  Dtype to = Dtype::U8;
  std::array<std::uint8_t, 256> bytes{};
  std::array<float, 256> floats{};
};

enum class BinaryKind : std::uint8_t { Add, Sub, Mul, Div, Max, Min, Equal, NotEqual, Less, LessEqual };

struct BinaryTask {
  Loops loops{};
  BinaryKind kind = BinaryKind::Add;
  Dtype a = Dtype::U8;
  Dtype b = Dtype::U8;
  Affine a_real{};
  Affine b_real{};
  Rounding to{};
};

/// `a` where the condition's number in memory is not `none`, else `b`; operands are the output, the
/// condition, a and b.
struct WhereTask {
  Loops loops{};
  Dtype condition = Dtype::U8;
  float none = 0;
  Dtype a = Dtype::F32;
  Dtype b = Dtype::F32;
  Affine a_real{};
  Affine b_real{};
  Rounding to{};
};

/// Negative numbers times a slope; operands are the output, x and the slopes.
struct PreluTask {
  Loops loops{};
  Dtype from = Dtype::F32;
  Affine real{};
  Rounding to{};
};

/// number * weight + bias, rounded; operands are the output, the numbers as they stand in memory, weight and
/// bias, which have the scales and zero points of both in them.
struct ScaleShiftTask {
  Loops loops{};
  Dtype from = Dtype::F32;
  Rounding joined{};  ///< of the numbers before that, into those of a concatenation; F32 for none
  Rounding to{};
};

/// Rows of a table; those of int8 numbers have a scale each, and perhaps an addend.
struct EmbedTask {
  const void* weight = nullptr;
  Dtype dtype = Dtype::F32;
  const float* scales = nullptr;
  const float* addends = nullptr;
  std::int64_t length = 0;
  Rounding to{};
};

enum class ReduceKind : std::uint8_t { Sum, Max, Min };

struct ReduceTask {
  ReduceKind kind = ReduceKind::Sum;
  Loops kept{};     ///< over the output and the input
  Loops reduced{};  ///< over the input
  Dtype from = Dtype::F32;
  Rounding to{};
};

/// From the first position to one after the last.
struct Window {
  std::int64_t begin = 0;
  std::int64_t end = 1;
};

/// Channels last: each output position is the average or the largest of its windows in three dimensions.
struct PoolWindowsTask {
  bool largest = false;
  std::int64_t channels = 0;
  std::array<std::int64_t, 3> sizes{1, 1, 1};
  std::array<std::vector<Window>, 3> windows{};
  Dtype from = Dtype::U8;
  Rounding to{};
};

/// Channels last: [batch, positions, channels].
struct GlobalPoolTask {
  std::int64_t batch = 0;
  std::int64_t positions = 0;
  std::int64_t channels = 0;
  Dtype from = Dtype::U8;
  Rounding to{};  ///< of the sum over the positions
};

struct LayerNormTask {
  std::int64_t length = 0;
  Dtype from = Dtype::F32;
  Affine real{};
  float epsilon = 0;
  std::int64_t repeat = 1;        ///< neighbours that share a weight
  std::int64_t groups = 1;        ///< rows after which the weights begin again
  const float* weight = nullptr;  ///< of `groups * length / repeat` numbers, or none
  const float* bias = nullptr;
  Rounding to{};
  Rounding rounded{};              ///< of the same numbers in a second output, where there is one
  const float* factors = nullptr;  ///< that multiply them before that, one for each place of a row, or none
};

/// The longest row of a softmax that the kernel takes.
inline constexpr std::int64_t kSoftmaxRow = 4096;

/// Over rows of neighbours.
struct SoftmaxTask {
  std::int64_t length = 0;
  Dtype from = Dtype::F32;
  float scale = 1;  ///< of the input's numbers, whose zero point changes nothing
  bool logarithm = false;
  Rounding to{};
};

/// Channels last; each output position copies `bytes` from a position of the input.
struct ResizeNearestTask {
  std::int64_t bytes = 0;
  std::int64_t input_positions = 0;
  std::vector<std::int32_t> sources{};
};

/// Where a row or column of the output lies between two of the input.
struct Taps {
  std::int32_t first = 0;
  std::int32_t second = 0;
  float weight = 0;  ///< of the second
};

struct ResizeBilinearTask {
  std::int64_t channels = 0;
  std::int64_t input_height = 0;
  std::int64_t input_width = 0;
  std::vector<Taps> rows{};
  std::vector<Taps> columns{};
  Dtype from = Dtype::U8;
  Rounding to{};
};

/// The kernels of one instruction set. Units: blocks of rows (`units_of`); tiles (`convert_tiles`); rows
/// (`embed`, `layer_norm`, `softmax`); rows of the output in blocks of `kPoolChannels` (`reduce`); images
/// times `kPoolChannels` channels (`global_pool`); positions of the output; rows of the output
/// (`resize_bilinear`).
struct KernelTable {
  const char* name;
  void (*convert)(const ConvertTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
  void (*convert_tiles)(const ConvertTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
  void (*lookup)(const LookupTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
  void (*binary)(const BinaryTask&, void* out, const void* a, const void* b, std::int64_t begin,
                 std::int64_t end);
  void (*where)(const WhereTask&, void* out, const void* condition, const void* a, const void* b,
                std::int64_t begin, std::int64_t end);
  void (*prelu)(const PreluTask&, void* out, const void* in, const void* slopes, std::int64_t begin,
                std::int64_t end);
  void (*scale_shift)(const ScaleShiftTask&, void* out, const void* in, const void* weight, const void* bias,
                      std::int64_t begin, std::int64_t end);
  void (*embed)(const EmbedTask&, void* out, const void* rows, std::int64_t begin, std::int64_t end);
  void (*reduce)(const ReduceTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
  void (*global_pool)(const GlobalPoolTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
  void (*pool_windows)(const PoolWindowsTask&, void* out, const void* in, std::int64_t begin,
                       std::int64_t end);
  void (*layer_norm)(const LayerNormTask&, void* out, void* rounded, const void* in, std::int64_t begin,
                     std::int64_t end);
  void (*softmax)(const SoftmaxTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
  void (*resize_nearest)(const ResizeNearestTask&, void* out, const void* in, std::int64_t begin,
                         std::int64_t end);
  void (*resize_bilinear)(const ResizeBilinearTask&, void* out, const void* in, std::int64_t begin,
                          std::int64_t end);
};

inline constexpr std::int64_t kPoolChannels = 64;

/// Edge of a tile where the input's innermost dimension is not the output's.
inline constexpr std::int64_t kTile = 64;

/// Does `convert_tiles` do these loops? The input must have a dimension of stride 1 beside the innermost,
/// which is then the last but one.
bool order_for_tiles(Loops& loops);
std::int64_t tiles_of(const Loops& loops);

/// The best that this processor runs.
const KernelTable& kernels();

}  // namespace tsq::runtime
