#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/embedding_table.h"
#include "ir/graph.h"
#include "operators/known_dtypes.h"
#include "torchscript/modules/embedding.h"

namespace tsq::programs {

/// A weight in the forms in which programs hold it.
struct WeightForms {
  at::Tensor scale{};     ///< by which it was rounded
  bool transposed{};      ///< of a transposed convolution: its output channels are its second dimension
  at::Tensor codes{};     ///< int8; undefined: nobody has asked for them yet
  at::Tensor scales{};    ///< of the codes: one, or one for each output channel
  bool is_bounded{};      ///< no two products of an output channel leave 16 bits, whichever are added
  at::Tensor in_float{};  ///< rounded; undefined: nobody has asked for it yet
};

/// The rows of a table as programs hold them.
struct TableForms {
  ir::EmbeddingTable table{};
  torchscript::RowCodes rows{};
};

/// What translating finds out and would find out again: a node is translated to see whether programs have it,
/// and once more to write it; several calls may have one weight, which a file then holds once.
struct TranslationCache {
  std::unordered_map<const ir::Node*, std::shared_ptr<ir::Graph>> expansions{};  ///< of calls
  std::vector<TableForms> tables{};
  std::unordered_map<const void*, std::vector<WeightForms>> weights{};  ///< by memory, which the model keeps
  std::unordered_set<std::string>
      written{};  ///< attributes that the model changes: their tensors are no constants
  std::optional<operators::KnownDtypes> dtypes{};  ///< none: nobody has asked yet
};

}  // namespace tsq::programs
