// Compiled once for each instruction set, into the namespace TSQ_RUNTIME_ISA: plain loops that the compiler
// vectorizes. No function of a header that is not inlined here may be called: the linker would keep one
// instruction set's copy of it for all.
#include "runtime/kernels/vectorized_functions.h"
#include "runtime/kernels/vectorized_numbers.h"

namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

template <int kCount, typename Sum, typename T>
void sum_channels(const T* in, std::int64_t positions, std::int64_t stride, float* out) {
  Sum sums[kCount] = {};
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t c = 0; c < kCount; ++c) sums[c] += static_cast<Sum>(in[p * stride + c]);
  }
  for (std::int64_t c = 0; c < kCount; ++c) out[c] = static_cast<float>(sums[c]);
}

/// Few channels are summed in blocks of a fixed size, which stay in registers.
template <typename T, typename Sum>
void sum_positions(const T* in, std::int64_t positions, std::int64_t stride, std::int64_t channels,
                   float* out) {
  if (channels == kPoolChannels) return sum_channels<kPoolChannels, Sum>(in, positions, stride, out);
  std::int64_t c = 0;
  for (; c + 16 <= channels; c += 16) sum_channels<16, Sum>(in + c, positions, stride, out + c);
  for (; c + 4 <= channels; c += 4) sum_channels<4, Sum>(in + c, positions, stride, out + c);
  for (; c < channels; ++c) sum_channels<1, Sum>(in + c, positions, stride, out + c);
}

constexpr std::int64_t kRowChunk = 2048;

/// Numbers less their mean, times the inverse of their deviation, then times weights, plus biases.
inline void normalize(float* x, std::int64_t count, float mean, float inverse, const float* weight,
                      const float* bias) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
}

/// Multiplies by the weights and adds the bias of `count` elements of a row, which begin at `done`.
inline void scale_and_shift(const LayerNormTask& task, std::int64_t row, std::int64_t done,
                            std::int64_t count, float* x) {
  const float* weight = task.weight;
  const float* bias = task.bias;
  if (task.repeat == 1 && task.groups == 1) {
    if (weight != nullptr) {
      for (std::int64_t i = 0; i < count; ++i) x[i] *= weight[done + i];
    }
    if (bias != nullptr) {
      for (std::int64_t i = 0; i < count; ++i) x[i] += bias[done + i];
    }
    return;
  }
  const std::int64_t first = row % task.groups * (task.length / task.repeat);
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t within = (done + i) % task.repeat;
    const std::int64_t channel = first + (done + i) / task.repeat;
    const std::int64_t run = smaller(count - i, task.repeat - within);
    const float w = weight != nullptr ? weight[channel] : 1.0F;
    const float b = bias != nullptr ? bias[channel] : 0.0F;
    for (std::int64_t k = i; k < i + run; ++k) x[k] = x[k] * w + b;
    i += run;
  }
}

/// Calls `work(offset)` for each row of the dimensions over which is reduced.
template <typename Work>
void for_rows(const Loops& loops, const Work& work) {
  const std::int64_t rows = loops.rows();
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row;
    std::int64_t at = 0;
    for (int d = loops.count - 2; d >= 0; --d) {
      at += rest % loops.sizes[d] * loops.strides[0][d];
      rest /= loops.sizes[d];
    }
    work(at);
  }
}

/// Reduces what lies side by side in memory to one number.
template <typename Function>
float reduce_along(const ReduceTask& task, const void* in, std::int64_t at, float start,
                   const Function& function) {
  float result = start;
  const std::int64_t length = task.reduced.inner();
  for_rows(task.reduced, [&](std::int64_t row) {
    float chunk[kChunk];
    for (std::int64_t done = 0; done < length; done += kChunk) {
      const std::int64_t part = smaller(kChunk, length - done);
      load(task.from, in, at + row + done, 1, part, chunk);
      function(result, join(chunk, part, start, function));
    }
  });
  return result;
}

/// Reduces `count` neighbours of the output at once.
template <typename Function>
void reduce_across(const ReduceTask& task, const void* in, std::int64_t at, std::int64_t stride,
                   std::int64_t count, float* results, const Function& function) {
  const int inner = task.reduced.count - 1;
  for_rows(task.reduced, [&](std::int64_t row) {
    float x[kPoolChannels];
    for (std::int64_t i = 0; i < task.reduced.sizes[inner]; ++i) {
      load(task.from, in, at + row + i * task.reduced.strides[0][inner], stride, count, x);
      for (std::int64_t c = 0; c < count; ++c) function(results[c], x[c]);
    }
  });
}

template <typename Function>
void reduce_with(const ReduceTask& task, void* out, const void* in, std::int64_t begin, std::int64_t end,
                 float start, const Function& function) {
  const int inner = task.kept.count - 1;
  const std::int64_t to = task.kept.strides[0][inner];
  const std::int64_t from = task.kept.strides[1][inner];
  const bool along = task.reduced.strides[0][task.reduced.count - 1] == 1 && from != 1;
  const auto work = [&](const std::int64_t* at, std::int64_t count) {
    float results[kPoolChannels];
    for (std::int64_t i = 0; i < count; ++i) {
      results[i] = along ? reduce_along(task, in, at[1] + i * from, start, function) : start;
    }
    if (!along) reduce_across(task, in, at[1], from, count, results, function);
    store(task.to, out, at[0], to, count, results);
  };
  for_units(task.kept, begin, end, work, kPoolChannels);
}

}  // namespace

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

/// The row is loaded for each of three passes, since it may be long; a row of one chunk is loaded once.
void layer_norm(const LayerNormTask& task, void* out, void* rounded, const void* in, std::int64_t begin,
                std::int64_t end) {
  const bool is_plain =
      task.repeat == 1 && task.groups == 1 && task.weight != nullptr && task.bias != nullptr;
  const std::int64_t length = task.length;
  const Affine real = task.real;
  float chunk[kRowChunk];
  const auto each_chunk = [&](std::int64_t row, bool first, const auto& work) {
    for (std::int64_t done = 0; done < length; done += kRowChunk) {
      const std::int64_t part = smaller(kRowChunk, length - done);
      if (first || length > kRowChunk) {
        load(task.from, in, row * length + done, 1, part, chunk);
        if (task.from != Dtype::F32) {
          for (std::int64_t i = 0; i < part; ++i) chunk[i] = (chunk[i] - real.zero_point) * real.scale;
        }
      }
      work(done, part);
    }
  };
  for (std::int64_t row = begin; row < end; ++row) {
    float sum = 0;
    each_chunk(row, true, [&](std::int64_t, std::int64_t part) { sum += join(chunk, part, 0.0F, Plus{}); });
    const float mean = sum / static_cast<float>(length);
    float squares = 0;
    each_chunk(row, false, [&](std::int64_t, std::int64_t part) {
      squares += join(chunk, part, 0.0F, PlusSquare{mean}, Plus{});
    });
    const float inverse = 1.0F / __builtin_sqrtf(squares / static_cast<float>(length) + task.epsilon);
    each_chunk(row, false, [&](std::int64_t done, std::int64_t part) {
      if (is_plain) {
        normalize(chunk, part, mean, inverse, task.weight + done, task.bias + done);
      } else {
        for (std::int64_t i = 0; i < part; ++i) chunk[i] = (chunk[i] - mean) * inverse;
        scale_and_shift(task, row, done, part, chunk);
      }
      store(task.to, out, row * length + done, 1, part, chunk);
      if (rounded == nullptr) return;
      if (task.factors != nullptr) {
        for (std::int64_t i = 0; i < part; ++i) chunk[i] *= task.factors[done + i];
      }
      store(task.rounded, rounded, row * length + done, 1, part, chunk);
    });
  }
}

void reduce(const ReduceTask& task, void* out, const void* in, std::int64_t begin, std::int64_t end) {
  switch (task.kind) {
    case ReduceKind::Sum:
      return reduce_with(task, out, in, begin, end, 0.0F, Plus{});
    case ReduceKind::Max:
      return reduce_with(task, out, in, begin, end, -kInfinity, Larger{});
    case ReduceKind::Min:
      return reduce_with(task, out, in, begin, end, kInfinity, Smaller{});
  }
}

void pool_windows(const PoolWindowsTask& task, void* out, const void* in, std::int64_t begin,
                  std::int64_t end) {
  const auto count_of = [&](int d) { return static_cast<std::int64_t>(task.windows[d].size()); };
  const std::int64_t positions = count_of(0) * count_of(1) * count_of(2);
  const std::int64_t channels = task.channels;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t image = unit / positions * task.sizes[0] * task.sizes[1] * task.sizes[2];
    const Window z = task.windows[0][unit % positions / count_of(2) / count_of(1)];
    const Window y = task.windows[1][unit % positions / count_of(2) % count_of(1)];
    const Window x = task.windows[2][unit % count_of(2)];
    const float share = 1.0F / static_cast<float>((z.end - z.begin) * (y.end - y.begin) * (x.end - x.begin));
    for (std::int64_t first = 0; first < channels; first += kPoolChannels) {
      const std::int64_t count = smaller(kPoolChannels, channels - first);
      float results[kPoolChannels];
      float numbers[kPoolChannels];
      for (std::int64_t c = 0; c < count; ++c) results[c] = task.largest ? -kInfinity : 0.0F;
      for (std::int64_t i = z.begin; i < z.end; ++i) {
        for (std::int64_t j = y.begin; j < y.end; ++j) {
          for (std::int64_t k = x.begin; k < x.end; ++k) {
            const std::int64_t position = image + (i * task.sizes[1] + j) * task.sizes[2] + k;
            load(task.from, in, position * channels + first, 1, count, numbers);
            if (task.largest) {
              for (std::int64_t c = 0; c < count; ++c) {
                results[c] = numbers[c] > results[c] ? numbers[c] : results[c];
              }
            } else {
              for (std::int64_t c = 0; c < count; ++c) results[c] += numbers[c];
            }
          }
        }
      }
      if (!task.largest) {
        for (std::int64_t c = 0; c < count; ++c) results[c] *= share;
      }
      store(task.to, out, unit * channels + first, 1, count, results);
    }
  }
}

}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
