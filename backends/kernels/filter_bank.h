#pragma once

#include <string>
#include <vector>

#include "backends/kernels/target.h"
#include "ir/model.h"

namespace tsq::kernels {

/// Whether windows of the signal hold each of its values so often only that a linear layer over copies of
/// them is as fast as a convolution.
bool has_few_copies(const Target& target, const ir::Weighted& filters);

/// Whether an operator is a float convolution that slides filters over one channel of one dimension, as an
/// STFT is spelt, and that is fast in float or has to be: the engine has no kernel for it that returns float.
bool slides_over_one_channel(const Target& target, const ir::Model& model, const ir::Node* node);

/// Such a convolution that does not pad its input, with filters that the model does not change.
struct FilterBank {
  ir::Node* node{};
  ir::Weighted filters{};  ///< the weight is [filters, 1, length]
  std::string path{};      ///< of the module that it is, or is called in
};

std::vector<FilterBank> filter_banks(ir::Model& model);

/// What a node squares, however spelt; null for other nodes.
ir::Value* squared_value(const ir::Node* node);

}  // namespace tsq::kernels
