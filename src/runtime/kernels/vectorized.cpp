// Compiled once for each instruction set, into the namespace TSQ_RUNTIME_ISA: plain loops that the compiler
// vectorizes. No function of a header that is not inlined here may be called: the linker would keep one
// instruction set's copy of it for all.
#include <cmath>
#include <cstring>

#include "runtime/kernels/kernels.h"

namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

constexpr std::int64_t kChunk = 512;

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// To the nearest integer, halves to the even one, within [low, high], which lie within 22 bits.
inline std::int32_t round_within(float real, float low, float high) {
  float bounded = real > low ? real : low;
  bounded = bounded < high ? bounded : high;
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: the sum's last bit is worth 1
  const float shifted = bounded + kShift;
  std::int32_t bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  return bits - 0x4B400000;
}

template <typename T>
void load_as(const void* in, std::int64_t at, std::int64_t stride, std::int64_t count, float* out) {
  const T* from = static_cast<const T*>(in) + at;
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(from[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(from[i * stride]);
  }
}

void load(Dtype dtype, const void* in, std::int64_t at, std::int64_t stride, std::int64_t count, float* out) {
  if (dtype == Dtype::F32) return load_as<float>(in, at, stride, count, out);
  if (dtype == Dtype::U8) return load_as<std::uint8_t>(in, at, stride, count, out);
  load_as<std::int8_t>(in, at, stride, count, out);
}

template <typename T>
void store_rounded(const Rounding& to, void* out, std::int64_t at, std::int64_t stride, std::int64_t count,
                   const float* in) {
  T* into = static_cast<T*>(out) + at;
  const Rounding r = to;
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      into[i] = static_cast<T>(round_within(in[i] * r.scale + r.offset, r.low, r.high));
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      into[i * stride] = static_cast<T>(round_within(in[i] * r.scale + r.offset, r.low, r.high));
    }
  }
}

void store_floats(const Rounding& to, void* out, std::int64_t at, std::int64_t stride, std::int64_t count,
                  const float* in) {
  float* into = static_cast<float*>(out) + at;
  const Rounding r = to;
  for (std::int64_t i = 0; i < count; ++i) {
    const float real = in[i] * r.scale + r.offset;
    const float above = real < r.low ? r.low : real;
    into[i * stride] = above > r.high ? r.high : above;
  }
}

void store(const Rounding& to, void* out, std::int64_t at, std::int64_t stride, std::int64_t count,
           const float* in) {
  if (to.dtype == Dtype::F32) return store_floats(to, out, at, stride, count, in);
  if (to.dtype == Dtype::U8) return store_rounded<std::uint8_t>(to, out, at, stride, count, in);
  store_rounded<std::int8_t>(to, out, at, stride, count, in);
}

/// Calls `work(offsets of the operands, elements)` for each unit from `begin` to `end`.
template <typename Work>
void for_units(const Loops& loops, std::int64_t begin, std::int64_t end, const Work& work) {
  const std::int64_t blocks = blocks_of(loops);
  const int inner = loops.count - 1;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t block = unit % blocks;
    std::int64_t row = unit / blocks;
    std::int64_t at[kMaxOperands] = {};
    for (int o = 0; o < loops.operands; ++o) at[o] = block * kBlock * loops.strides[o][inner];
    for (int d = inner - 1; d >= 0; --d) {
      const std::int64_t index = row % loops.sizes[d];
      row /= loops.sizes[d];
      for (int o = 0; o < loops.operands; ++o) at[o] += index * loops.strides[o][d];
    }
    work(at, smaller(kBlock, loops.sizes[inner] - block * kBlock));
  }
}

void convert(const ConvertTask& task, void* out, const void* in, std::int64_t begin, std::int64_t end) {
  const int inner = task.loops.count - 1;
  const std::int64_t to = task.loops.strides[0][inner];
  const std::int64_t from = task.loops.strides[1][inner];
  for_units(task.loops, begin, end, [&](const std::int64_t* at, std::int64_t count) {
    if (task.plain && to == 1 && from == 1) {
      const auto bytes = bytes_of(task.from);
      std::memcpy(static_cast<char*>(out) + at[0] * bytes, static_cast<const char*>(in) + at[1] * bytes,
                  static_cast<std::size_t>(count * bytes));
      return;
    }
    float chunk[kChunk];
    for (std::int64_t done = 0; done < count; done += kChunk) {
      const std::int64_t part = smaller(kChunk, count - done);
      load(task.from, in, at[1] + done * from, from, part, chunk);
      store(task.to, out, at[0] + done * to, to, part, chunk);
    }
  });
}

/// One tile: read along the input's dimension of stride 1, written along the output's.
template <typename T>
void convert_tile(const ConvertTask& task, T* out, const void* in, std::int64_t in_at, std::int64_t rows,
                  std::int64_t columns, std::int64_t out_stride, std::int64_t in_stride) {
  alignas(64) T tile[kTile * kTile];
  float chunk[kTile];
  for (std::int64_t c = 0; c < columns; ++c) {
    load(task.from, in, in_at + c * in_stride, 1, rows, chunk);
    store(task.to, tile, c * kTile, 1, rows, chunk);
  }
  if (columns == 3) {  // images
    for (std::int64_t r = 0; r < rows; ++r) {
      T* pixel = out + r * out_stride;
      pixel[0] = tile[r];
      pixel[1] = tile[kTile + r];
      pixel[2] = tile[2 * kTile + r];
    }
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) out[r * out_stride + c] = tile[c * kTile + r];
  }
}

void convert_tiles(const ConvertTask& task, void* out, const void* in, std::int64_t begin, std::int64_t end) {
  const Loops& loops = task.loops;
  const int inner = loops.count - 1;
  const std::int64_t column_tiles = (loops.sizes[inner] + kTile - 1) / kTile;
  const std::int64_t row_tiles = (loops.sizes[inner - 1] + kTile - 1) / kTile;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t column = unit % column_tiles * kTile;
    const std::int64_t row = unit / column_tiles % row_tiles * kTile;
    std::int64_t rest = unit / column_tiles / row_tiles;
    std::int64_t to = column + row * loops.strides[0][inner - 1];
    std::int64_t from = column * loops.strides[1][inner] + row;
    for (int d = inner - 2; d >= 0; --d) {
      to += rest % loops.sizes[d] * loops.strides[0][d];
      from += rest % loops.sizes[d] * loops.strides[1][d];
      rest /= loops.sizes[d];
    }
    const std::int64_t rows = smaller(kTile, loops.sizes[inner - 1] - row);
    const std::int64_t columns = smaller(kTile, loops.sizes[inner] - column);
    const std::int64_t out_stride = loops.strides[0][inner - 1];
    const std::int64_t in_stride = loops.strides[1][inner];
    if (task.to.dtype == Dtype::F32) {
      convert_tile(task, static_cast<float*>(out) + to, in, from, rows, columns, out_stride, in_stride);
    } else {
      // Rounded bytes are the same bits, signed or not.
      convert_tile(task, static_cast<std::uint8_t*>(out) + to, in, from, rows, columns, out_stride,
                   in_stride);
    }
  }
}

template <typename T>
void look_up(const T* table, T* out, std::int64_t out_stride, const std::uint8_t* in, std::int64_t in_stride,
             std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i * out_stride] = table[in[i * in_stride]];
}

void lookup(const LookupTask& task, void* out, const void* in, std::int64_t begin, std::int64_t end) {
  const int inner = task.loops.count - 1;
  const std::int64_t to = task.loops.strides[0][inner];
  const std::int64_t from = task.loops.strides[1][inner];
  for_units(task.loops, begin, end, [&](const std::int64_t* at, std::int64_t count) {
    const auto* source = static_cast<const std::uint8_t*>(in) + at[1];
    if (task.to == Dtype::F32) {
      look_up(&task.floats[0], static_cast<float*>(out) + at[0], to, source, from, count);
    } else {
      look_up(&task.bytes[0], static_cast<std::uint8_t*>(out) + at[0], to, source, from, count);
    }
  });
}

void binary(const BinaryTask& task, void* out, const void* a, const void* b, std::int64_t begin,
            std::int64_t end) {
  const int inner = task.loops.count - 1;
  const std::int64_t to = task.loops.strides[0][inner];
  const std::int64_t from_a = task.loops.strides[1][inner];
  const std::int64_t from_b = task.loops.strides[2][inner];
  const Affine left = task.a_real;
  const Affine right = task.b_real;
  for_units(task.loops, begin, end, [&](const std::int64_t* at, std::int64_t count) {
    float x[kChunk];
    float y[kChunk];
    for (std::int64_t done = 0; done < count; done += kChunk) {
      const std::int64_t part = smaller(kChunk, count - done);
      load(task.a, a, at[1] + done * from_a, from_a, part, x);
      load(task.b, b, at[2] + done * from_b, from_b, part, y);
      if (task.multiplies) {
        for (std::int64_t i = 0; i < part; ++i) {
          x[i] = (x[i] * left.scale + left.offset) * (y[i] * right.scale + right.offset);
        }
      } else {
        for (std::int64_t i = 0; i < part; ++i) {
          x[i] = (x[i] * left.scale + left.offset) + (y[i] * right.scale + right.offset);
        }
      }
      store(task.to, out, at[0] + done * to, to, part, x);
    }
  });
}

template <typename T, typename Sum>
void sum_positions(const T* in, std::int64_t positions, std::int64_t stride, std::int64_t channels,
                   float* out) {
  Sum sums[kPoolChannels] = {};
  if (channels == kPoolChannels) {
    for (std::int64_t p = 0; p < positions; ++p) {
      for (std::int64_t c = 0; c < kPoolChannels; ++c) sums[c] += static_cast<Sum>(in[p * stride + c]);
    }
  } else {
    for (std::int64_t p = 0; p < positions; ++p) {
      for (std::int64_t c = 0; c < channels; ++c) sums[c] += static_cast<Sum>(in[p * stride + c]);
    }
  }
  for (std::int64_t c = 0; c < channels; ++c) out[c] = static_cast<float>(sums[c]);
}

void global_pool(const GlobalPoolTask& task, void* out, const void* in, std::int64_t begin,
                 std::int64_t end) {
  const std::int64_t blocks = (task.channels + kPoolChannels - 1) / kPoolChannels;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t image = unit / blocks;
    const std::int64_t first = unit % blocks * kPoolChannels;
    const std::int64_t count = smaller(kPoolChannels, task.channels - first);
    const std::int64_t at = image * task.positions * task.channels + first;
    float sums[kPoolChannels];
    if (task.from == Dtype::F32) {
      sum_positions<float, float>(static_cast<const float*>(in) + at, task.positions, task.channels, count,
                                  sums);
    } else if (task.from == Dtype::U8) {
      sum_positions<std::uint8_t, std::int32_t>(static_cast<const std::uint8_t*>(in) + at, task.positions,
                                                task.channels, count, sums);
    } else {
      sum_positions<std::int8_t, std::int32_t>(static_cast<const std::int8_t*>(in) + at, task.positions,
                                               task.channels, count, sums);
    }
    store(task.to, out, image * task.channels + first, 1, count, sums);
  }
}

constexpr int kLanes = 16;

/// Sums in an order that no instruction set changes.
inline float total(const float* lanes) {
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

/// Adds f(x) of `count` numbers to the lanes; `count` is a multiple of kLanes except in the last chunk.
template <typename Function>
void add_lanes(const float* x, std::int64_t count, float* lanes, const Function& f) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += f(x[i + l]);
  }
  for (int l = 0; i < count; ++i, ++l) lanes[l] += f(x[i]);
}

void layer_norm(const LayerNormTask& task, void* out, const void* in, std::int64_t begin, std::int64_t end) {
  const std::int64_t length = task.length;
  const Affine real = task.real;
  const auto each_chunk = [&](std::int64_t row, const auto& work) {
    float chunk[kChunk];
    for (std::int64_t done = 0; done < length; done += kChunk) {
      const std::int64_t part = smaller(kChunk, length - done);
      load(task.from, in, row * length + done, 1, part, chunk);
      for (std::int64_t i = 0; i < part; ++i) chunk[i] = chunk[i] * real.scale + real.offset;
      work(chunk, done, part);
    }
  };
  for (std::int64_t row = begin; row < end; ++row) {
    float sums[kLanes] = {};
    each_chunk(row, [&](const float* x, std::int64_t, std::int64_t part) {
      add_lanes(x, part, sums, [](float v) { return v; });
    });
    const float mean = total(sums) / static_cast<float>(length);
    float squares[kLanes] = {};
    each_chunk(row, [&](const float* x, std::int64_t, std::int64_t part) {
      add_lanes(x, part, squares, [mean](float v) { return (v - mean) * (v - mean); });
    });
    const float inverse = 1.0F / __builtin_sqrtf(total(squares) / static_cast<float>(length) + task.epsilon);
    each_chunk(row, [&](float* x, std::int64_t done, std::int64_t part) {
      for (std::int64_t i = 0; i < part; ++i) x[i] = (x[i] - mean) * inverse;
      if (task.weight != nullptr) {
        for (std::int64_t i = 0; i < part; ++i) x[i] *= task.weight[done + i];
      }
      if (task.bias != nullptr) {
        for (std::int64_t i = 0; i < part; ++i) x[i] += task.bias[done + i];
      }
      store(task.to, out, row * length + done, 1, part, x);
    });
  }
}

void resize_nearest(const ResizeNearestTask& task, void* out, const void* in, std::int64_t begin,
                    std::int64_t end) {
  const auto positions = static_cast<std::int64_t>(task.sources.size());
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t source = unit / positions * task.input_positions + task.sources[unit % positions];
    std::memcpy(static_cast<char*>(out) + unit * task.bytes,
                static_cast<const char*>(in) + source * task.bytes, static_cast<std::size_t>(task.bytes));
  }
}

void resize_bilinear(const ResizeBilinearTask& task, void* out, const void* in, std::int64_t begin,
                     std::int64_t end) {
  const auto height = static_cast<std::int64_t>(task.rows.size());
  const auto width = static_cast<std::int64_t>(task.columns.size());
  const std::int64_t channels = task.channels;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const Taps& row = task.rows[unit % height];
    const std::int64_t image = unit / height * task.input_height * task.input_width;
    for (std::int64_t x = 0; x < width; ++x) {
      const Taps& column = task.columns[x];
      const auto at = [&](std::int32_t y_tap, std::int32_t x_tap) {
        return (image + y_tap * task.input_width + x_tap) * channels;
      };
      const std::int64_t corners[4] = {at(row.first, column.first), at(row.first, column.second),
                                       at(row.second, column.first), at(row.second, column.second)};
      for (std::int64_t done = 0; done < channels; done += kChunk) {
        const std::int64_t part = smaller(kChunk, channels - done);
        float taps[4][kChunk];
        for (int corner = 0; corner < 4; ++corner) {
          load(task.from, in, corners[corner] + done, 1, part, taps[corner]);
        }
        for (std::int64_t i = 0; i < part; ++i) {
          const float upper = taps[0][i] + (taps[1][i] - taps[0][i]) * column.weight;
          const float lower = taps[2][i] + (taps[3][i] - taps[2][i]) * column.weight;
          taps[0][i] = upper + (lower - upper) * row.weight;
        }
        store(task.to, out, (unit * width + x) * channels + done, 1, part, taps[0]);
      }
    }
  }
}

}  // namespace

extern const KernelTable kKernels;
const KernelTable kKernels{.name = TSQ_RUNTIME_ISA_NAME,
                           .convert = convert,
                           .convert_tiles = convert_tiles,
                           .lookup = lookup,
                           .binary = binary,
                           .global_pool = global_pool,
                           .layer_norm = layer_norm,
                           .resize_nearest = resize_nearest,
                           .resize_bilinear = resize_bilinear};

}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
