#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/kernels/kernels.h"

/// softmax(factor q k^T + mask) v, in blocks of queries whose scores stay in the cache.
namespace tsq::runtime {

/// Queries that are computed at once, with all keys.
inline constexpr std::int64_t kAttentionRows = 32;

/// How matrices of one operand are read or written: [rows, columns]. Strides count elements.
struct AttentionOperand {
  Dtype dtype = Dtype::F32;
  int zero_point = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;
};

/// Where the matrices of one head begin, in elements: the output, queries, keys, values and the mask.
using AttentionHead = std::array<std::int64_t, 5>;

struct AttentionTask {
  std::vector<AttentionHead> heads{};
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;        ///< of queries and keys
  std::int64_t value_width = 0;  ///< of values and the output
  AttentionOperand query{};
  AttentionOperand key{};
  AttentionOperand value{};
  AttentionOperand mask{};
  AttentionOperand output{};
  float factor = 1;     ///< multiplies products of the numbers in memory, zero points subtracted
  bool masked = false;  ///< numbers of the mask are added
  bool causal = false;  ///< no query reads the keys after its own place
  Rounding to{};        ///< of averages of the values' numbers in memory, their zero point subtracted

  [[nodiscard]] std::int64_t blocks() const { return (queries + kAttentionRows - 1) / kAttentionRows; }
  [[nodiscard]] std::int64_t units() const { return static_cast<std::int64_t>(heads.size()) * blocks(); }
};

struct AttentionPointers {
  void* out = nullptr;
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  const void* mask = nullptr;
  float* scratch = nullptr;  ///< `attention_scratch` floats for the calling thread, on a boundary of 64 bytes
};

/// Floats that a thread works in.
std::int64_t attention_scratch(const AttentionTask& task);

/// Units: heads times blocks of queries. Those of a head stand together: its keys and values are packed once.
using AttentionKernel = void (*)(const AttentionTask& task, const AttentionPointers& pointers,
                                 std::int64_t begin, std::int64_t end);

/// The best that this processor runs.
AttentionKernel attention_kernel();

}  // namespace tsq::runtime
