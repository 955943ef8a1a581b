#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/model.h"

/// Questions of the graph itself.
namespace tsq::ir {

/// Every node of every block, a node before the blocks that it holds.
std::vector<Node*> nodes_in_order(Graph& graph);
/// The node that alone reads the only output of another; null where there is none.
[[nodiscard]] Node* only_reader(const Node* node);
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
/// All nodes that use a value, lists and tuples looked through; block returns appear as the Return node.
std::vector<Node*> users(const Value* value);

/// PyTorch's spellings of a node, the likeliest first: one for a module or a torch.nn.functional function,
/// several where TorchScript merges functions, methods and operators, all of them with `any_spelling`. Empty
/// for nodes of no interest (constants, lists …).
[[nodiscard]] std::vector<Symbol> targets(const Model& model, const Node* node);
/// The name of a function of torch.nn.functional that is called, "relu" or "_max_pool2d"; empty of other
/// functions.
[[nodiscard]] std::string functional_name(const Node* call);
/// The length of the args that FX has of an operator: those that its author wrote by position or, in files
/// that do not tell, those that have to be given. None for modules, and where nothing tells.
[[nodiscard]] std::optional<std::size_t> positional_arguments(const Node* node, const Symbol& spelling);
/// The name for messages: "torch.nn.Conv2d", "torch.add", "aten::foo".
[[nodiscard]] std::string display_name(const Model& model, const Node* node);

/// The running statistics that a norm updates while it trains. Its schema does not say that it writes them.
struct UpdatedStatistics {
  std::vector<std::size_t> inputs{};  ///< their places; empty: the node updates none
  const Value* trains{};              ///< the flag that says whether it does
};
[[nodiscard]] UpdatedStatistics updated_statistics(const Node* node);
/// Whether a node writes into the tensor that it reads at `index`: because its schema says so, or as a norm
/// whose flag of training is not constantly false.
[[nodiscard]] bool writes_input(const Node* node, std::size_t index);
/// The slots of `attributes` that forward or another method writes, by SetAttr or by an operator that writes
/// into its argument: state, not parameters.
std::unordered_set<std::string> written_attributes(const Model& model);

/// Removes nodes without effect whose outputs nobody uses. Returns whether there were any.
bool eliminate_dead_code(Graph& graph);

}  // namespace tsq::ir
