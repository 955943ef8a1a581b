#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <tsq/backend_config.h>
#include <tsq/decision.h>
#include <tsq/fused_program.h>
#include <tsq/observer.h>
#include <tsq/pattern.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/unmatched.h>

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
#include "ir/placement.h"
#include "ir/user_slots.h"

namespace tsq::ir {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// A module of the user's model: the path and class that a node came from.
struct Scope {
  std::string path{};
  Symbol type{};
  bool is_opened{false};  ///< a module of torch.nn that FX would not look into
};

/// What each channel of a layer's input was over the calibration data; undefined: not observed.
struct ChannelStatistics {
  int64_t axis{-1};  ///< of the channels, counted from the last dimension
  at::Tensor mean{};
  at::Tensor mean_square{};
  at::Tensor min{};
  at::Tensor max{};
  at::Tensor sizes{};  ///< the largest of each dimension, of the tensors with the most dimensions
};

/// Zero padding before a convolution that its kernel is to do.
struct PaddingFold {
  std::vector<int64_t> before{};  ///< of the input, the convolution's own padding included
  std::vector<int64_t> after{};
  std::vector<int64_t> padding{};  ///< of the convolution then
  std::vector<int64_t> kernel{};   ///< its sizes then
  std::vector<int64_t> offset{};   ///< where in it the old taps begin
  bool may_have_too_many_outputs{false};
};

/// What round_weights has chosen for a layer: a reference's file has it in the place of the products of its
/// inputs, which are larger.
struct LearnedRounding {
  at::Tensor codes{};   ///< of bytes, [groups, rows, columns]
  at::Tensor excess{};  ///< [rows], by which the codes' errors raise the layer's outputs
};

/// The parameters of a convolution, transposed convolution or linear layer, out of the module that held them.
struct Weighted {
  at::Tensor weight{};
  at::Tensor bias{};  ///< undefined: none
  std::vector<int64_t> stride{};
  std::vector<int64_t> padding{};
  std::vector<int64_t> output_padding{};
  std::vector<int64_t> dilation{};
  int64_t groups{1};
  std::string padding_mode{
      "zeros"};                ///< "zeros" and "constant" pad inside the kernel, others by F.pad before it
  std::string padding_name{};  ///< "same" or "valid" where padding was given as a word
  std::optional<QParams> weight_qparams{};  ///< set when it has become a reference module
  std::optional<PaddingFold> fold{};        ///< set by place_padding, done by fold_padding
  ChannelStatistics input{};
  ChannelStatistics output{};   ///< of a convolution that float operators read
  at::Tensor input_products{};  ///< mean of [x 1] [x 1]ᵀ over what a row of the weight meets: [groups,
                                ///< columns + 1, columns + 1]; undefined: not observed
  int64_t group_size{0};  ///< columns with a scale of their own: scale and zero point are [rows, groups]
  /// Out of a frozen file, which does not say of a weight that it is a parameter. LibTorch chooses the
  /// algorithm of a linear layer by that: during calibration it is one, as in the file before freezing.
  bool was_frozen{false};
  /// The tensor of the user's file that the weight was made of: calls with the same one are of one layer.
  /// Undefined: the weight itself.
  at::Tensor origin{};
};

/// The tensor of the user's file that a weight was made of.
inline const at::Tensor& origin_of(const Weighted& weighted) {
  return weighted.origin.defined() ? weighted.origin : weighted.weight;
}

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

/// What a calibrated observer has found.
struct ObserverResult {
  bool saw_data{true};
  std::optional<QParams> qparams{};  ///< none for observers without (placeholders)
  bool saw_other_dtype{false};       ///< a tensor that is not float32, and so cannot be quantized
};

/// An observer put into the graph. Several nodes may name one entry (shared observers).
struct ObserverEntry {
  std::string name{};  ///< attribute of the prepared module, "activation_post_process_3"
  ObserverSpec spec{};
  std::string layer{};                         ///< module path of what it observes, for messages
  std::optional<torch::jit::Module> module{};  ///< the observer itself, made at the end of prepare
  std::optional<ObserverResult> result{};      ///< what it has found, once find_qparams has asked it
};

/// What the flow knows of a node, beside the graph. match makes it, for every operator; match, observe and
/// place write it, what follows carries it out, the report prints it. A node that was made later, or that
/// prepare never saw, has none.
struct NodeRecord {
  QConfigDecision lookup{};            ///< the QConfig, and where it came from
  std::optional<std::size_t> match{};  ///< index into Model::matches, between match and observe
  bool observed{false};                ///< its pattern was observed (observed_node_names)
  bool is_root{false};                 ///< what its pattern reads is observed in front of it
  Placement placement{Placement::Undecided};
  Reason reason{Reason::None};  ///< why it is not Int8
  bool is_reported{false};      ///< it has an entry in the report
  Decision decision{};          ///< that entry
  /// Decision::node of the other operators, where its row's pattern has several.
  std::vector<std::string> partners{};
};

/// How nodes were matched.
struct Match {
  const BackendPatternConfig* row{};
  Node* root{};                 ///< the operator that gets the input observers
  Node* last{};                 ///< the operator whose output is observed
  std::vector<Node*> nodes{};   ///< all of them, last first
  bool shares_observer{false};  ///< output shares the input's observer (A-23 applied)
};

/// A method of the user's model other than forward. It stays in float, everything inlined, and works on the
/// same attributes.
struct Method {
  std::string name{};
  std::shared_ptr<Graph> graph{};  ///< input 0 is self
  c10::FunctionSchema schema{"", "", {}, {}};
};

/// What an attribute of packed params was packed of.
struct PackedWeight {
  std::string prepack{};
  Weighted weighted{};
  /// The quantized weight, which other packed params were made of as well; undefined: none were.
  at::Tensor quantized{};
};

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

extern const c10::Symbol kModuleKind;
extern const c10::Symbol kObserverKind;

[[nodiscard]] bool is_module_call(const Node* node);
[[nodiscard]] bool is_observer(const Node* node);
/// Whether a node calls a standalone module.
[[nodiscard]] bool is_standalone(const Model& model, const Node* node);
/// Whether a call is whole whatever its class is: of a standalone module, or of one that becomes an observed
/// module.
[[nodiscard]] inline bool is_opaque(const ModuleCall& call) {
  return call.standalone.has_value() || call.custom != CustomState::None;
}
[[nodiscard]] bool is_opaque(const Model& model, const Node* node);
/// The layer that a fused call begins with, which has its weight; of another call the call itself.
[[nodiscard]] inline const ModuleCall& root_of(const ModuleCall& call) {
  return call.members.empty() ? call : call.members.front();
}
[[nodiscard]] inline ModuleCall& root_of(ModuleCall& call) {
  return call.members.empty() ? call : call.members.front();
}
[[nodiscard]] bool is_batch_norm(const ModuleCall& call);
[[nodiscard]] bool is_batch_norm(const Model& model, const Node* node);
/// The module path of a call; of another node that of the module that it came from.
[[nodiscard]] const std::string& layer_of(const Model& model, const Node* node);
[[nodiscard]] ModuleCall& call_of(Model& model, const Node* node);
[[nodiscard]] const ModuleCall& call_of(const Model& model, const Node* node);

void set_call(Node* node, std::size_t index);

[[nodiscard]] std::size_t observer_index(const Node* node);
void set_observer_index(Node* node, std::size_t index);
[[nodiscard]] ObserverEntry& observer_of(Model& model, const Node* node);
[[nodiscard]] const ObserverEntry& observer_of(const Model& model, const Node* node);

/// The scope that a node came from; the model's root where it is not known.
[[nodiscard]] const Scope& scope_of(const Model& model, const Node* node);
void set_scope(Node* node, std::size_t index);
[[nodiscard]] std::optional<std::size_t> scope_index(const Node* node);
/// Copies scope and place from one node to another.
void take_scope(Node* to, const Node* from);

/// Null where there is none.
[[nodiscard]] NodeRecord* record_of(Model& model, const Node* node);
[[nodiscard]] const NodeRecord* record_of(const Model& model, const Node* node);
/// Makes it where there is none.
NodeRecord& record_for(Model& model, Node* node);
/// Two nodes have one record from here on.
void take_record(Node* to, const Node* from);
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
