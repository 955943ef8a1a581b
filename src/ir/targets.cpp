#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/text.h"
#include "config/names/known_names.h"
#include "ir/analysis.h"
#include "ir/callee.h"
#include "ir/constants.h"
#include "ir/literal.h"
#include "ir/model.h"
#include "ir/number_first.h"
#include "ir/origin.h"
#include "ir/python_operators.h"

namespace tsq::ir {
namespace {

/// The function that torch.nn.functional's boolean dispatch calls: F.max_pool2d is compiled as _max_pool2d.
std::string public_functional_name(std::string_view compiled) {
  if (compiled.starts_with('_') && compiled.find("pool") != std::string_view::npos) compiled.remove_prefix(1);
  return "torch.nn.functional." + std::string(compiled);
}

void add_spellings(std::string_view name, std::vector<Symbol>& result) {
  const PythonOperator* const python = python_operator(name);
  const std::string_view operator_name = python == nullptr ? name : python->name;
  for (const auto& [prefix, called] : {std::pair{"torch.nn.functional.", name}, std::pair{"torch.", name},
                                       std::pair{"operator.", operator_name}}) {
    result.push_back(parse_symbol(std::string(prefix) + std::string(called)));
  }
  result.push_back(parse_symbol(name));
}

std::vector<Symbol> aten_spellings(std::string_view name) {
  std::vector<Symbol> result;
  if (name == "__getitem__" || name == "select" || name == "slice")
    result.push_back(parse_symbol("operator.getitem"));
  if (name == "concat" || name == "concatenate")
    return {parse_symbol("torch.cat"), parse_symbol("torch." + std::string(name))};
  if (name == "rsub") return {parse_symbol("operator.sub")};
  if (name == "permute_copy") return {parse_symbol("torch.permute_copy")};
  add_spellings(name, result);
  if (name.ends_with('_') && !name.ends_with("__")) add_spellings(name.substr(0, name.size() - 1), result);
  return result;
}

/// How FX, which traces the Python source, sees the expression of an operator that TorchScript spells
/// `aten::name`. Empty: it does not tell.
std::vector<Symbol> expression_spelling(const Node* node, const Origin& origin, std::string_view name) {
  const std::string& text = origin.expression;
  if (const auto both = symbol_of_both(origin)) return {*both};
  const std::string_view callee = std::string_view(text).substr(text.rfind('.') + 1);
  const std::string_view plain = without_underscore(name);
  if (is_dotted_name(callee) && names_operator(callee, plain)) return called_symbols(node, origin);
  const PythonOperator* const python = python_operator(plain);
  const bool is_operator =
      python != nullptr && text.find(python->sign) != std::string::npos && !is_dotted_name(text);
  return is_operator ? std::vector<Symbol>{parse_symbol("operator." + std::string(python->name))}
                     : std::vector<Symbol>{};
}

/// The operators inside torch.nn.functional.interpolate, which tracing and freezing open.
bool is_resampling(std::string_view name) {
  return name.starts_with("upsample_") || name.starts_with("_upsample_");
}

struct ModuleOfFunction {
  std::string_view function;
  std::string_view module;
};
/// Modules that do nothing but call a function of torch or torch.nn.functional.
constexpr std::array kModulesOfFunctions{
    ModuleOfFunction{"relu", "ReLU"},
    ModuleOfFunction{"hardtanh", "Hardtanh"},
    ModuleOfFunction{"hardtanh", "ReLU6"},
    ModuleOfFunction{"relu6", "ReLU6"},
    ModuleOfFunction{"hardswish", "Hardswish"},
    ModuleOfFunction{"hardsigmoid", "Hardsigmoid"},
    ModuleOfFunction{"sigmoid", "Sigmoid"},
    ModuleOfFunction{"tanh", "Tanh"},
    ModuleOfFunction{"elu", "ELU"},
    ModuleOfFunction{"leaky_relu", "LeakyReLU"},
    ModuleOfFunction{"gelu", "GELU"},
    ModuleOfFunction{"silu", "SiLU"},
    ModuleOfFunction{"mish", "Mish"},
    ModuleOfFunction{"softmax", "Softmax"},
    ModuleOfFunction{"flatten", "Flatten"},
    ModuleOfFunction{"dropout", "Dropout"},
    ModuleOfFunction{"layer_norm", "LayerNorm"},
    ModuleOfFunction{"group_norm", "GroupNorm"},
    ModuleOfFunction{"instance_norm", "InstanceNorm1d"},
    ModuleOfFunction{"instance_norm", "InstanceNorm2d"},
    ModuleOfFunction{"instance_norm", "InstanceNorm3d"},
    ModuleOfFunction{"max_pool1d", "MaxPool1d"},
    ModuleOfFunction{"max_pool2d", "MaxPool2d"},
    ModuleOfFunction{"max_pool3d", "MaxPool3d"},
    ModuleOfFunction{"avg_pool1d", "AvgPool1d"},
    ModuleOfFunction{"avg_pool2d", "AvgPool2d"},
    ModuleOfFunction{"avg_pool3d", "AvgPool3d"},
    ModuleOfFunction{"adaptive_avg_pool1d", "AdaptiveAvgPool1d"},
    ModuleOfFunction{"adaptive_avg_pool2d", "AdaptiveAvgPool2d"},
    ModuleOfFunction{"adaptive_avg_pool3d", "AdaptiveAvgPool3d"},
    ModuleOfFunction{"pixel_shuffle", "PixelShuffle"},
    ModuleOfFunction{"pixel_unshuffle", "PixelUnshuffle"},
};
/// Functions and modules that the tables treat unlike each other: the caller of the function must be known.
constexpr std::array<std::string_view, 3> kNotAlike{"softmax", "group_norm", "flatten"};

std::vector<Symbol> modules_of(std::string_view function) {
  const std::string_view plain = function.ends_with('_') ? function.substr(0, function.size() - 1) : function;
  std::vector<Symbol> modules;
  for (const ModuleOfFunction& each : kModulesOfFunctions) {
    if (each.function == plain) modules.push_back(parse_symbol("torch.nn." + std::string(each.module)));
  }
  return modules;
}

/// The function of torch.nn.functional that an operator's origin names.
std::string called_function(const Origin& origin, std::string_view name) {
  const std::string_view called = origin.function.empty() ? name : std::string_view(origin.function);
  return is_resampling(called) ? "torch.nn.functional.interpolate" : public_functional_name(called);
}

/// The spellings of an operator whose body FX does not look into: freezing and tracing have opened it.
std::vector<Symbol> library_spelling(const Node* node, const Origin& origin, std::string_view name) {
  if (origin.in_module && is_resampling(name)) return {parse_symbol("torch.nn.Upsample")};
  const std::string function =
      origin.writer == Origin::Writer::Functional ? called_function(origin, name) : std::string(name);
  const std::string plain = function.substr(function.rfind('.') + 1);
  const std::vector<Symbol> modules = modules_of(plain);
  if (origin.in_module && !modules.empty()) return modules;
  if (origin.writer != Origin::Writer::Functional)
    return origin.expression.empty() ? aten_spellings(name) : expression_spelling(node, origin, name);
  std::vector<Symbol> result{parse_symbol(function)};
  if (function.ends_with('_')) result.push_back(parse_symbol(function.substr(0, function.size() - 1)));
  // A stack of calls names the module, the text of a function does not.
  const bool is_open =
      origin.function.empty() && std::find(kNotAlike.begin(), kNotAlike.end(), plain) == kNotAlike.end();
  if (is_open) result.insert(result.end(), modules.begin(), modules.end());
  return result;
}

/// The spellings that a file's debug information leaves open; without any, the likeliest of all.
std::vector<Symbol> spellings(const Node* node, std::string_view name) {
  const Origin origin = origin_of(node);
  if (is_part_of_division(node, origin)) return {};
  if (origin.writer == Origin::Writer::Functional || origin.writer == Origin::Writer::Module)
    return library_spelling(node, origin, name);
  if (!origin.expression.empty()) {
    auto spelling = expression_spelling(node, origin, name);
    return spelling.empty() ? aten_spellings(name) : spelling;
  }
  if (is_resampling(name) && origin.writer == Origin::Writer::Unknown)
    return {parse_symbol("torch.nn.functional.interpolate")};
  std::vector<Symbol> all = aten_spellings(name);
  if (origin.writer == Origin::Writer::User && is_python_functional(name))
    std::erase_if(all, [](const Symbol& each) { return each.name.starts_with("torch.nn.functional."); });
  return all;
}

/// Whether a value is a tensor of the model's own that is no parameter. Frozen files do not tell.
bool is_buffer(const Model& model, const Value* value) {
  const Node* node = value->node();
  if (node->kind() != c10::prim::GetAttr || node->input(0) != model.graph->inputs().at(0)) return false;
  return node->hasAttribute(kLiteral) || model.state.contains(node->s(c10::attr::name));
}

/// FX traces with parameters as proxies, but with buffers and literals themselves: of `self.buffer * x` it
/// sees a call of the tensor's method.
std::vector<Symbol> with_own_tensor_on_the_left(const Model& model, const Node* node,
                                                std::vector<Symbol> written) {
  const bool is_operator = written.size() == 1 && written.front().name.starts_with("operator.");
  if (!is_operator || node->inputs().size() < 2 || !holds_tensor(node->input(1))) return written;
  if (!is_buffer(model, node->input(0)) || is_buffer(model, node->input(1))) return written;
  return {symbol(node->kind().toUnqualString())};
}

/// What the file tells of how its author wrote a node.
std::vector<Symbol> written_spellings(const Model& model, const Node* node) {
  if (is_module_call(node)) return {call_of(model, node).type};
  if (node->kind() == c10::prim::CallFunction) {
    const std::string name = functional_name(node);
    if (name.empty()) return {};
    return {parse_symbol(public_functional_name(name))};
  }
  if (!node->kind().is_aten()) return {};
  return with_own_tensor_on_the_left(model, node, spellings(node, node->kind().toUnqualString()));
}

/// The other ways to write a node, functions of torch.nn.functional and modules that do nothing else
/// included.
std::vector<Symbol> other_spellings(const Model& model, const Node* node) {
  static const Symbol kFlatten = parse_symbol("torch.nn.Flatten");
  if (is_module_call(node))
    return call_of(model, node).type == kFlatten ? std::vector{parse_symbol("torch.flatten")}
                                                 : std::vector<Symbol>{};
  if (!node->kind().is_aten()) return {};
  if (node->kind() == c10::aten::mul && symbol_of_both(origin_of(node))) return {};
  const std::string_view name = node->kind().toUnqualString();
  std::vector<Symbol> result = aten_spellings(name);
  const std::vector<Symbol> modules = modules_of(name);
  result.insert(result.end(), modules.begin(), modules.end());
  return result;
}

/// The arguments of an operator up to the last that has no default, or not its default.
std::optional<std::size_t> arguments_without_defaults(const Node* node) {
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr || schema->is_vararg()) return std::nullopt;
  const auto& arguments = schema->arguments();
  for (std::size_t i = std::min(arguments.size(), node->inputs().size()); i > 0; --i) {
    const c10::Argument& argument = arguments[i - 1];
    if (argument.kwarg_only()) continue;
    const auto value = constant_value(node->input(i - 1));
    if (!argument.default_value() || !value || *argument.default_value() != *value) return i;
  }
  return 0;
}

/// Functions of torch.nn.functional that hand on their arguments themselves when FX traces them
/// (handle_torch_function): so many by position, however they were written, and the others by name.
struct ForwardingFunction {
  std::string_view name;
  std::size_t positional;
};
constexpr std::array kForwardingFunctions{
    ForwardingFunction{"adaptive_avg_pool2d", 2},
    ForwardingFunction{"adaptive_avg_pool3d", 2},
    ForwardingFunction{"adaptive_max_pool1d", 2},
    ForwardingFunction{"adaptive_max_pool2d", 2},
    ForwardingFunction{"adaptive_max_pool3d", 2},
    ForwardingFunction{"affine_grid", 2},
    ForwardingFunction{"alpha_dropout", 1},
    ForwardingFunction{"batch_norm", 3},
    ForwardingFunction{"celu", 1},
    ForwardingFunction{"dropout", 1},
    ForwardingFunction{"dropout1d", 1},
    ForwardingFunction{"dropout2d", 1},
    ForwardingFunction{"dropout3d", 1},
    ForwardingFunction{"elu", 1},
    ForwardingFunction{"embedding", 2},
    ForwardingFunction{"embedding_bag", 2},
    ForwardingFunction{"feature_alpha_dropout", 1},
    ForwardingFunction{"fold", 3},
    ForwardingFunction{"glu", 1},
    ForwardingFunction{"grid_sample", 2},
    ForwardingFunction{"group_norm", 2},
    ForwardingFunction{"gumbel_softmax", 1},
    ForwardingFunction{"hardsigmoid", 1},
    ForwardingFunction{"hardswish", 1},
    ForwardingFunction{"hardtanh", 1},
    ForwardingFunction{"instance_norm", 1},
    ForwardingFunction{"interpolate", 1},
    ForwardingFunction{"layer_norm", 2},
    ForwardingFunction{"leaky_relu", 1},
    ForwardingFunction{"local_response_norm", 2},
    ForwardingFunction{"log_softmax", 1},
    ForwardingFunction{"lp_pool1d", 3},
    ForwardingFunction{"lp_pool2d", 3},
    ForwardingFunction{"lp_pool3d", 3},
    ForwardingFunction{"max_pool1d", 2},
    ForwardingFunction{"max_pool2d", 2},
    ForwardingFunction{"max_pool3d", 2},
    ForwardingFunction{"max_unpool1d", 3},
    ForwardingFunction{"max_unpool2d", 3},
    ForwardingFunction{"max_unpool3d", 3},
    ForwardingFunction{"mish", 1},
    ForwardingFunction{"normalize", 1},
    ForwardingFunction{"pad", 2},
    ForwardingFunction{"relu", 1},
    ForwardingFunction{"relu6", 1},
    ForwardingFunction{"rms_norm", 2},
    ForwardingFunction{"rrelu", 1},
    ForwardingFunction{"selu", 1},
    ForwardingFunction{"silu", 1},
    ForwardingFunction{"softmax", 1},
    ForwardingFunction{"softmin", 1},
    ForwardingFunction{"softsign", 1},
    ForwardingFunction{"tanhshrink", 1},
    ForwardingFunction{"unfold", 2},
};

std::optional<std::size_t> forwarded_by_position(std::string_view spelling) {
  constexpr std::string_view kFunctional = "torch.nn.functional.";
  if (!spelling.starts_with(kFunctional)) return std::nullopt;
  const auto found =
      std::ranges::find(kForwardingFunctions, spelling.substr(kFunctional.size()), &ForwardingFunction::name);
  return found == kForwardingFunctions.end() ? std::nullopt : std::optional(found->positional);
}

}  // namespace

std::vector<Symbol> targets(const Model& model, const Node* node) {
  std::vector<Symbol> result = written_spellings(model, node);
  if (!model.any_spelling || result.empty()) return result;
  for (const Symbol& other : other_spellings(model, node)) {
    if (std::ranges::find(result, other) == result.end()) result.push_back(other);
  }
  return result;
}

std::string functional_name(const Node* call) {
  constexpr std::string_view kNamespace = "__torch__.torch.nn.functional.";
  const auto type = call->input(0)->type()->cast<c10::FunctionType>();
  if (!type) return {};
  const std::string name = type->function()->qualname().qualifiedName();
  // TorchScript tells functions of one name apart: "___torch_mangle_2.interpolate".
  return name.starts_with(kNamespace) ? std::string(bare_name(name)) : std::string();
}

std::optional<std::size_t> positional_arguments(const Node* node, const Symbol& spelling) {
  if (is_module_call(node)) return std::nullopt;
  if (spelling.name.starts_with("operator.")) return operands_of(bare_name(spelling.name));
  if (const auto forwarded = forwarded_by_position(spelling.name)) return forwarded;
  const Origin origin = origin_of(node);
  const bool is_told = origin.writer == Origin::Writer::User && !origin.expression.empty();
  const auto written = is_told ? written_arguments(node) : std::nullopt;
  if (!written) return arguments_without_defaults(node);
  return written->positional.size() + (calls_method(node, origin) ? 1 : 0);
}

std::string display_name(const Model& model, const Node* node) {
  if (is_module_call(node)) return std::string(call_of(model, node).type.name);
  if (node->kind() == c10::prim::CallFunction) {
    const auto symbols = targets(model, node);
    return symbols.empty() ? "a function" : std::string(symbols.front().name);
  }
  return node->kind().toQualString();
}

}  // namespace tsq::ir
