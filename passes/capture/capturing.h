#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/custom_config.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/model.h"

namespace tsq::passes {

using ObjectPointer = const c10::ivalue::Object*;

/// The user's model and what is known of it before capture begins.
struct CaptureSource {
  torch::jit::Module module{};
  PrepareCustomConfig custom{};
  bool looks_into_layers{false};              ///< into modules of torch.nn that are made of layers
  bool trains{false};                         ///< the graph is for training, or it is for evaluation
  bool opens_operators{false};                ///< fused ones of attention
  bool opens_methods{false};                  ///< Model::opens_methods
  std::unordered_set<std::string> written{};  ///< attributes that some method assigns: state, no constants
  std::unordered_map<ObjectPointer, std::string> paths{};  ///< of the modules
};

/// What capture knows while it makes the flat graph.
struct Capturing {
  const CaptureSource& source;
  /// Modules that stay modules, because they are chosen when the model runs.
  std::unordered_set<ObjectPointer> kept{};
  ir::Model model{};                                            ///< what has been captured
  std::unordered_map<ir::Value*, torch::jit::Module> owners{};  ///< the modules that values are
  /// Attributes of the flat module, by the module that has them and their name there.
  std::unordered_map<ObjectPointer, std::unordered_map<std::string, std::string>> slots{};
  /// Leaf modules as they are called, by the user's: the calls of one module share its state.
  std::unordered_map<const void*, torch::jit::Module> leaves{};
  std::unordered_map<std::string, torch::jit::Module> slot_owners{};  ///< the modules that have them
  std::unordered_map<std::string, std::size_t> scopes{};              ///< indexes of Model::scopes, by path
  std::unordered_set<std::string> called_methods{};  ///< of the model itself, by what was captured
  /// Of samples that a trace nests: which positions to leave out.
  std::unordered_map<const ir::Value*, ir::Value*> left_out{};
  std::vector<ir::Node*> aliases{};  ///< that stand for nested tensors while a graph is walked
  bool in_other_method{false};       ///< a method beside forward is captured now
  bool in_opened_layer{false};       ///< code of a module that FX would not look into
  bool keeps_forks{false};
};

/// The state at the beginning, `kept` being known.
Capturing begin_capturing(const CaptureSource& source, std::unordered_set<ObjectPointer> kept);

/// Methods that stay in float have no calls of leaf modules: all is inlined.
[[nodiscard]] bool looks_into_leaves(const Capturing& state);

[[nodiscard]] Symbol class_symbol(const torch::jit::Module& module);
/// The path of a module in the user's model; empty for the model itself and where it is not known.
[[nodiscard]] std::string path_of(const CaptureSource& source, const torch::jit::Module& module);
[[nodiscard]] bool is_root(const CaptureSource& source, const torch::jit::Module& module);

/// The nodes of all methods of a module and of those in it.
[[nodiscard]] std::vector<ir::Node*> nodes_of_methods(const torch::jit::Module& module);

/// The index of a module's scope.
std::size_t scope_for(Capturing& state, const torch::jit::Module& module);

}  // namespace tsq::passes
