#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/attributes.h"
#include "ir/user_slots.h"

namespace tsq::torchscript {

/// A module whose attributes hang under modules at the user's paths. These have a class of tsq's own.
///   self.layer1_0_fc_weight   →   self.layer1.0.fc.weight
class UserLayout {
 public:
  explicit UserLayout(torch::jit::Module root) : root_(std::move(root)) {}

  /// Hangs the attribute of a flat module at its place, or on the root where that is taken.
  void hang(ir::Attribute flat, const std::optional<ir::UserSlot>& place);
  /// Hangs a module at a path, at a similar one where that is taken; returns where.
  std::string hang_module(const std::string& path, const torch::jit::Module& module);
  /// Makes a graph that reads and writes attributes of the flat module do so where they hang now.
  void rewrite(torch::jit::Graph& graph);
  /// The module at a path, read once: whatever LibTorch does with a read, it looks at all that is in the
  /// module. The reads are put into the graph by insert_reads.
  torch::jit::Value* module_value(torch::jit::Graph& graph, const std::string& path);
  /// Puts the reads of modules in front of all else in a graph.
  void insert_reads(torch::jit::Graph& graph);

 private:
  std::optional<torch::jit::Module> module_at(const std::string& path);
  std::unordered_set<std::string>& names_in(const torch::jit::Module& module);
  std::string add(torch::jit::Module& owner, ir::Attribute attribute);

  torch::jit::Module root_;
  std::unordered_map<const void*, std::unordered_set<std::string>> names_{};  ///< taken, by module
  std::map<std::string, torch::jit::Module> modules_{};                       ///< by path
  ir::UserSlots places_{};                                                    ///< by the flat name
  std::map<std::pair<const torch::jit::Graph*, std::string>, torch::jit::Value*> values_{};  ///< of modules
  std::map<const torch::jit::Graph*, std::vector<torch::jit::Node*>> reads_{};               ///< owners first
};

/// Whether a module only holds others and attributes at the user's paths.
[[nodiscard]] bool is_layout_module(const torch::jit::Module& module);

/// A path as the module that it ends in sees it: all but the last name, and that. "layer1.0" → "layer1", "0".
[[nodiscard]] ir::UserSlot slot_at(const std::string& path);

}  // namespace tsq::torchscript
