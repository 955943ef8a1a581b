#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
#include <tsq/symbol.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ir/embedding_table.h"
#include "ir/graph.h"
#include "ir/scope.h"
#include "ir/weighted.h"

namespace tsq::ir {

/// What a standalone module takes and returns: its own prepare decides what happens inside (E-02). So does a
/// quantized module of the user's class.
struct StandaloneBoundary {
  std::vector<int> input_quantized_indexes{};
  bool output_is_quantized{false};
};

/// How far a module has come of a class that PrepareCustomConfig maps to an observed one (E-08).
enum class CustomState { None, Float, Observed, Quantized };

/// A call of a leaf module: one node of the graph, whatever the module does inside.
struct ModuleCall {
  Symbol type{};
  std::string path{};
  std::optional<torch::jit::Module>
      module{};                   ///< the leaf itself; absent for weighted, fused and synthesized ones
  std::string method{"forward"};  ///< "forward__0" … where the class overloads it (LSTM, GRU)
  std::optional<Weighted> weighted{};
  std::optional<EmbeddingTable> embedding{};  ///< of Embedding and EmbeddingBag, where it can be told
  std::vector<QParams> recurrent_qparams{};   ///< of a recurrent module's weights, when it has become a
                                              ///< reference module (torchscript::recurrent_weights)
  std::size_t float_recurrent_weights{0};  ///< the first so many of a recurrent module's weights stay float
  std::optional<StandaloneBoundary> standalone{};
  CustomState custom{CustomState::None};
  std::vector<c10::IValue>
      constants{};                    ///< of a function that became a module: its arguments after the first
  std::vector<ModuleCall> members{};  ///< of a fused module, in data-flow order; the first is its root
  std::vector<Scope> parts{};    ///< what was fused into it, itself and folded ones included; data-flow order
  bool has_unknown_rank{false};  ///< a batch norm of a frozen trace: its class is a guess
  bool addend_may_broadcast{
      false};  ///< nothing says that the second input has the shape of the root's output
};

/// The weighted operator of a call: its own, or its first member's; null where there is none.
Weighted* weighted_of(ModuleCall& call);
const Weighted* weighted_of(const ModuleCall& call);

/// Whether a call is whole whatever its class is: of a standalone module, or of one that becomes an observed
/// module.
[[nodiscard]] inline bool is_opaque(const ModuleCall& call) {
  return call.standalone.has_value() || call.custom != CustomState::None;
}

/// The layer that a fused call begins with, which has its weight; of another call the call itself.
[[nodiscard]] inline const ModuleCall& root_of(const ModuleCall& call) {
  return call.members.empty() ? call : call.members.front();
}
[[nodiscard]] inline ModuleCall& root_of(ModuleCall& call) {
  return call.members.empty() ? call : call.members.front();
}

[[nodiscard]] bool is_batch_norm(const ModuleCall& call);

/// `prim::tsq_module`: the kind of a node that calls a leaf module.
extern const c10::Symbol kModuleKind;

[[nodiscard]] bool is_module_call(const Node* node);
/// Which of the model's calls a node is.
[[nodiscard]] std::size_t call_index(const Node* node);
void set_call(Node* node, std::size_t index);

}  // namespace tsq::ir
