#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/decision.h>
#include <tsq/fused_program.h>
#include <tsq/plan.h>
#include <tsq/qconfig.h>
#include <tsq/unmatched.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/attributes.h"
#include "ir/facts.h"
#include "ir/graph.h"
#include "ir/learned_rounding.h"
#include "ir/match.h"
#include "ir/method.h"
#include "ir/module_call.h"
#include "ir/node_record.h"
#include "ir/observer_entry.h"
#include "ir/packed_weight.h"
#include "ir/placement.h"
#include "ir/scope.h"
#include "ir/user_slots.h"

namespace tsq::ir {

/// FX's view of a TorchScript graph, flat: every module call is inlined except calls of leaf modules, which
/// are single nodes. Beside the operators of TorchScript the graph holds two kinds of node of our own, which
/// emit() turns into executable code: `prim::tsq_module` (call_module; see call_of) and `prim::tsq_observer`.
struct Model {
  std::shared_ptr<Graph> graph{};  ///< input 0 is self; its GetAttr nodes name slots of `attributes`
  Attributes attributes{};
  std::vector<Scope> scopes{};
  std::vector<ModuleCall> calls{};
  std::vector<ObserverEntry> observers{};
  std::vector<NodeRecord> records{};
  std::vector<std::size_t> report_order{};            ///< indexes of the reported records
  std::vector<Match> matches{};                       ///< from match to observe
  c10::FunctionSchema schema{"forward", "", {}, {}};  ///< of the user's forward
  std::vector<Method> methods{};
  UserSlots slots{};                        ///< where attributes of the user's were, by their name here
  std::unordered_set<std::string> state{};  ///< attributes that may change in a run: buffers, lists, objects
  /// Whether a row of a table holds for every spelling of an operator, as recipe best wants it, and not for
  /// the one alone that the file's debug information tells, as FX does.
  bool any_spelling{false};
  std::unordered_set<std::string> taken_names{};  ///< of the user's attributes and methods: for nothing else
  std::unordered_map<std::string, int> first_free_numbers{};  ///< by name: unique_attribute_name's memory

  std::optional<PlanPrediction> prediction{};  ///< Plan::prediction, of a draft

  Facts facts{};  ///< what calibration has seen of values (facts_of)

  // What passes have found out about the whole.
  bool opens_methods{false};                            ///< methods beside forward are captured as forward is
  bool is_quantized{false};                             ///< the mapping gives some operator a QConfig
  std::vector<std::string> unobserved_layers{};         ///< Report::unobserved_layers
  std::vector<UnmatchedEntry> unmatched_entries{};      ///< Report::unmatched_entries
  std::vector<UnmatchedLowering> unmatched_lowering{};  ///< Report::unmatched_lowering
  std::set<std::string> python_files{};                 ///< Report::python_files
  std::vector<FusedProgram> programs{};                 ///< Report::programs
  std::map<std::size_t, LearnedRounding> learned_rounding{};  ///< by index in `calls`
  bool rounding_is_known{false};  ///< `learned_rounding` came with the model: nothing further is learned
  std::map<std::string, at::Tensor> mean_errors{};    ///< by which biases are corrected, by Decision::node
  std::map<std::string, at::Tensor> input_factors{};  ///< of depthwise layers' channels, by Decision::node
  std::shared_ptr<const Model> before_rounding{};     ///< the observed graph with the same ranges and weights
  std::map<std::string, PackedWeight> packed_weights{};  ///< by attribute
  std::map<std::string, std::string> packed_names{};     ///< attributes, by all that decides what they hold
  std::map<std::string, QConfig> trained_qconfigs{};     ///< of the layers that fake-quantize, by path
  std::map<std::string, torch::jit::Module> weight_fake_quants{};  ///< their observers

  /// A deep copy of the graph that shares tensors.
  [[nodiscard]] Model copy() const;
};

/// The type of `self` in a graph whose attributes no class has yet.
[[nodiscard]] c10::TypePtr self_type();

/// Whether a node calls a standalone module.
[[nodiscard]] bool is_standalone(const Model& model, const Node* node);
/// The same of the call that a node is; false of another node.
[[nodiscard]] bool is_opaque(const Model& model, const Node* node);
[[nodiscard]] bool is_batch_norm(const Model& model, const Node* node);
/// The module path of a call; of another node that of the module that it came from.
[[nodiscard]] const std::string& layer_of(const Model& model, const Node* node);
[[nodiscard]] ModuleCall& call_of(Model& model, const Node* node);
[[nodiscard]] const ModuleCall& call_of(const Model& model, const Node* node);

/// The observer that a node is.
[[nodiscard]] ObserverEntry& observer_of(Model& model, const Node* node);
[[nodiscard]] const ObserverEntry& observer_of(const Model& model, const Node* node);

/// The scope that a node came from; the model's root where it is not known.
[[nodiscard]] const Scope& scope_of(const Model& model, const Node* node);

/// Null where there is none.
[[nodiscard]] NodeRecord* record_of(Model& model, const Node* node);
[[nodiscard]] const NodeRecord* record_of(const Model& model, const Node* node);
/// Makes it where there is none.
NodeRecord& record_for(Model& model, Node* node);
/// The entry of the report for a node; null where it has none.
[[nodiscard]] Decision* decision_of(Model& model, const Node* node);
[[nodiscard]] const Decision* decision_of(const Model& model, const Node* node);

/// The QConfig by which prepare observed a node; null where it did not.
[[nodiscard]] const QConfig* observed_qconfig(const Model& model, const Node* node);
[[nodiscard]] Placement placement_of(const Model& model, const Node* node);
/// Whether a node must not become a kernel: it is placed as Reference or Written.
[[nodiscard]] bool stays_float(const Model& model, const Node* node);
/// Leaves an operator out of int8: the record says where and why. Its entry of the report, where it said
/// "quantized" until now, is given the sentence (explanation_of).
void leave_float(Model& model, Node* node, Placement placement, Reason reason, std::string_view detail = {});

}  // namespace tsq::ir
