#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

/// What a graph says of an output whose numbers may be scores: what makes them, and what reads them.
namespace tsq::operators {

enum class ScoreMaker : std::uint8_t {
  Unknown,
  Layer,    ///< a layer, whose numbers nothing but moves
  Softmax,  ///< not one that weighs the values of attention
  LogSoftmax,
  Sigmoid,
  Compared,   ///< whatever makes them: an argmax, a topk or a softmax reads them
  Attention,  ///< a softmax that is multiplied with values
  Labels,     ///< an argmax or the like, or a comparison: what was decided
};

struct ScoreFact {
  ScoreMaker maker{ScoreMaker::Unknown};
  std::optional<int64_t> dim{};      ///< of the output: along it classes are numbered
  std::optional<int64_t> classes{};  ///< their number, where the layer's weight tells
};

/// The outputs of a module's forward.
class ScoreGraph {
 public:
  explicit ScoreGraph(const torch::jit::Module& model);

  /// Of the output at a place of the result, as tsq::tensors_of names it, which has `rank` dimensions.
  [[nodiscard]] ScoreFact of(const std::string& place, int64_t rank) const;

 private:
  torch::jit::Module model_;
  std::shared_ptr<ir::Graph> graph_;
  std::vector<std::pair<std::string, const ir::Value*>> outputs_{};
};

}  // namespace tsq::operators
