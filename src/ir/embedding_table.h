#pragma once

#include <ATen/core/Tensor.h>
#include <tsq/observer.h>

#include <cstdint>
#include <optional>

namespace tsq::ir {

/// The table of an embedding and how its rows are looked up.
struct EmbeddingTable {
  enum class Mode { Sum, Mean, Max };  ///< in the order of aten::embedding_bag's numbers

  at::Tensor weight{};  ///< [rows, columns]
  bool is_bag{false};
  Mode mode{Mode::Mean};
  bool include_last_offset{false};
  std::optional<int64_t> padding_idx{};     ///< of a bag: this row does not count
  std::optional<QParams> weight_qparams{};  ///< set when it has become a reference module
};

}  // namespace tsq::ir
