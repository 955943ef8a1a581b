#pragma once

#include <unordered_map>
#include <vector>

#include "backends/programs/translation_cache.h"
#include "ir/model.h"

namespace tsq::passes {

/// The nodes of one block that a fused program may compute together: no path from one of them to another
/// leaves them. Graph order.
using Region = std::vector<ir::Node*>;

/// The nodes of a stretch of a block, none of which writes into memory or acts on the world, and the regions
/// among them. A node of no region stays as it is.
struct Stretch {
  std::vector<ir::Node*> nodes{};
  ir::Node* end{};  ///< the node after them, or the block's return
  std::vector<Region> regions{};
  std::unordered_map<const ir::Node*, std::size_t> region_of{};
};

/// The stretches of a block with regions in them. Nodes that compute shapes inside of a region and are read
/// outside of it too are doubled.
std::vector<Stretch> stretches_of(ir::Model& model, ir::Block* block, programs::TranslationCache& cache);

/// What a node reads, the nodes of its blocks included.
std::vector<ir::Value*> read_by(ir::Node* node);

/// Whether a node is nothing by itself: a constant, an attribute, a list or a tuple made for its readers.
[[nodiscard]] bool is_glue(const ir::Node* node);

}  // namespace tsq::passes
