// model.pt → flat graph of leaf modules and operators (FX's symbolic trace, from TorchScript).

#include "passes/capture/capture.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/loop_unrolling.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/peephole_dict_idioms.h>
#include <torch/csrc/jit/passes/peephole_list_idioms.h>
#include <torch/csrc/jit/passes/peephole_non_tensor.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "config/known_names.h"
#include "ir/known_containers.h"
#include "ir/methods.h"
#include "ir/origin.h"
#include "operators/weighted.h"
#include "passes/capture/passes.h"
#include "passes/capture/resolve_futures.h"
#include "torchscript/attention_source.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Scope;
using ir::Value;
using torch::jit::Module;
using ObjectPointer = const c10::ivalue::Object*;

/// A copy of a module and its children that shares their tensors: its attributes may be changed without the
/// user's module seeing it.
Module copy_in_eval_mode(const Module& module) {
  Module copy = module.copy();
  for (const auto& child : module.named_children())
    copy.setattr(child.name, copy_in_eval_mode(child.value)._ivalue());
  if (copy.hasattr("training")) copy.setattr("training", false);
  return copy;
}

Symbol class_symbol(const Module& module) {
  const auto name = module.type()->name();
  return parse_symbol(name ? name->qualifiedName() : "");
}

/// C-22: FloatFunctional passes its results to an Identity, which eager mode replaces by an observer. FX does
/// not see it.
bool is_stub_of_eager_mode(const Module& module, const Scope& caller) {
  return caller.type.name.ends_with(".FloatFunctional") && class_symbol(module).name == "torch.nn.Identity";
}

/// C-23: what FX's tracer does not look into.
bool is_leaf(const Module& module, const std::string& path, const PrepareCustomConfig& custom) {
  const Symbol type = class_symbol(module);
  const auto& names = custom.non_traceable_module_names();
  const auto& classes = custom.non_traceable_module_classes();
  if (std::find(names.begin(), names.end(), path) != names.end()) return true;
  if (std::find(classes.begin(), classes.end(), type) != classes.end()) return true;
  if (custom.standalone_module(path, type) != nullptr) return true;
  const bool library = type.name.starts_with("torch.nn.") || type.name.starts_with("torch.ao.nn.");
  return library && type.name != "torch.nn.Sequential" && type.name != "torch.nn.ModuleList" &&
         type.name != "torch.nn.ModuleDict" && type.name != "torch.nn.Module";
}

/// Modules of torch.nn that are made of layers, or compute a layer's weight before they call it.
bool is_made_of_layers(const Module& module, Symbol type) {
  constexpr std::array<std::string_view, 6> kComposites{
      "torch.nn.MultiheadAttention",      "torch.nn.Transformer",
      "torch.nn.TransformerEncoder",      "torch.nn.TransformerDecoder",
      "torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer"};
  const bool computes_weight = operators::is_weighted(type) && !module.hasattr("weight");
  return computes_weight || type.name.starts_with("torch.nn.utils.") ||
         std::ranges::find(kComposites, type.name) != kComposites.end();
}

/// Whether a scripted module says itself what it is made of: the code of tracing has no choices left.
bool has_choices(const Module& module, Symbol type) {
  return type.name == "torch.nn.TransformerEncoder"
             ? module.hasattr("use_nested_tensor")
             : module.hasattr("num_heads") || module.hasattr("norm_first");
}

bool holds_fused_attention(const torch::jit::Block* block) {
  return std::ranges::any_of(block->nodes(), [](const Node* node) {
    const std::string_view kind = node->kind().toQualString();
    return kind == "aten::_transformer_encoder_layer_fwd" || kind == "aten::_native_multi_head_attention" ||
           std::ranges::any_of(node->blocks(), holds_fused_attention);
  });
}

/// The branch of an `if` of torch.nn's attention, opened by freezing, that does without the fused kernel;
/// empty for others.
std::optional<bool> branch_without_fused_attention(const Node* node) {
  if (node->kind() != c10::prim::If || ir::origin_of(node).writer != ir::Origin::Writer::Module)
    return std::nullopt;
  const bool then = holds_fused_attention(node->blocks()[0]);
  return then == holds_fused_attention(node->blocks()[1]) ? std::nullopt : std::optional(!then);
}

bool makes_nested_tensor(const Node* node) {
  return std::string_view(node->kind().toQualString()) == "aten::_nested_tensor_from_mask";
}

/// Whether a model decides when it runs to make nested tensors, which only the fused kernels know.
bool chooses_nested_tensors(const Module& module) {
  for (const Module& each : module.modules()) {
    for (const auto& method : each.get_methods()) {
      const auto graph = torch::jit::toGraphFunction(method.function()).graph();
      for (const Node* node : ir::nodes_in_order(*graph)) {
        if (makes_nested_tensor(node) && node->owningBlock() != graph->block()) return true;
      }
    }
  }
  return false;
}

void collect_written_attributes(torch::jit::Block* block, std::unordered_set<std::string>& names) {
  for (Node* node : block->nodes()) {
    if (node->kind() == c10::prim::SetAttr) names.insert(node->s(c10::attr::name));
    for (auto* inner : node->blocks()) collect_written_attributes(inner, names);
    if (node->kind() == c10::prim::fork)
      collect_written_attributes(node->g(c10::attr::Subgraph)->block(), names);
  }
}

/// Names of attributes that some method of the model assigns: these are state, not constants.
std::unordered_set<std::string> written_attributes(const Module& module) {
  std::unordered_set<std::string> names;
  for (const Module& each : module.modules()) {
    for (const auto& method : each.get_methods()) {
      collect_written_attributes(torch::jit::toGraphFunction(method.function()).graph()->block(), names);
    }
  }
  return names;
}

/// Overloaded forwards (LSTM, GRU) are compiled as forward__0, forward__1; tracing gives a module that is
/// called again a forward1, forward2 …
bool is_forward(const std::string& method) {
  constexpr std::string_view kForward = "forward";
  if (!method.starts_with(kForward)) return false;
  const std::string_view number = std::string_view(method).substr(kForward.size());
  return number.starts_with("__") || number.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_same_tensor(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.is_alias_of(b) && a.storage_offset() == b.storage_offset() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

bool is_immutable_value(const c10::IValue& value) {
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    return std::all_of(elements.begin(), elements.end(), is_immutable_value);
  }
  return value.isNone() || value.isBool() || value.isInt() || value.isDouble() || value.isString();
}

/// E-02. Throws Error(BadConfig) for an output other than the first.
std::optional<ir::StandaloneBoundary> standalone_boundary(const PrepareCustomConfig& custom,
                                                          const std::string& path, Symbol type) {
  const StandaloneModuleConfig* config = custom.standalone_module(path, type);
  if (config == nullptr) return std::nullopt;
  const std::vector<int>& outputs = config->prepare_custom_config.output_quantized_indexes();
  if (!outputs.empty() && outputs.front() != 0) {
    throw Error(ErrorCode::BadConfig,
                "a standalone module has one output, its output_quantized_idxs must be [0]",
                "give [0] for an output that leaves quantized, [] for a float one", Where{.layer = path});
  }
  return ir::StandaloneBoundary{
      .input_quantized_indexes = config->prepare_custom_config.input_quantized_indexes(),
      .output_is_quantized = !outputs.empty()};
}

/// torch.jit.optimize_for_inference puts operators of oneDNN with weights in a layout of its own in place of
/// convolutions.
void check_is_not_optimized(torch::jit::Graph& graph) {
  for (const Node* node : ir::nodes_in_order(graph)) {
    const std::string_view kind = node->kind().toQualString();
    const bool is_onednn = kind.starts_with("prim::mkldnn") || kind.starts_with("prim::MKLDNN") ||
                           kind == "prim::ConstantMKLDNNTensor" || kind == "aten::to_mkldnn";
    if (!is_onednn) continue;
    throw Error(
        ErrorCode::BadModel,
        fmt::format("the model holds {}: it was optimized for inference, and its weights are in a layout "
                    "of oneDNN's own",
                    kind),
        "quantize it before torch.jit.optimize_for_inference; frozen is fine");
  }
}

class Capture {
 public:
  Capture(const Module& model, const PrepareCustomConfig& custom, bool looks_into_composites,
          bool trains = false)
      : model_(model),
        custom_(custom),
        trains_(trains),
        written_(written_attributes(model)),
        looks_into_composites_(looks_into_composites),
        opens_operators_(looks_into_composites && !chooses_nested_tensors(model)),
        opens_methods_(opens_methods(model, custom)) {
    for (const auto& named : model.named_modules())
      paths_.try_emplace(named.value._ivalue().get(), named.name);
  }

  GraphModule run() {
    const auto forward = model_.find_method("forward");
    if (!forward) {
      throw Error(ErrorCode::BadModel, "the model has no method 'forward'",
                  "script or trace a module whose forward is the computation to quantize");
    }
    // Modules that turn out to be chosen when the model runs stay modules: then all is captured anew.
    std::size_t known = 0;
    do {
      known = kept_.size();
      start_anew();
      gm_.schema = forward->function().getSchema();
      gm_.graph = flat_graph(*forward);
      fold_constants();
      make_module_calls();
      capture_other_methods();
      keep_chosen_modules(*gm_.graph);
    } while (kept_.size() > known);
    gm_.graph->inputs().at(0)->setType(gm_.attributes.type());
    return std::move(gm_);
  }

 private:
  void start_anew() {
    gm_ = GraphModule();
    owners_.clear();
    slots_.clear();
    called_methods_.clear();
    gm_.scopes.push_back({"", class_symbol(model_)});
    for (const auto& attribute : model_.named_attributes(/*recurse=*/false)) {
      if (!attribute.value.isModule()) gm_.taken_names.insert(attribute.name);
    }
    for (const auto& method : model_.get_methods()) gm_.taken_names.insert(method.name());
  }

  /// The method with all its calls inlined, except those of leaf modules.
  std::shared_ptr<torch::jit::Graph> flat_graph(const torch::jit::Method& method) {
    inline_method(method);
    // A future that leaves the method's own code keeps the fork that it comes from.
    if (!keeps_forks_ && !resolve_futures(*gm_.graph, method.function().getSchema())) {
      keeps_forks_ = true;
      inline_method(method);
      keeps_forks_ = false;
    }
    drop_module_values();
    return gm_.graph;
  }

  void inline_method(const torch::jit::Method& method) {
    gm_.graph = torch::jit::toGraphFunction(method.function()).graph()->copy();
    check_is_not_optimized(*gm_.graph);
    owners_.clear();
    owners_[gm_.graph->inputs().at(0)] = model_;
    set_places(ir::nodes_in_order(*gm_.graph), places_of("", method.name()));
    walk(gm_.graph->block(), 0);
    drop_aliases();
  }

  /// What users call beside forward. Methods that forward is made of are left out when their names start with
  /// an underscore: nobody is meant to call them, and they would hold the float weights.
  bool is_for_users(const std::string& method) const {
    return !is_forward(method) && !method.starts_with("__") &&
           !(method.starts_with("_") && called_methods_.contains(method));
  }

  void capture_other_methods() {
    const auto forward = gm_.graph;
    captures_other_method_ = true;
    looks_into_leaves_ = !opens_methods_;
    for (const auto& method : model_.get_methods()) {
      if (!is_for_users(method.name())) continue;
      const auto graph = flat_graph(method);
      if (!looks_into_leaves_) {
        fold_constants();
        make_module_calls();
      }
      keep_chosen_modules(*graph);
      gm_.methods.push_back({.name = method.name(), .graph = graph, .schema = method.function().getSchema()});
    }
    captures_other_method_ = false;
    looks_into_leaves_ = false;
    gm_.graph = forward;
  }

  /// A module that an interface or an index chooses when the model runs is an attribute of the flat module.
  void keep_chosen_modules(torch::jit::Graph& graph) {
    owners_.clear();
    owners_[graph.inputs().at(0)] = model_;
    for (Node* node : ir::nodes_in_order(graph)) {
      if (node->kind() != c10::prim::GetAttr || node->input(0) != graph.inputs().at(0)) continue;
      const std::string& name = node->s(c10::attr::name);
      if (!model_.hasattr(name) || !model_.attr(name).isModule() || gm_.attributes.hasattr(name)) continue;
      const Module module = model_.attr(name).toModule();
      for (const Module& each : module.modules()) kept_.insert(each._ivalue().get());
      gm_.attributes.register_attribute(name, model_.type()->getAttribute(name),
                                        in_its_mode(module)._ivalue());
      gm_.state.insert(name);
    }
  }

  /// Whether the graph is for training: the mode stays an attribute, and leaf modules are the model's own.

  Module in_its_mode(const Module& module) const { return trains_ ? module : copy_in_eval_mode(module); }

  /// Whether a module is one of the kept ones, so that its attributes are read where it is.
  bool is_kept(const Module& module) const { return kept_.contains(module._ivalue().get()); }

  std::string path_of(const Module& module) const {
    const auto found = paths_.find(module._ivalue().get());
    return found == paths_.end() ? std::string() : found->second;
  }

  bool is_root(const Module& module) const { return module._ivalue() == model_._ivalue(); }

  /// Whether the model assigns other modules to an attribute that holds one; interfaces allow that.
  bool is_replaced(const Module& owner, const std::string& name) const {
    return written_.contains(name) &&
           owner.type()->getAttribute(name)->kind() == c10::TypeKind::InterfaceType;
  }

  /// The module that a value is, when the model's own attributes tell.
  std::optional<Module> module_of(Value* value) {
    if (const auto found = owners_.find(value); found != owners_.end()) return found->second;
    Node* node = value->node();
    if (node->kind() != c10::prim::GetAttr) return std::nullopt;
    const auto owner = module_of(node->input(0));
    if (!owner) return std::nullopt;
    const c10::IValue attribute = owner->attr(node->s(c10::attr::name));
    if (!attribute.isModule() || is_replaced(*owner, node->s(c10::attr::name))) return std::nullopt;
    owners_[value] = attribute.toModule();
    return attribute.toModule();
  }

  std::size_t scope_for(const Module& module) {
    const std::string path = path_of(module);
    for (std::size_t i = 0; i < gm_.scopes.size(); ++i) {
      if (gm_.scopes[i].path == path) return i;
    }
    gm_.scopes.push_back({path, class_symbol(module)});
    return gm_.scopes.size() - 1;
  }

  void walk(torch::jit::Block* block, std::size_t scope) {
    for (auto it = block->nodes().begin(); it != block->nodes().end();) {
      Node* node = *it;
      ++it;  // before the node is removed
      visit(node, scope);
    }
  }

  void visit_between(Node* before, const Node* end, std::size_t scope) {
    for (Node* node = before->next(); node != end;) {
      Node* next = node->next();
      visit(node, scope);
      node = next;
    }
  }

  void visit(Node* node, std::size_t scope) {
    switch (node->kind()) {
      case c10::prim::CallMethod:
        return visit_method_call(node, scope);
      case c10::prim::CallFunction:
        return visit_function_call(node, scope);
      case c10::prim::GetAttr:
        return visit_get_attr(node, scope);
      case c10::prim::SetAttr:
        return visit_set_attr(node, scope);
      case c10::prim::Constant:
        return;
      case c10::prim::fork:
        return visit_fork(node, scope);
      default:
        ir::set_scope(node, scope);
        if (opens_operators_ && !looks_into_leaves_) {
          if (open_operator(node, scope)) return;
          if (const auto branch = branch_without_fused_attention(node)) choose_branch(node, *branch);
        }
        for (auto* inner : node->blocks()) walk(inner, scope);
    }
  }

  /// Puts plain operators in place of the fused ones of attention, and samples of one length with a mask in
  /// place of the nested tensors that tracing has seen torch.nn.TransformerEncoder make. False for other
  /// nodes.
  bool open_operator(Node* node, std::size_t scope) {
    if (makes_nested_tensor(node)) return keep_lengths(node, scope);
    const auto left_out = node->inputs().empty() ? left_out_.end() : left_out_.find(node->input(0));
    const bool is_nested = left_out != left_out_.end();
    if (is_nested && std::string_view(node->kind().toQualString()) == "aten::to_padded_tensor")
      return fill_left_out(node, left_out->second, scope);
    const auto plain = torchscript::plain_operator(node);
    if (!plain) return false;
    Value* mask = is_nested ? left_out->second : nullptr;
    if (mask != nullptr) give_mask(node, mask);
    Value* result = inline_call(node, *plain, node->inputs(), scope);
    if (mask != nullptr) left_out_[result] = mask;
    return true;
  }

  Value* insert(Node* before, const char* kind, at::ArrayRef<torch::jit::NamedValue> inputs,
                std::size_t scope) {
    const torch::jit::WithInsertPoint guard(before);
    Value* made = gm_.graph->insert(c10::Symbol::fromQualString(kind), inputs);
    ir::set_scope(made->node(), scope);
    return made;
  }

  /// nested(x, kept)   →   x, of which the positions that are not kept are left out later
  bool keep_lengths(Node* node, std::size_t scope) {
    Value* padded = insert(node, "aten::alias", {node->input(0)}, scope);
    left_out_[padded] = insert(node, "aten::logical_not", {node->input(1)}, scope);
    aliases_.push_back(padded->node());
    node->output()->replaceAllUsesWith(padded);
    node->destroy();
    return true;
  }

  bool fill_left_out(Node* node, Value* left_out, std::size_t scope) {
    Value* positions = insert(node, "aten::unsqueeze", {left_out, int64_t{-1}}, scope);
    Value* filled = insert(node, "aten::masked_fill", {node->input(0), positions, node->input(1)}, scope);
    node->output()->replaceAllUsesWith(filled);
    node->destroy();
    return true;
  }

  /// The last arguments of a fused layer: its mask, and that it has a value for each position of a sample.
  void give_mask(Node* layer, Value* mask) {
    constexpr int64_t kOfPositions = 1;
    const torch::jit::WithInsertPoint guard(layer);
    const std::size_t last = layer->inputs().size() - 1;
    layer->replaceInput(last - 1, mask);
    layer->replaceInput(last, gm_.graph->insertConstant(kOfPositions));
  }

  void drop_aliases() {
    for (Node* alias : aliases_) {
      alias->output()->replaceAllUsesWith(alias->input(0));
      alias->destroy();
    }
    aliases_.clear();
    left_out_.clear();
  }

  void choose_branch(Node* node, bool condition) {
    const torch::jit::WithInsertPoint guard(node);
    node->replaceInput(0, gm_.graph->insertConstant(condition));
  }

  /// What is forked runs where it is forked: the branches' kernels use all threads, one after the other.
  void visit_fork(Node* node, std::size_t scope) {
    ir::set_scope(node, scope);
    if (!keeps_forks_) inline_call(node, *node->g(c10::attr::Subgraph), node->inputs(), scope);
  }

  /// A module that may be the one to call, and the condition under which it is.
  struct Choice {
    Value* condition{};
    Module module;
  };

  static bool is_chosen_by_index(const Value* value) {
    return value->node()->kind() == c10::prim::ModuleContainerIndex;
  }

  /// The modules among which an index into a container or the branches of an `if` choose; empty where they
  /// cannot be told.
  std::vector<Choice> choices(Node* call) {
    Value* chosen = call->input(0);
    const torch::jit::WithInsertPoint guard(call);
    if (is_chosen_by_index(chosen)) return choices_by_index(*chosen->node());
    std::vector<Module> candidates;
    if (!collect_candidates(chosen, candidates)) return {};
    Value* number = number_of(chosen, candidates);
    const torch::jit::WithInsertPoint before(call);
    std::vector<Choice> found;
    for (const Module& each : candidates)
      found.push_back({is_equal(number, static_cast<int64_t>(found.size())), each});
    return found;
  }

  Value* is_equal(Value* value, const c10::IValue& constant) {
    return gm_.graph->insert(c10::aten::eq, {value, gm_.graph->insertConstant(constant)});
  }

  std::vector<Choice> choices_by_index(Node& index) {
    const auto container = module_of(index.input(0));
    if (!container) return {};
    Value* key = index.input(1);
    const bool is_number = key->type()->kind() == c10::TypeKind::IntType;
    std::vector<Choice> found;
    for (const auto& child : container->named_children()) {
      const c10::IValue name =
          is_number ? c10::IValue(static_cast<int64_t>(std::stoll(child.name))) : c10::IValue(child.name);
      found.push_back({is_equal(key, name), child.value});
    }
    return found;
  }

  /// The modules that the branches of an `if` return, each once. False where one of them cannot be told.
  bool collect_candidates(Value* value, std::vector<Module>& found) {
    if (const auto module = module_of(value)) {
      const auto is_it = [&](const Module& each) { return each._ivalue() == module->_ivalue(); };
      if (std::ranges::none_of(found, is_it)) found.push_back(*module);
      return true;
    }
    if (value->node()->kind() != c10::prim::If) return false;
    return std::ranges::all_of(value->node()->blocks(), [&](torch::jit::Block* branch) {
      return collect_candidates(branch->outputs()[value->offset()], found);
    });
  }

  /// Which of the candidates a value is: a further output of the `if` that returns it.
  Value* number_of(Value* value, const std::vector<Module>& candidates) {
    if (const auto module = module_of(value)) {
      const auto found = std::ranges::find_if(
          candidates, [&](const Module& each) { return each._ivalue() == module->_ivalue(); });
      return gm_.graph->insertConstant(static_cast<int64_t>(found - candidates.begin()));
    }
    Node* branches = value->node();
    for (torch::jit::Block* branch : branches->blocks()) {
      const torch::jit::WithInsertPoint guard(branch);
      branch->registerOutput(number_of(branch->outputs()[value->offset()], candidates));
    }
    Value* number = branches->addOutput();
    number->setType(c10::IntType::get());
    return number;
  }

  /// A value that is a module of the model.
  Value* insert_module(const Module& module) {
    Value* value = gm_.graph->inputs().at(0);
    std::string_view path = paths_.at(module._ivalue().get());
    while (!path.empty()) {
      const std::size_t end = std::min(path.find('.'), path.size());
      value = gm_.graph->insertGetAttr(value, std::string(path.substr(0, end)));
      path.remove_prefix(std::min(end + 1, path.size()));
    }
    return value;
  }

  /// The call of a module that the model chooses becomes the calls of those that it chooses from:
  ///   y = CallMethod(container[i], x)   →   if i == 0: y = CallMethod(a, x) else: if i == 1: … else: raise
  bool call_each_choice(Node* call, std::size_t scope) {
    const std::vector<Choice> found = choices(call);
    if (found.empty()) return false;
    Node* before = call->prev();
    {
      const torch::jit::WithInsertPoint guard(call);
      Value* result = insert_calls(*call, found, is_chosen_by_index(call->input(0)));
      call->output()->replaceAllUsesWith(result);
    }
    visit_between(before, call, scope);
    call->destroy();
    return true;
  }

  /// `may_miss`: none of the choices may be the one.
  Value* insert_calls(Node& call, std::span<const Choice> choices, bool may_miss) {
    if (choices.empty()) return insert_missing(call.output()->type());
    if (choices.size() == 1 && !may_miss) return insert_call(call, choices.front().module);
    Node* branches = gm_.graph->insertNode(gm_.graph->create(c10::prim::If, {choices.front().condition}, 1));
    branches->output()->setType(call.output()->type());
    torch::jit::Block* then = branches->addBlock();
    torch::jit::Block* otherwise = branches->addBlock();
    {
      const torch::jit::WithInsertPoint guard(then);
      then->registerOutput(insert_call(call, choices.front().module));
    }
    const torch::jit::WithInsertPoint guard(otherwise);
    otherwise->registerOutput(insert_calls(call, choices.subspan(1), may_miss));
    return branches->output();
  }

  Value* insert_call(Node& call, const Module& module) {
    std::vector<Value*> inputs(call.inputs().begin(), call.inputs().end());
    inputs.front() = insert_module(module);
    Node* made = gm_.graph->insertNode(gm_.graph->create(c10::prim::CallMethod, inputs, 1));
    made->s_(c10::attr::name, call.s(c10::attr::name));
    ir::set_place(made, places_of(path_of(module), std::to_string(places_of_call(&call))));
    made->output()->setType(call.output()->type());
    made->setSourceRange(call.sourceRange());
    return made->output();
  }

  Value* insert_missing(const c10::TypePtr& type) {
    Value* text = gm_.graph->insertConstant("the list or dict has no module of this index");
    Value* none = gm_.graph->insertConstant(c10::IValue());
    gm_.graph->insertNode(gm_.graph->create(c10::prim::RaiseException, {text, none}, 0));
    return gm_.graph->insertNode(gm_.graph->createUninitialized(type))->output();
  }

  void visit_method_call(Node* node, std::size_t scope) {
    const auto module = module_of(node->input(0));
    ir::set_scope(node, scope);
    if (!module) return static_cast<void>(call_each_choice(node, scope));
    const std::string& name = node->s(c10::attr::name);
    if (is_stub_of_eager_mode(*module, gm_.scopes[scope]) && node->inputs().size() == 2) {
      node->output()->replaceAllUsesWith(node->input(1));
      node->destroy();
      return;
    }
    // A call for its effects alone would be lost among what nobody uses.
    if (captures_other_method_ && is_root(*module) && name == "forward" && opens_methods_ &&
        node->output()->hasUses())
      return;
    if (is_root(*module)) called_methods_.insert(name);
    if (!looks_into_leaves_ && is_forward(name) && is_leaf(*module, path_of(*module), custom_)) {
      if (is_opened(*module)) return open(node, *module);
      if (!has_own_parameter(node, *module)) return;
      if (operators::is_weighted(class_symbol(*module))) return drop_own_parameters(node, *module);
    }
    auto& callee = torch::jit::toGraphFunction(module->get_method(name).function());
    inline_call(node, *callee.graph(), node->inputs(), scope_for(*module), places_of(path_of(*module), name));
  }

  /// A number from which those of a code's nodes follow.
  static int64_t places_of(const std::string& path, std::string_view method) {
    return static_cast<int64_t>(std::hash<std::string>()(fmt::format("{}.{}", path, method)));
  }
  static int64_t places_of_call(const Node* call) {
    return places_of(std::to_string(ir::place_of(call).value_or(0)), call->kind().toQualString());
  }
  static void set_places(const std::vector<Node*>& nodes, int64_t first) {
    for (std::size_t i = 0; i < nodes.size(); ++i)
      ir::set_place(nodes[i], static_cast<int64_t>(c10::get_hash(first, i)));
  }

  /// Other methods call what forward becomes.
  void keep_forward_call(Node* call) {
    Node* kept = gm_.graph->create(ir::kForwardKind, call->inputs(), 1);
    kept->replaceInput(0, gm_.graph->inputs().at(0));
    ir::take_scope(kept, call);
    kept->output()->copyMetadata(call->output());
    kept->insertBefore(call);
    kept->setSourceRange(call->sourceRange());
    call->output()->replaceAllUsesWith(kept->output());
    call->destroy();
  }

  bool is_opened(const Module& module) const {
    const Symbol type = class_symbol(module);
    const auto& names = custom_.non_traceable_module_names();
    const auto& classes = custom_.non_traceable_module_classes();
    const std::string path = path_of(module);
    const bool is_closed = std::ranges::find(names, path) != names.end() ||
                           std::ranges::find(classes, type) != classes.end() ||
                           custom_.standalone_module(path, type) != nullptr;
    return looks_into_composites_ && !is_closed && is_made_of_layers(module, type);
  }

  /// Puts the layers of a module in place of its call, where they can be told.
  void open(Node* call, const Module& module) {
    const Symbol type = class_symbol(module);
    if (const auto plain = torchscript::plain_forward(module, type))
      return static_cast<void>(inline_call(call, *plain, call->inputs(), scope_for(module)));
    // A scripted module without a plain form stays as it is.
    const bool is_attention =
        type.name == "torch.nn.MultiheadAttention" || type.name.starts_with("torch.nn.TransformerEncoder");
    if (is_attention && has_choices(module, type)) return;
    auto& callee = torch::jit::toGraphFunction(module.get_method(call->s(c10::attr::name)).function());
    inline_call(call, *callee.graph(), call->inputs(), scope_for(module));
  }

  /// Tracing hands a parameter that has two owners to one of them as an argument of its forward.
  bool is_own_parameter(const Value* argument, const Module& module) const {
    const Node* node = argument->node();
    if (node->kind() != c10::prim::GetAttr || node->input(0) != gm_.graph->inputs().at(0)) return false;
    const std::string& slot = node->s(c10::attr::name);
    if (!gm_.attributes.hasattr(slot) || !gm_.attributes.attr(slot).isTensor()) return false;
    const at::Tensor tensor = gm_.attributes.attr(slot).toTensor();
    for (const at::Tensor& own : module.parameters()) {
      if (is_same_tensor(own, tensor)) return true;
    }
    return false;
  }

  bool has_own_parameter(const Node* call, const Module& module) const {
    return std::any_of(call->inputs().begin() + 1, call->inputs().end(),
                       [&](const Value* argument) { return is_own_parameter(argument, module); });
  }

  /// The module has its parameters without being given them.
  void drop_own_parameters(Node* call, const Module& module) const {
    for (std::size_t i = call->inputs().size(); i-- > 1;) {
      if (is_own_parameter(call->input(i), module)) call->removeInput(i);
    }
  }

  void visit_function_call(Node* node, std::size_t scope) {
    ir::set_scope(node, scope);
    if (const auto targets = ir::targets(gm_, node); !targets.empty()) {
      const bool is_attention = targets.front().name == "torch.nn.functional.multi_head_attention_forward";
      if (!is_attention || !looks_into_composites_ || looks_into_leaves_) return;
      if (const auto plain = torchscript::plain_function(node)) {
        inline_call(node, *plain, node->inputs().slice(1), scope);
      }
      return;
    }
    torch::jit::GraphFunction* callee = torch::jit::tryToGraphFunction(node);
    if (callee == nullptr) return;
    Node* function_constant = node->input(0)->node();
    inline_call(node, *callee->graph(), node->inputs().slice(1), scope);
    if (!function_constant->hasUses()) function_constant->destroy();
  }

  /// Puts the callee's body in place of the call and walks it. The first result.
  Value* inline_call(Node* node, torch::jit::Graph& callee, c10::ArrayRef<Value*> inputs, std::size_t scope) {
    return inline_call(node, callee, inputs, scope, places_of_call(node));
  }
  Value* inline_call(Node* node, torch::jit::Graph& callee, c10::ArrayRef<Value*> inputs, std::size_t scope,
                     int64_t places) {
    Node* before = node->prev();
    std::vector<Value*> outputs;
    {
      torch::jit::WithInsertPoint guard(node);
      outputs = torch::jit::insertGraph(*gm_.graph, callee, inputs);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i]->hasDebugName() && node->outputs()[i]->hasDebugName()) {
        outputs[i]->setDebugName(node->outputs()[i]->debugNameBase());
      }
      node->outputs()[i]->replaceAllUsesWith(outputs[i]);
    }
    std::vector<Node*> inserted;
    for (Node* each = before->next(); each != node; each = each->next()) ir::collect_nodes(each, inserted);
    set_places(inserted, places);
    visit_between(before, node, scope);
    node->destroy();
    return outputs.empty() ? nullptr : outputs.front();
  }

  /// Attributes become constants when nothing writes them and their type allows, else slots of the flat graph
  /// module.
  void visit_get_attr(Node* node, std::size_t scope) {
    ir::set_scope(node, scope);
    const auto owner = module_of(node->input(0));
    if (!owner) return;
    const std::string& name = node->s(c10::attr::name);
    const c10::IValue value = owner->attr(name);
    if (value.isModule() && !is_replaced(*owner, name)) return;
    const bool is_mode = name == "training";
    if (is_mode && !trains_) return replace_by_constant(node, false);
    if (is_immutable_value(value) && !written_.contains(name) && !is_mode)
      return replace_by_constant(node, value);
    if (is_kept(*owner)) return;
    node->s_(c10::attr::name, slot_for(*owner, name));
    node->replaceInput(0, gm_.graph->inputs().at(0));
  }

  void visit_set_attr(Node* node, std::size_t scope) {
    ir::set_scope(node, scope);
    const auto owner = module_of(node->input(0));
    if (!owner || is_kept(*owner)) return;
    node->s_(c10::attr::name, slot_for(*owner, node->s(c10::attr::name)));
    node->replaceInput(0, gm_.graph->inputs().at(0));
  }

  void replace_by_constant(Node* node, const c10::IValue& value) {
    torch::jit::WithInsertPoint guard(node);
    node->output()->replaceAllUsesWith(gm_.graph->insertConstant(value));
    node->destroy();
  }

  std::string slot_for(const Module& owner, const std::string& name) {
    const auto key = std::make_pair(static_cast<ObjectPointer>(owner._ivalue().get()), name);
    for (const auto& [known, slot] : slots_) {
      if (known == key) return slot;
    }
    const std::string slot =
        is_root(owner) ? name : ir::unique_attribute_name(gm_, path_of(owner) + "." + name);
    const auto type = owner.type()->getAttribute(name);
    const std::size_t index = owner.type()->getAttributeSlot(name);
    const bool is_parameter = owner.type()->is_parameter(index);
    gm_.attributes.register_attribute(slot, type, owner.attr(name), is_parameter,
                                      owner.type()->is_buffer(index));
    // Objects of C++ classes are the host program's: they are shared, as they are between copies of a module.
    if (!is_parameter && !owner.attr(name).isCustomClass()) gm_.state.insert(slot);
    slots_.emplace_back(key, slot);
    gm_.slots[slot] = {path_of(owner), name};
    return slot;
  }

  /// Module values that only led to attributes and inlined calls.
  void drop_module_values() {
    std::vector<Node*> nodes = ir::nodes_in_order(*gm_.graph);
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      const bool is_access =
          (*it)->kind() == c10::prim::GetAttr || (*it)->kind() == c10::prim::ModuleContainerIndex;
      if (is_access && !(*it)->output()->hasUses()) (*it)->destroy();
    }
  }

  /// What Python evaluates while FX traces: conditions on constants, loops of a known length, lists, dicts
  /// and tuples that are only a way to pass values.
  void fold_constants() {
    fold_conditions();
    if (torch::jit::UnrollConstantLoops(gm_.graph)) fold_conditions();
    torch::jit::EliminateDeadCode(gm_.graph);
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (node->kind() == c10::prim::ListConstruct) ir::replace_grown_list(*gm_.graph, node);
      if (node->kind() == c10::prim::DictConstruct) ir::replace_filled_dict(*gm_.graph, node);
    }
    torch::jit::PeepholeOptimizeListIdioms(gm_.graph, /*refine_list_len=*/false);
    torch::jit::PeepholeOptimizeDictIdioms(gm_.graph);
    torch::jit::LowerSimpleTuples(gm_.graph);
    fold_conditions();
    torch::jit::EliminateDeadCode(gm_.graph);
  }

  void fold_conditions() {
    torch::jit::ConstantPropagationImmutableTypes(gm_.graph);
    torch::jit::PeepholeOptimizeNonTensor(gm_.graph);
    torch::jit::ConstantPropagationImmutableTypes(gm_.graph);
  }

  void make_module_calls() {
    // Values that folding destroyed may have left their addresses to new ones.
    owners_.clear();
    owners_[gm_.graph->inputs().at(0)] = model_;
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (node->kind() != c10::prim::CallMethod || !is_forward(node->s(c10::attr::name))) continue;
      const auto module = module_of(node->input(0));
      if (!module) continue;
      if (is_root(*module)) {
        keep_forward_call(node);
        continue;
      }
      ir::ModuleCall call{
          .type = class_symbol(*module),
          .path = path_of(*module),
          .module = in_its_mode(*module),
          .method = node->s(c10::attr::name),
          .standalone = standalone_boundary(custom_, path_of(*module), class_symbol(*module))};
      Node* made = ir::create_module_call(gm_, std::move(call), node->inputs().slice(1),
                                          ir::scope_index(node).value_or(0));
      made->insertBefore(node);
      made->output()->setType(node->output()->type());
      made->setSourceRange(node->sourceRange());
      // A module is the same wherever it is called.
      const ir::ModuleCall& made_of = ir::call_of(gm_, made);
      ir::set_place(made, places_of(made_of.path, made_of.method));
      node->output()->replaceAllUsesWith(made->output());
      node->destroy();
    }
    drop_module_values();
  }

  const Module& model_;
  const PrepareCustomConfig& custom_;
  bool trains_;  ///< or the graph is for evaluation
  std::unordered_set<std::string> written_;
  std::unordered_set<std::string> called_methods_;  ///< of the model itself, by forward
  std::unordered_set<ObjectPointer> kept_;
  bool looks_into_leaves_{false};
  bool captures_other_method_{false};
  bool keeps_forks_{false};
  bool looks_into_composites_{false};
  bool opens_operators_{false};  ///< fused ones of attention
  bool opens_methods_{false};
  std::unordered_map<const Value*, Value*>
      left_out_;                ///< of samples that a trace nests: positions to leave out
  std::vector<Node*> aliases_;  ///< that stand for nested tensors while a graph is walked
  std::unordered_map<ObjectPointer, std::string> paths_;
  std::unordered_map<Value*, Module> owners_;
  std::vector<std::pair<std::pair<ObjectPointer, std::string>, std::string>> slots_;
  GraphModule gm_;
};

}  // namespace

bool opens_methods(const Module& model, const PrepareCustomConfig& custom) {
  if (!custom.input_quantized_indexes().empty() || !custom.output_quantized_indexes().empty()) return false;
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.is_floating_point() && parameter.scalar_type() != c10::ScalarType::Float) return false;
  }
  return true;
}

ir::GraphModule capture(const torch::jit::Module& module, const PrepareCustomConfig& custom) {
  return Capture(module, custom, /*looks_into_composites=*/false).run();
}

ir::GraphModule capture_for_training(const torch::jit::Module& module, const PrepareCustomConfig& custom) {
  return Capture(module, custom, /*looks_into_composites=*/false, /*trains=*/true).run();
}

ir::GraphModule capture_layers(const torch::jit::Module& module, const PrepareCustomConfig& custom) {
  return Capture(module, custom, /*looks_into_composites=*/true).run();
}

}  // namespace tsq::passes
