#pragma once

#include <map>
#include <string>

#include "ir/model.h"

namespace tsq::torchscript {

/// What a module that trains is written from.
struct TrainingGraph {
  const ir::Model& gm;              ///< of capture_for_training, with its observers and weight_fake_quants
  const torch::jit::Module& model;  ///< whose parameters it trains
  const std::map<std::string, torch::jit::Module>& standalone;  ///< modules that train, by path
};

/// The executable module that trains: the modules of the user's model at their paths with their parameters,
/// buffers and modes, layers that fake-quantize in place of plain ones, and the graph as forward. Its methods
/// enable_observer, disable_observer, enable_fake_quant, disable_fake_quant, freeze_bn_stats and
/// update_bn_stats switch all of them, where the model has no methods of these names.
torch::jit::Module training_module(const TrainingGraph& source);

/// The module at a path ("layer1.0.conv"), `root` itself where it is empty.
torch::jit::Module submodule_at(const torch::jit::Module& root, const std::string& path);

/// The attribute of such a module that holds an observer of the graph.
std::string observer_attribute(const torch::jit::Module& model, const std::string& observer);

}  // namespace tsq::torchscript
