// Compiled once for each instruction set, into the namespace TSQ_RUNTIME_ISA: plain loops that the compiler
// vectorizes. No function of a header that is not inlined here may be called: the linker would keep one
// instruction set's copy of it for all.
#include "runtime/kernels/vectorized_functions.h"
#include "runtime/kernels/vectorized_numbers.h"
#include "runtime/kernels/vectorized_transpose.h"

namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

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
  if (columns == 3 && out_stride == 3 && sizeof(T) == 1) {  // images
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&tile[0]);
    for (std::int64_t r = 0; r < rows; r += 16) {
      std::uint8_t pixels[48];
      interleave(bytes + r, bytes + kTile + r, bytes + 2 * kTile + r, pixels);
      std::memcpy(out + r * 3, pixels, static_cast<std::size_t>(3 * smaller(16, rows - r)));
    }
    return;
  }
  constexpr int kSize = Square<T>::kSize;
  for (std::int64_t r = 0; r < rows; r += kSize) {
    for (std::int64_t c = 0; c < columns; c += kSize) {
      transpose_square(&tile[c * kTile + r], kTile, out + r * out_stride + c, out_stride, rows - r,
                       columns - c);
    }
  }
}

template <typename T>
void look_up(const T* table, T* out, std::int64_t out_stride, const std::uint8_t* in, std::int64_t in_stride,
             std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i * out_stride] = table[in[i * in_stride]];
}

template <typename Function>
void combine(float* x, const float* y, std::int64_t count, Affine left, Affine right,
             const Function& function) {
  const std::int64_t whole = whole_registers(count);
  for (std::int64_t i = 0; i < whole; ++i) {
    x[i] = function((x[i] - left.zero_point) * left.scale, (y[i] - right.zero_point) * right.scale);
  }
}

void combine(BinaryKind kind, float* x, const float* y, std::int64_t count, Affine left, Affine right) {
  switch (kind) {
    case BinaryKind::Add:
      return combine(x, y, count, left, right, [](float a, float b) { return a + b; });
    case BinaryKind::Sub:
      return combine(x, y, count, left, right, [](float a, float b) { return a - b; });
    case BinaryKind::Mul:
      return combine(x, y, count, left, right, [](float a, float b) { return a * b; });
    case BinaryKind::Div:
      return combine(x, y, count, left, right, [](float a, float b) { return a / b; });
    case BinaryKind::Max:
      return combine(x, y, count, left, right, [](float a, float b) { return a > b ? a : b; });
    case BinaryKind::Min:
      return combine(x, y, count, left, right, [](float a, float b) { return a < b ? a : b; });
    case BinaryKind::Equal:
      return combine(x, y, count, left, right, [](float a, float b) { return a == b ? 1.0F : 0.0F; });
    case BinaryKind::NotEqual:
      return combine(x, y, count, left, right, [](float a, float b) { return a != b ? 1.0F : 0.0F; });
    case BinaryKind::Less:
      return combine(x, y, count, left, right, [](float a, float b) { return a < b ? 1.0F : 0.0F; });
    case BinaryKind::LessEqual:
      return combine(x, y, count, left, right, [](float a, float b) { return a <= b ? 1.0F : 0.0F; });
  }
}

}  // namespace

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
    if (task.from == Dtype::I64) {
      const auto* source = static_cast<const std::int64_t*>(in) + at[1];
      auto* target = static_cast<std::int64_t*>(out) + at[0];
      for (std::int64_t i = 0; i < count; ++i) target[i * to] = source[i * from];
      return;
    }
    const auto as_it_is = [](auto numbers, std::int64_t /*place*/, auto /*mask*/) { return numbers; };
    if (to == 1 && from == 1 && in_registers(task.from, in, at[1], task.to, out, at[0], count, as_it_is))
      return;
    float chunk[kChunk];
    for (std::int64_t done = 0; done < count; done += kChunk) {
      const std::int64_t part = smaller(kChunk, count - done);
      load(task.from, in, at[1] + done * from, from, part, chunk);
      store(task.to, out, at[0] + done * to, to, part, chunk);
    }
  });
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
  for_units(task.loops, begin, end, [&](const std::int64_t* at, std::int64_t count) {
    float x[kBuffer];
    float y[kBuffer];
    for (std::int64_t done = 0; done < count; done += kChunk) {
      const std::int64_t part = smaller(kChunk, count - done);
      load(task.a, a, at[1] + done * from_a, from_a, part, x);
      load(task.b, b, at[2] + done * from_b, from_b, part, y);
      pad_register(x, part);
      pad_register(y, part);
      combine(task.kind, x, y, part, task.a_real, task.b_real);
      store(task.to, out, at[0] + done * to, to, part, x);
    }
  });
}

void where(const WhereTask& task, void* out, const void* condition, const void* a, const void* b,
           std::int64_t begin, std::int64_t end) {
  const int inner = task.loops.count - 1;
  const auto stride = [&](int operand) { return task.loops.strides[operand][inner]; };
  const Affine left = task.a_real;
  const Affine right = task.b_real;
  const float none = task.none;
  for_units(task.loops, begin, end, [&](const std::int64_t* at, std::int64_t count) {
    float chosen[kChunk];
    float x[kChunk];
    float y[kChunk];
    for (std::int64_t done = 0; done < count; done += kChunk) {
      const std::int64_t part = smaller(kChunk, count - done);
      load(task.condition, condition, at[1] + done * stride(1), stride(1), part, chosen);
      load(task.a, a, at[2] + done * stride(2), stride(2), part, x);
      load(task.b, b, at[3] + done * stride(3), stride(3), part, y);
      for (std::int64_t i = 0; i < part; ++i) {
        const float if_true = (x[i] - left.zero_point) * left.scale;
        const float if_false = (y[i] - right.zero_point) * right.scale;
        x[i] = chosen[i] != none ? if_true : if_false;
      }
      store(task.to, out, at[0] + done * stride(0), stride(0), part, x);
    }
  });
}

namespace {

/// `numbers[place]` and what follows, or one number for all.
struct ChannelNumbers {
  const float* numbers;
  std::int64_t stride;
};

#ifdef TSQ_RUNTIME_HAS_MASKS
inline __m512 lanes_of(ChannelNumbers of, std::int64_t place, __mmask16 mask) {
  return of.stride == 0 ? _mm512_set1_ps(*of.numbers) : lanes_at(of.numbers + place, mask);
}

inline auto sloped_lanes(Affine real, ChannelNumbers slopes) {
  return [=](__m512 numbers, std::int64_t place, __mmask16 mask) {
    const __m512 x = (numbers - real.zero_point) * real.scale;
    return x > 0 ? x : x * lanes_of(slopes, place, mask);
  };
}

/// Neighbours of one dtype into neighbours of 8 bits.
template <bool joins, typename T>
void scale_shift_neighbours(const ScaleShiftTask& task, void* out, const void* in, const void* weight,
                            const void* bias, std::int64_t begin, std::int64_t end) {
  const int inner = task.loops.count - 1;
  const std::int64_t weight_stride = task.loops.strides[2][inner];
  const Rounding joined = task.joined;
  const float low = task.to.low;
  const float high = task.to.high;
  for_units(task.loops, begin, end, [&](const std::int64_t* at, std::int64_t count) {
    const T* from = static_cast<const T*>(in) + at[1];
    char* const target = static_cast<char*>(out) + at[0];
    const ChannelNumbers weights{static_cast<const float*>(weight) + at[2], weight_stride};
    const ChannelNumbers biases{static_cast<const float*>(bias) + at[3], weight_stride};
    for (std::int64_t i = 0; i < count; i += kLanes) {
      const __mmask16 mask = first_lanes(count - i);
      __m512 numbers = lanes_at(from + i, mask);
      if constexpr (joins) numbers = _mm512_maskz_cvtepi32_ps(kAll, rounded(joined, numbers));
      const __m512 scaled = times_plus(numbers, lanes_of(weights, i, mask), lanes_of(biases, i, mask));
      write_bytes(target + i, count - i, rounded_within(scaled, low, high));
    }
  });
}

template <bool joins>
bool scale_shift_in_registers(const ScaleShiftTask& task, void* out, const void* in, const void* weight,
                              const void* bias, std::int64_t begin, std::int64_t end) {
  const int inner = task.loops.count - 1;
  const bool are_neighbours = task.loops.strides[0][inner] == 1 && task.loops.strides[1][inner] == 1;
  if (!are_neighbours || task.to.dtype == Dtype::F32) return false;
  const auto run = task.from == Dtype::F32  ? scale_shift_neighbours<joins, float>
                   : task.from == Dtype::U8 ? scale_shift_neighbours<joins, std::uint8_t>
                                            : scale_shift_neighbours<joins, std::int8_t>;
  run(task, out, in, weight, bias, begin, end);
  return true;
}
#else
inline int sloped_lanes(Affine /*real*/, ChannelNumbers /*slopes*/) { return 0; }

template <bool joins>
bool scale_shift_in_registers(const ScaleShiftTask& /*task*/, void* /*out*/, const void* /*in*/,
                              const void* /*weight*/, const void* /*bias*/, std::int64_t /*begin*/,
                              std::int64_t /*end*/) {
  return false;
}
#endif

}  // namespace

void prelu(const PreluTask& task, void* out, const void* in, const void* slopes, std::int64_t begin,
           std::int64_t end) {
  const int inner = task.loops.count - 1;
  const auto stride = [&](int operand) { return task.loops.strides[operand][inner]; };
  const Affine real = task.real;
  const bool are_neighbours = stride(0) == 1 && stride(1) == 1 && stride(2) <= 1;
  for_units(task.loops, begin, end, [&](const std::int64_t* at, std::int64_t count) {
    const ChannelNumbers numbers{static_cast<const float*>(slopes) + at[2], stride(2)};
    if (are_neighbours &&
        in_registers(task.from, in, at[1], task.to, out, at[0], count, sloped_lanes(real, numbers)))
      return;
    float x[kBuffer];
    float w[kBuffer];
    for (std::int64_t done = 0; done < count; done += kChunk) {
      const std::int64_t part = smaller(kChunk, count - done);
      const std::int64_t whole = whole_registers(part);
      load(task.from, in, at[1] + done * stride(1), stride(1), part, x);
      load_as<float>(slopes, at[2] + done * stride(2), stride(2), part, w);
      pad_register(x, part);
      pad_register(w, part);
      for (std::int64_t i = 0; i < whole; ++i) {
        const float number = (x[i] - real.zero_point) * real.scale;
        x[i] = number > 0 ? number : number * w[i];
      }
      store(task.to, out, at[0] + done * stride(0), stride(0), part, x);
    }
  });
}

void scale_shift(const ScaleShiftTask& task, void* out, const void* in, const void* weight, const void* bias,
                 std::int64_t begin, std::int64_t end) {
  const bool joins = task.joined.dtype != Dtype::F32;
  const auto in_registers = joins ? scale_shift_in_registers<true> : scale_shift_in_registers<false>;
  if (in_registers(task, out, in, weight, bias, begin, end)) return;
  const int inner = task.loops.count - 1;
  const auto stride = [&](int operand) { return task.loops.strides[operand][inner]; };
  const Rounding joined = task.joined;
  for_units(task.loops, begin, end, [&](const std::int64_t* at, std::int64_t count) {
    float x[kBuffer];
    float w[kBuffer];
    float b[kBuffer];
    for (std::int64_t done = 0; done < count; done += kChunk) {
      const std::int64_t part = smaller(kChunk, count - done);
      const std::int64_t whole = whole_registers(part);
      load(task.from, in, at[1] + done * stride(1), stride(1), part, x);
      load_as<float>(weight, at[2] + done * stride(2), stride(2), part, w);
      load_as<float>(bias, at[3] + done * stride(3), stride(3), part, b);
      pad_register(x, part);
      pad_register(w, part);
      pad_register(b, part);
      for (std::int64_t i = 0; joins && i < whole; ++i) {
        const float code = x[i] * joined.scale + joined.offset;
        x[i] = static_cast<float>(round_within(code, joined.low, joined.high));
      }
      for (std::int64_t i = 0; i < whole; ++i) x[i] = x[i] * w[i] + b[i];
      store(task.to, out, at[0] + done * stride(0), stride(0), part, x);
    }
  });
}

void embed(const EmbedTask& task, void* out, const void* rows, std::int64_t begin, std::int64_t end) {
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t row = static_cast<const std::int64_t*>(rows)[unit];
    const float scale = task.scales != nullptr ? task.scales[row] : 1;
    const float addend = task.addends != nullptr ? task.addends[row] : 0;
    float chunk[kChunk];
    for (std::int64_t done = 0; done < task.length; done += kChunk) {
      const std::int64_t part = smaller(kChunk, task.length - done);
      load(task.dtype, task.weight, row * task.length + done, 1, part, chunk);
      for (std::int64_t i = 0; i < part; ++i) chunk[i] = chunk[i] * scale + addend;
      store(task.to, out, unit * task.length + done, 1, part, chunk);
    }
  }
}

}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
