#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <tsq/observer.h>
#include <tsq/pattern.h>
#include <tsq/qconfig_mapping.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

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
};

/// What each channel of a layer's input was over the calibration data; undefined: not observed.
struct ChannelStatistics {
  at::Tensor mean{};
  at::Tensor mean_square{};
  at::Tensor min{};
  at::Tensor max{};
  at::Tensor sizes{};  ///< of the last tensor that was seen
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
  ChannelStatistics input{};
  ChannelStatistics output{};   ///< of a convolution that float operators read
  at::Tensor input_products{};  ///< mean of [x 1] [x 1]ᵀ over what a row of the weight meets: [groups,
                                ///< columns + 1, columns + 1]; undefined: not observed
  int64_t group_size{0};  ///< columns with a scale of their own: scale and zero point are [rows, groups]
  /// Out of a frozen file, which does not say of a weight that it is a parameter. LibTorch chooses the
  /// algorithm of a linear layer by that: during calibration it is one, as in the file before freezing.
  bool was_frozen{false};
};

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

/// What a standalone module takes and returns: its own prepare decides what happens inside (E-02).
struct StandaloneBoundary {
  std::vector<int> input_quantized_indexes{};
  bool output_is_quantized{false};
};

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
  std::optional<StandaloneBoundary> standalone{};
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

/// An observer put into the graph. Several nodes may name one entry (shared observers).
struct ObserverEntry {
  std::string name{};  ///< attribute of the prepared module, "activation_post_process_3"
  ObserverSpec spec{};
  std::string layer{};  ///< module path of what it observes, for messages
};

/// The QConfig under which a node was matched, and whether its pattern was observed (observed_node_names).
/// Set by observe, read by convert and lower.
struct NodeState {
  bool observed{false};
  std::optional<QConfig> qconfig{};
  bool keeps_reference{false};  ///< lowering leaves it in float between dequantize and quantize
};

/// A method of the user's model other than forward. It stays in float, everything inlined, and works on the
/// same attributes.
struct Method {
  std::string name{};
  std::shared_ptr<Graph> graph{};  ///< input 0 is self
  c10::FunctionSchema schema{"", "", {}, {}};
};

/// FX's view of a TorchScript graph, flat: every module call is inlined except calls of leaf modules, which
/// are single nodes. Beside the operators of TorchScript the graph holds two kinds of node of our own, which
/// emit() turns into executable code: `prim::tsq_module` (call_module; see call_of) and `prim::tsq_observer`.
struct GraphModule {
  std::shared_ptr<Graph> graph{};  ///< input 0 is self; its GetAttr nodes name slots of `attributes`
  torch::jit::Module attributes{"__torch__.tsq.Attributes"};
  std::vector<Scope> scopes{};
  std::vector<ModuleCall> calls{};
  std::vector<ObserverEntry> observers{};
  std::vector<NodeState> states{};
  c10::FunctionSchema schema{"forward", "", {}, {}};  ///< of the user's forward
  std::vector<Method> methods{};
  UserSlots slots{};                        ///< where attributes of the user's were, by their name here
  std::unordered_set<std::string> state{};  ///< attributes that may change in a run: buffers, lists, objects
  /// Whether a row of a table holds for every spelling of an operator, as recipe best wants it, and not for
  /// the one alone that the file's debug information tells, as FX does.
  bool any_spelling{false};
  std::unordered_set<std::string> taken_names{};  ///< of the user's attributes and methods: for nothing else

  /// A deep copy of the graph that shares tensors.
  [[nodiscard]] GraphModule copy() const;
};

extern const c10::Symbol kModuleKind;
extern const c10::Symbol kObserverKind;

/// Every node of every block, a node before the blocks that it holds.
std::vector<Node*> nodes_in_order(Graph& graph);

[[nodiscard]] bool is_module_call(const Node* node);
[[nodiscard]] bool is_observer(const Node* node);
/// Whether a node calls a standalone module.
[[nodiscard]] bool is_standalone(const GraphModule& gm, const Node* node);
[[nodiscard]] ModuleCall& call_of(GraphModule& gm, const Node* node);
[[nodiscard]] const ModuleCall& call_of(const GraphModule& gm, const Node* node);
[[nodiscard]] std::size_t observer_index(const Node* node);
void set_observer_index(Node* node, std::size_t index);
/// The scope that a node came from; the model's root where it is not known.
[[nodiscard]] const Scope& scope_of(const GraphModule& gm, const Node* node);
void set_scope(Node* node, std::size_t index);
[[nodiscard]] std::optional<std::size_t> scope_index(const Node* node);
void set_state(GraphModule& gm, Node* node, NodeState state);
/// A node that prepare never saw (made later) has no state.
[[nodiscard]] const NodeState* state_of(const GraphModule& gm, const Node* node);
/// The QConfig by which prepare observed a node; null where it did not.
[[nodiscard]] const QConfig* observed_qconfig(const GraphModule& gm, const Node* node);
/// Whether a node must not become a kernel.
[[nodiscard]] bool keeps_reference(const GraphModule& gm, const Node* node);
/// The node that alone reads the only output of another; null where there is none.
[[nodiscard]] Node* only_reader(const Node* node);
/// Copies the scope from one node to another.
void take_scope(Node* to, const Node* from);

/// An operator that stays in float where it is: it writes into memory that others see, or is a view of such
/// memory (keep_writes), or its values have a range of their own (average_in_float).
void set_stays_float(Node* node);
[[nodiscard]] bool stays_float(const Node* node);

/// A new `prim::tsq_module` node, not yet inserted.
Node* create_module_call(GraphModule& gm, ModuleCall call, c10::ArrayRef<Value*> inputs, std::size_t scope);
/// A new `prim::tsq_observer` node of `input`, inserted right after the value's definition.
Node* insert_observer(GraphModule& gm, Value* input, std::size_t observer);

/// Whether a value may hold a tensor (a tensor, or a container of tensors).
[[nodiscard]] bool holds_tensor(const Value* value);
[[nodiscard]] bool is_constant(const Value* value);
/// The values a node reads, seen as FX's args: self and functions left out, lists and tuples made in place
/// opened.
[[nodiscard]] std::vector<Value*> operands(const Node* node);
/// A list or tuple whose elements are those that it was made with.
[[nodiscard]] bool is_container_construct(const Node* node);
/// A branch that ends in an exception or an early return has no value.
[[nodiscard]] bool is_no_value(const Value* value);
/// An element of FX's args: a value, or the elements of a list or tuple that is made for this use.
struct Argument {
  Value* value{};                  ///< the value itself (the list, when `elements` is set)
  std::vector<Value*> elements{};  ///< of a ListConstruct or TupleConstruct
  bool is_list{false};
};
[[nodiscard]] std::vector<Argument> arguments(const Node* node);

/// Replaces `from` by `to` among the inputs of `node`, also inside a list or tuple made for it.
void replace_operand(Node* node, Value* from, Value* to);
/// All nodes that use a value, lists and tuples looked through; block returns appear as the Return node.
std::vector<Node*> users(const Value* value);

/// PyTorch's spellings of a node, the likeliest first: one for a module or a torch.nn.functional function,
/// several where TorchScript merges functions, methods and operators, all of them with `any_spelling`. Empty
/// for nodes of no interest (constants, lists …).
[[nodiscard]] std::vector<Symbol> targets(const GraphModule& gm, const Node* node);
/// The name for messages: "torch.nn.Conv2d", "torch.add", "aten::foo".
[[nodiscard]] std::string display_name(const GraphModule& gm, const Node* node);

/// A GetAttr of a new attribute of the graph module, inserted at the graph's insertion point. The name is
/// made unique.
Value* insert_attribute(GraphModule& gm, const std::string& name, const c10::IValue& value,
                        const c10::TypePtr& type);
/// A number as a constant, or as an attribute where TorchScript would not write it as a float (whole numbers
/// from 1e10 lose their point).
Value* insert_double(GraphModule& gm, const std::string& name, double value);
/// A name that neither `attributes` nor the user has: path with dots as underscores, numbered when taken.
std::string unique_attribute_name(const GraphModule& gm, std::string_view path);

/// The slots of `attributes` that the graph writes, by SetAttr or by an operator that writes into its
/// argument: state, not parameters.
std::unordered_set<std::string> written_attributes(const GraphModule& gm);

/// Removes nodes without effect whose outputs nobody uses.
void eliminate_dead_code(Graph& graph);

}  // namespace tsq::ir
