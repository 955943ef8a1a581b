// Compiled once for each instruction set, as vectorized_elementwise.cpp says, and once more with products of
// bytes.
#include "runtime/kernels/attention.h"
#include "runtime/kernels/vectorized_packing.h"

namespace tsq::runtime::TSQ_RUNTIME_ISA {
namespace {

constexpr float kLog2E = 1.44269504F;

constexpr std::int64_t round_up(std::int64_t number, std::int64_t step) {
  return (number + step - 1) / step * step;
}

inline float largest_of(const float* row, std::int64_t count) {
  Register first = spread(-kInfinity);
  Register second = first;
  std::int64_t i = 0;
  for (; i + kPanel <= count; i += kPanel) {
    first = larger(first, load_register(row + i));
    second = larger(second, load_register(row + i + kRegister));
  }
  for (; i < count; i += kRegister) first = larger(first, load_register(row + i));
  return largest_of_lanes(larger(first, second));
}

/// Numbers become 2 to the power of (number - largest) * factor; returns their sum.
inline float exponentiate(float* row, std::int64_t count, float largest, float factor) {
  Register sum = spread(0);
  for (std::int64_t i = 0; i < count; i += kRegister) {
    const Register power = exp2((load_register(row + i) - spread(largest)) * spread(factor));
    store_register(row + i, power);
    sum += power;
  }
  return sum_of_lanes(sum);
}

#ifdef __AVX512VNNI__
/// Are shares and int8 values multiplied as words of 16 bits, where the result is rounded to 8? This kernel
/// has 71 to 85 dB with words, for 128 and 512 keys against a reference in double precision, and 125 dB and
/// more with floats; it takes 0.70 to 0.80 times as long. A model of the rounding alone, with one key that
/// dominates and with values far from zero: words have 58 to 104 dB, and cost 35 dB of other noise 0.02 dB at
/// most. Bytes (255 levels of the largest share) have 33 to 61 dB for random scores and 19 to 67 dB where one
/// key dominates, since small shares become 0: they would cost up to 16 dB.
constexpr bool kSharesAsWords = true;
/// The logarithm of the largest word, 32767, which the largest share of a row becomes.
constexpr float kLargestWord = 14.999956F;
/// Pairs of keys whose products with values, which are within 255, cannot leave 32 bits.
constexpr std::int64_t kPairs = 128;

/// As `exponentiate`, but the powers are words, and the largest is 32767.
inline float exponentiate_words(float* row, std::int64_t count, float largest, float factor) {
  auto* words = reinterpret_cast<std::byte*>(row);
  Register sum = spread(0);
  for (std::int64_t i = 0; i < count; i += kRegister) {
    const Register power =
        exp2(multiply_add(load_register(row + i) - spread(largest), spread(factor), spread(kLargestWord)));
    const __m256i rounded = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(power));
    __builtin_memcpy(words + i * 2, &rounded, sizeof rounded);
    sum += power;
  }
  return sum_of_lanes(sum);
}
#endif

/// Computes blocks of queries on one thread.
class Blocks {
 public:
  Blocks(const AttentionTask& task, const AttentionPointers& pointers)
      : task_(task),
        pointers_(pointers),
        score_stride_(round_up(task.keys, kPanel)),
        sum_stride_(round_up(task.value_width, kPanel)) {
#ifdef __AVX512VNNI__
    bytes_ = is_int8(task.query.dtype) && is_int8(task.key.dtype);
    words_ = kSharesAsWords && is_int8(task.value.dtype) && is_int8(task.to.dtype);
    if (bytes_) depth_ = groups_of(task.width);
    if (words_) value_depth_ = (task.keys + 1) / 2;
#endif
    keys_ = pointers.scratch;
    values_ = keys_ + score_stride_ * (depth_ + 1);
    scores_ = values_ + sum_stride_ * (value_depth_ + 1);
    sums_ = scores_ + kAttentionRows * score_stride_;
    queries_ = sums_ + kAttentionRows * sum_stride_;
  }

  void run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const auto& head = task_.heads[static_cast<std::size_t>(unit / task_.blocks())];
      pack(head);
      write(head, unit % task_.blocks() * kAttentionRows);
    }
  }

 private:
  /// Heads may share keys and values.
  void pack(const AttentionHead& head) {
    if (packed_ != nullptr && (*packed_)[2] == head[2] && (*packed_)[3] == head[3]) return;
    packed_ = &head;
    pack_keys({task_.key, pointers_.key, head[2], task_.keys, task_.width});
    pack_values({task_.value, pointers_.value, head[3], task_.keys, task_.value_width});
  }

  void pack_keys(const Matrix& keys) {
#ifdef __AVX512VNNI__
    const int moved = task_.query.dtype == Dtype::U8 ? -128 : 0;
    if (bytes_) return pack_turned_bytes(keys, task_.query.zero_point + moved, keys_);
#endif
    pack_turned(keys, keys_);
  }

  void pack_values(const Matrix& values) {
#ifdef __AVX512VNNI__
    if (words_) return pack_columns_of_words(values, values_);
#endif
    pack_columns(values, values_);
  }

  void write(const AttentionHead& head, std::int64_t first) {
    const std::int64_t rows = smaller(kAttentionRows, task_.queries - first);
    const std::int64_t keys = task_.causal ? smaller(task_.keys, first + rows) : task_.keys;
    score(head, first, rows, keys);
    float totals[kAttentionRows];
    for (std::int64_t r = 0; r < rows; ++r) {
      totals[r] = soften(head, first + r, keys, scores_ + r * score_stride_);
    }
    average(rows, keys);
    for (std::int64_t r = 0; r < rows; ++r) {
      Rounding to = task_.to;
      to.scale /= totals[r];
      store(to, pointers_.out, head[0] + (first + r) * task_.output.row_stride, task_.output.column_stride,
            task_.value_width, sums_ + r * sum_stride_);
    }
  }

  void score(const AttentionHead& head, std::int64_t first, std::int64_t count, std::int64_t keys) {
    const Matrix queries{task_.query, pointers_.query, head[1], task_.queries, task_.width};
    const Rows rows{queries_, depth_, count};
    const Columns columns{keys_, depth_, keys};
    const Sums scores{scores_, score_stride_};
#ifdef __AVX512VNNI__
    if (bytes_) {
      pack_rows_of_bytes(queries, first, count, queries_);
      return multiply<OfBytes>(rows, columns, {0, depth_}, scores);
    }
#endif
    pack_rows(queries, first, count, queries_);
    multiply<OfFloats>(rows, columns, {0, depth_}, scores);
  }

  /// Values, each as often as its share.
  void average(std::int64_t count, std::int64_t keys) {
    const Rows rows{scores_, score_stride_, count};
    const Columns columns{values_, value_depth_, task_.value_width};
    const Sums sums{sums_, sum_stride_};
#ifdef __AVX512VNNI__
    if (words_) {
      const std::int64_t pairs = (keys + 1) / 2;
      for (std::int64_t begin = 0; begin < pairs; begin += kPairs) {
        multiply<OfWords>(rows, columns, {begin, smaller(begin + kPairs, pairs)}, sums);
      }
      return;
    }
#endif
    multiply<OfFloats>(rows, columns, {0, keys}, sums);
  }

  /// Scores of one query become shares of the returned sum.
  float soften(const AttentionHead& head, std::int64_t query, std::int64_t keys, float* row) {
    const std::int64_t visible = task_.causal ? smaller(keys, query + 1) : keys;
    const std::int64_t padded = round_up(keys, kRegister);
    float factor = task_.factor * kLog2E;
    if (task_.masked) {
      add_mask(head[4] + query * task_.mask.row_stride, visible, row);
      factor = kLog2E;
    }
    fill(row + visible, padded - visible, -kInfinity);
    const float largest = largest_of(row, padded);
#ifdef __AVX512VNNI__
    if (words_) return exponentiate_words(row, padded, largest, factor);
#endif
    return exponentiate(row, padded, largest, factor);
  }

  void add_mask(std::int64_t at, std::int64_t count, float* row) const {
    const std::int64_t stride = task_.mask.column_stride;
    const float* mask = static_cast<const float*>(pointers_.mask) + at;
    const float factor = task_.factor;
    if (stride == 1) {
      for (std::int64_t i = 0; i < count; ++i) row[i] = row[i] * factor + mask[i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) row[i] = row[i] * factor + mask[i * stride];
    }
  }

  const AttentionTask& task_;
  const AttentionPointers& pointers_;
  std::int64_t score_stride_;
  std::int64_t sum_stride_;
  std::int64_t depth_ = task_.width;       ///< elements of packed queries and keys
  std::int64_t value_depth_ = task_.keys;  ///< elements of packed values
  bool bytes_ = false;                     ///< queries and keys are multiplied as bytes
  bool words_ = false;                     ///< shares and values are multiplied as words
  float* keys_ = nullptr;
  float* values_ = nullptr;
  float* scores_ = nullptr;
  float* sums_ = nullptr;
  float* queries_ = nullptr;
  const AttentionHead* packed_ = nullptr;
};

}  // namespace

void attention(const AttentionTask& task, const AttentionPointers& pointers, std::int64_t begin,
               std::int64_t end);
void attention(const AttentionTask& task, const AttentionPointers& pointers, std::int64_t begin,
               std::int64_t end) {
  Blocks(task, pointers).run(begin, end);
}

}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
