// Operators become kernels of libraries, by the rows that the program registered.
//   quantize(linear(dequantize(x)))   →   my::linear(x, packed, scale, zero_point)

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/packed.h"
#include "base/user_call.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "match/dtype_check.h"
#include "match/matcher.h"
#include "operators/dynamic_input.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"
#include "passes/lower/registered_weights.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

c10::FunctionSchema schema_of(const std::string& name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").schema();
}

c10::IValue layer_argument(const LoweringRow& row, const std::string& name, const ir::Weighted& layer) {
  if (name == "stride") return layer.stride;
  if (name == "padding") return layer.padding;
  if (name == "output_padding") return layer.output_padding;
  if (name == "dilation") return layer.dilation;
  if (name == "groups") return layer.groups;
  throw Error(ErrorCode::BadConfig,
              fmt::format("the packing operator {} asks for an argument '{}'", row.prepack, name),
              "take weight and bias, then any of stride, padding, output_padding, dilation and groups");
}

bool is_dequantized(const Value* value) { return value->node()->kind() == ir::kDequantize; }
bool is_list(const Value* value) { return value->node()->kind() == c10::prim::ListConstruct; }

/// A row, and the operators that it replaces.
struct Use {
  const LoweringRow& row;
  std::vector<Node*> nodes{};  ///< in the order of the flow
  Node* quantize{};            ///< of the result, in form Static

  [[nodiscard]] Node* last() const { return nodes.back(); }
  [[nodiscard]] Node* place() const { return quantize == nullptr ? nodes.back() : quantize; }
};

/// An argument of the operators as a kernel may get it.
struct Given {
  Value* value{};
  bool is_default{false};  ///< the operator's own default
};

bool is_default(const Node* node, std::size_t input) {
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr || input >= schema->arguments().size()) return false;
  const std::optional<c10::IValue>& value = schema->arguments()[input].default_value();
  const std::optional<c10::IValue> given = ir::constant_value(node->input(input));
  return value && given && *given == *value;
}

/// Without the operators' defaults, where the kernel has no place for them (the alpha of an addition).
std::vector<Value*> as_taken(const std::vector<Given>& given, std::size_t places) {
  std::vector<Value*> inputs;
  for (const Given& each : given) {
    if (given.size() <= places || !each.is_default) inputs.push_back(each.value);
  }
  return inputs;
}

/// Where a kernel takes the scale of its result, and the zero point after it.
std::optional<std::size_t> place_of_qparams(const c10::FunctionSchema& schema) {
  const std::vector<c10::Argument>& arguments = schema.arguments();
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i].name().ends_with("scale") && arguments[i + 1].name().ends_with("zero_point")) return i;
  }
  return std::nullopt;
}

/// What became of a row, the least first.
enum class Fit { None, Matches, Taken, Lowers };

std::string_view to_string(LoweringForm form) {
  constexpr std::array<std::string_view, 4> kNames{"Static", "FloatOutput", "Dynamic", "WeightOnly"};
  return kNames.at(static_cast<std::size_t>(form));
}

/// Why a row has lowered nothing.
std::string reason_of(Fit fit, const LoweringRow& row, const BackendConfig& table) {
  if (fit == Fit::Matches)
    return fmt::format("of the operators that it matches none is rounded as form {} has it",
                       to_string(row.form));
  if (fit == Fit::Taken) return "other rows lower all operators that it matches";
  const auto fuses = std::ranges::find_if(table.configs(), [&](const BackendPatternConfig& config) {
    return config.fused_module && config.key() == row.op;
  });
  return fuses == table.configs().end()
             ? "the model has no such operators"
             : fmt::format("the table fuses these operators, write the row for '{}'",
                           fuses->fused_module->name);
}

class RegisteredLowering {
 public:
  RegisteredLowering(Model& model, std::span<const LoweringRow> rows)
      : model_(model), rows_(rows), fits_(rows.size(), Fit::None), matcher_(model) {}

  void tell_unmatched(const BackendConfig& table) {
    model_.unmatched_lowering.clear();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (fits_[i] == Fit::Lowers) continue;
      model_.unmatched_lowering.push_back({.row = tsq::to_string(rows_[i].op),
                                           .kernel = rows_[i].kernel,
                                           .reason = reason_of(fits_[i], rows_[i], table)});
    }
  }

  bool run() {
    // The last operator of a pattern comes before those that it reads.
    for (Node* node : ir::nodes_in_order(*model_.graph) | std::views::reverse) {
      if (!replaced_.contains(node)) lower_by_first_row(node);
    }
    const bool has_changed = !replaced_.empty();
    ir::eliminate_dead_code(*model_.graph);
    return has_changed;
  }

 private:
  void lower_by_first_row(Node* node) {
    bool is_lowered = false;
    for (auto& [row, use] : uses_of(node)) {
      const bool lowers = !is_lowered && lower(use);
      fits_[row] = std::max(fits_[row], lowers ? Fit::Lowers : is_lowered ? Fit::Taken : Fit::Matches);
      is_lowered = is_lowered || lowers;
    }
  }

  /// The rows that match and have the form, in order.
  std::vector<std::pair<std::size_t, Use>> uses_of(Node* node) {
    std::vector<std::pair<std::size_t, Use>> uses;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto tree = matcher_.match(node, rows_[i].op);
      if (!tree) continue;
      fits_[i] = std::max(fits_[i], Fit::Matches);
      Use use{.row = rows_[i]};
      for (const match::MatchedNode* matched : match::in_forward_order(*tree))
        use.nodes.push_back(matched->node);
      if (has_form(use)) uses.emplace_back(i, use);
    }
    return uses;
  }

  /// Whether the reference model rounds around the operators as the row wants it. Finds Use::quantize.
  bool has_form(Use& use) const {
    const Node* root = use.nodes.front();
    switch (use.row.form) {
      case LoweringForm::Static:
        if (!may_have_kernel(model_, use.last())) return false;
        use.quantize = ir::only_reader(use.last());
        return use.quantize->kind() == ir::kQuantize;
      case LoweringForm::FloatOutput:
        return true;
      case LoweringForm::Dynamic:
        return !root->inputs().empty() && operators::dynamic_input(root->input(0)).has_value();
      case LoweringForm::WeightOnly: {
        const QConfig* qconfig = ir::observed_qconfig(model_, root);
        return qconfig != nullptr && match::is_weight_only(*qconfig);
      }
    }
    return false;
  }

  /// False where an operator reads anything else than the form says, or its weight is not known.
  bool lower(const Use& use) {
    const std::optional<std::vector<Given>> given = inputs_of(use);
    if (!given) return false;
    const c10::FunctionSchema schema = schema_of(use.row.kernel);
    const std::optional<std::size_t> qparams = place_of_qparams(schema);
    const std::size_t weights = use.row.prepack.empty() ? 0 : 1;
    std::vector<Value*> inputs = as_taken(*given, qparams.value_or(schema.arguments().size()) - weights);
    if (use.quantize != nullptr && !qparams && !keeps_qparams(inputs, use.quantize)) return false;
    if (weights > 0) {
      Value* packed = packed_weight(use);
      if (packed == nullptr) return false;
      inputs.push_back(packed);
    }
    if (use.quantize != nullptr && qparams)
      inputs.insert(inputs.end(), {use.quantize->input(1), use.quantize->input(2)});
    add_defaults(use, schema, inputs);
    replace(use, inputs);
    return true;
  }

  void replace(const Use& use, const std::vector<Value*>& inputs) {
    Value* made = insert_kernel(model_, use.last(), use.row.kernel, inputs, use.place());
    Node* result = use.place();
    result->output()->replaceAllUsesWith(made);
    const bool returns_float = use.row.form == LoweringForm::FloatOutput;
    for (Node* node : use.nodes) {
      set_kernel(model_, node, use.row.kernel,
                 returns_float ? ir::Placement::Int8FloatOut : ir::Placement::Int8);
      replaced_.insert(node);
    }
    if (use.quantize != nullptr) use.quantize->destroy();
  }

  std::optional<std::vector<Given>> inputs_of(const Use& use) const {
    std::vector<Given> inputs;
    for (const Node* node : use.nodes) {
      const bool is_layer = is_functional_layer(model_, node);
      const std::size_t count = is_layer && !use.row.prepack.empty() ? 1 : node->inputs().size();
      for (std::size_t i = 0; i < count; ++i) {
        Value* input = const_cast<Value*>(node->input(i));
        if (std::ranges::find(use.nodes, input->node()) != use.nodes.end()) continue;
        constexpr std::size_t kBias = 2;
        Value* read = is_layer && i == kBias ? input : read_by_kernel(use, input);
        if (read == nullptr) return std::nullopt;
        inputs.push_back({.value = read, .is_default = is_default(node, i)});
      }
    }
    return inputs;
  }

  /// What the kernel is given for an input; null where the form does not allow it.
  Value* read_by_kernel(const Use& use, Value* input) const {
    if (is_list(input) && ir::holds_tensor(input)) return list_read_by_kernel(use, input);
    if (!ir::holds_tensor(input) || use.row.form == LoweringForm::WeightOnly) return input;
    if (use.row.form == LoweringForm::Dynamic) {
      const auto rounded = operators::dynamic_input(input);
      return rounded ? rounded->value : input;
    }
    return is_dequantized(input) ? input->node()->input(0) : nullptr;
  }

  Value* list_read_by_kernel(const Use& use, Value* list) const {
    std::vector<Value*> elements;
    for (Value* element : list->node()->inputs()) elements.push_back(read_by_kernel(use, element));
    if (std::ranges::find(elements, nullptr) != elements.end()) return nullptr;
    return ir::list_before(use.place(), c10::TensorType::get(), elements);
  }

  /// Whether a result that has the scale and zero point of the first tensor is rounded as the model wants it.
  static bool keeps_qparams(const std::vector<Value*>& inputs, const Node* quantize) {
    const Node* first = inputs.empty() ? nullptr : inputs.front()->node();
    if (first == nullptr || first->kind() != ir::kQuantize) return false;
    const auto is_same = [&](std::size_t i) {
      const auto of_input = ir::number_constant(first->input(i));
      return of_input && of_input == ir::number_constant(quantize->input(i));
    };
    return is_same(1) && is_same(2);
  }

  /// Null where no operator has a weight that is known.
  Value* packed_weight(const Use& use) {
    for (const Node* op : use.nodes) {
      const auto weight = weight_to_pack(model_, op);
      if (!weight) continue;
      const c10::IValue packed = packed_by(use.row, *weight, where(use));
      const torch::jit::WithInsertPoint guard(use.place());
      return ir::insert_attribute(model_, where(use).layer + "_packed_params", packed, packed.type());
    }
    return nullptr;
  }

  static c10::IValue packed_by(const LoweringRow& row, const WeightToPack& weight, const Where& where) {
    torch::jit::Stack stack{weight.quantized,
                            weight.bias.defined() ? c10::IValue(weight.bias.detach()) : c10::IValue()};
    const c10::FunctionSchema schema = schema_of(row.prepack);
    for (std::size_t i = 2; i < schema.arguments().size(); ++i)
      stack.push_back(layer_argument(row, schema.arguments()[i].name(), weight.layer));
    return call_of_user(
        fmt::format("the packing operator {} of the row '{}'", row.prepack, tsq::to_string(row.op)), where,
        [&] { return kernels::call_operator(row.prepack, std::move(stack)).back(); });
  }

  void add_defaults(const Use& use, const c10::FunctionSchema& schema, std::vector<Value*>& inputs) const {
    const std::vector<c10::Argument>& arguments = schema.arguments();
    const std::size_t given = inputs.size();
    const torch::jit::WithInsertPoint guard(use.place());
    while (inputs.size() < arguments.size() && arguments[inputs.size()].default_value())
      inputs.push_back(model_.graph->insertConstant(*arguments[inputs.size()].default_value()));
    if (inputs.size() == arguments.size()) return;
    throw Error(ErrorCode::BadConfig,
                fmt::format("the kernel {} takes {} arguments, and the row '{}' has {} for it",
                            use.row.kernel, arguments.size(), tsq::to_string(use.row.op), given),
                "see LoweringRow::kernel for the arguments", where(use));
  }

  Where where(const Use& use) const {
    const Node* root = use.nodes.front();
    return {.layer = ir::layer_of(model_, root), .op = ir::display_name(model_, root)};
  }

  Model& model_;
  std::span<const LoweringRow> rows_;
  std::vector<Fit> fits_;
  match::Matcher matcher_;
  std::unordered_set<const Node*> replaced_{};
};

}  // namespace

bool lower_registered(Model& model, const PassContext& context) {
  if (context.lowering_rows.empty()) return false;
  const kernels::EnginePacking engine(context.target);  // rows may pack by LibTorch's operators
  RegisteredLowering lowering(model, context.lowering_rows);
  const bool has_changed = lowering.run();
  lowering.tell_unmatched(context.table);
  return has_changed;
}

}  // namespace tsq::passes
