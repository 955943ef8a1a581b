#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <tsq/check_table.h>

#include <algorithm>
#include <array>
#include <optional>

#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/lowering_table.h"
#include "base/text.h"
#include "config/reference_definitions.h"
#include "operators/functional_weighted.h"
#include "torchscript/modules/reference/reference_module.h"

namespace tsq {
namespace {

bool is_for_training(const Symbol& symbol) {
  return symbol.name.starts_with("torch.ao.nn.qat.") || symbol.name.starts_with("torch.ao.nn.intrinsic.qat.");
}

bool is_fusion(const BackendPatternConfig& row) { return row.fuser_method.has_value(); }

/// The class that a fusion makes; none where only the user's function knows it.
std::optional<Symbol> class_made_by(const BackendPatternConfig& row) {
  if (row.fuser_method == Fuser::Registered) return std::nullopt;
  if (row.fuser_method == Fuser::ConvBnReLU) {
    const std::string root(symbols_of(row.key()).front().name);
    return symbol("torch.ao.nn.intrinsic.ConvReLU" + root.substr(root.size() - 2));
  }
  return row.fused_module;
}

bool some_fusion_makes(const BackendConfig& backend, const Symbol& type) {
  return std::ranges::any_of(backend.configs(), [&](const BackendPatternConfig& row) {
    return is_fusion(row) && class_made_by(row).value_or(type) == type;
  });
}

/// The operator that a row's kernel is looked up by: of a fused class, what the fusion that makes it begins
/// with.
std::string_view kernel_root(const BackendConfig& backend, const BackendPatternConfig& row) {
  const Symbol first = symbols_of(row.key()).front();
  if (row.root_module) return row.root_module->name;
  for (const BackendPatternConfig& other : backend.configs()) {
    if (is_fusion(other) && (other.fused_module == first || class_made_by(other) == first))
      return symbols_of(other.key()).front().name;
  }
  const std::string_view module = operators::module_of_functional(first.name);
  return module.empty() ? first.name : module;
}

/// Functions that TorchScript spells otherwise, or compiles out of Python.
constexpr std::array<std::string_view, 9> kOtherSpellings{
    "operator.getitem", "operator.truediv", "operator.floordiv", "operator.mod",   "operator.invert",
    "operator.and_",    "operator.or_",     "operator.lshift",   "operator.rshift"};

bool has_aten_operator(std::string_view name) {
  const auto has = [](std::string_view word) {
    return !torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(fmt::format("aten::{}", word)))
                .empty();
  };
  return has(name) || (name.ends_with('_') && has(name.substr(0, name.size() - 1)));
}

/// Why no graph holds an operator of this name; empty where one may.
std::string unmatchable(const BackendConfig& backend, const Symbol& symbol) {
  if (symbol.kind == SymbolKind::MatchAll || symbol.kind == SymbolKind::Literal) return {};
  if (symbol.kind != SymbolKind::Module) {
    const bool is_compiled =
        symbol.name.starts_with("torch.nn.functional.") || symbol.name.starts_with("torch.ops.");
    const std::string_view word = symbol.name.substr(symbol.name.rfind('.') + 1);
    const bool is_known = is_compiled || has_aten_operator(word) ||
                          std::ranges::find(kOtherSpellings, symbol.name) != kOtherSpellings.end();
    return is_known ? "" : fmt::format("TorchScript has no operator for '{}'", symbol.name);
  }
  if (symbol.name.starts_with("torch.ao.nn.") && !is_for_training(symbol) &&
      !some_fusion_makes(backend, symbol))
    return fmt::format("no fusion of the table makes a {}", symbol.name);
  return {};
}

/// Whether `general` matches whatever `special` does.
bool covers(const Pattern& general, const Pattern& special) {
  if (general.symbol.kind == SymbolKind::MatchAll) return true;
  return general.symbol == special.symbol && general.args.size() <= special.args.size() &&
         std::equal(general.args.begin(), general.args.end(), special.args.begin(), covers);
}

bool covers_a_part(const Pattern& general, const Pattern& special) {
  return covers(general, special) ||
         std::ranges::any_of(special.args, [&](const Pattern& arg) { return covers_a_part(general, arg); });
}

/// An addition with its convolution is fused only where that is sound.
bool fuses_always(const BackendPatternConfig& row) {
  return is_fusion(row) && row.extra_inputs_getter == ExtraInputsGetter::None;
}

/// The row that takes all that `row` matches; null where there is none.
const BackendPatternConfig* shadow_of(const BackendConfig& backend, const BackendPatternConfig& row) {
  bool is_before = true;
  for (const BackendPatternConfig& other : backend.configs()) {
    if (&other == &row) {
      is_before = false;
      continue;
    }
    const std::size_t size = leaf_count(other.key());
    const bool is_tried_first = size > leaf_count(row.key()) || (size == leaf_count(row.key()) && is_before);
    if (is_fusion(other) == is_fusion(row) && is_tried_first && covers(other.key(), row.key())) return &other;
    if (fuses_always(other) && !is_fusion(row) && covers_a_part(other.key(), row.key())) return &other;
  }
  return nullptr;
}

bool has_weighted_kernel(std::string_view op, kernels::PostOp post_op) {
  return kernels::weighted_kernel(op, post_op) != nullptr ||
         kernels::dynamic_kernel(op, post_op, c10::ScalarType::QInt8) != nullptr;
}

constexpr std::array<std::string_view, 9> kOtherKernels{"torch.nn.Embedding",
                                                        "torch.nn.EmbeddingBag",
                                                        "torch.nn.functional.embedding",
                                                        "torch.nn.functional.embedding_bag",
                                                        "torch.nn.LSTM",
                                                        "torch.nn.GRU",
                                                        "torch.nn.LSTMCell",
                                                        "torch.nn.GRUCell",
                                                        "torch.nn.RNNCell"};

/// Whether lowering has a kernel for what a row of one operator, or of one and its activation, matches.
bool has_kernel(const BackendConfig& backend, const BackendPatternConfig& row) {
  const std::vector<Symbol> symbols = symbols_of(row.key());
  const Symbol& first = symbols.front();
  if (std::ranges::find(kOtherKernels, first.name) != kOtherKernels.end()) return true;
  const kernels::PostOp post_op =
      symbols.size() > 1 ? kernels::activation_post_op(symbols.back().name) : kernels::post_op_of(first.name);
  if (has_weighted_kernel(kernel_root(backend, row), post_op)) return true;
  const kernels::BinaryKernel* binary = kernels::binary_kernel(first.name);
  if (binary != nullptr) return symbols.size() == 1 || !binary->relu_kernel.empty();
  return std::ranges::all_of(symbols,
                             [](const Symbol& symbol) { return kernels::unary_kernel(symbol) != nullptr; });
}

bool quantizes(const BackendPatternConfig& row) {
  return !is_fusion(row) && !row.dtype_configs.empty() &&
         row.observation_type != ObservationType::INPUT_OUTPUT_NOT_OBSERVED;
}

bool is_quantized_activation(std::optional<c10::ScalarType> dtype) {
  return !dtype || dtype == c10::ScalarType::QUInt8 || dtype == c10::ScalarType::QInt8;
}

/// Whether a weighted kernel reads an input and a weight of these dtypes.
bool takes_dtypes(std::string_view root, const DTypeConfig& dtypes) {
  const auto weight = dtypes.weight_dtype.dtype;
  if (dtypes.is_dynamic.value_or(false) || weight == c10::ScalarType::Half)
    return !weight || kernels::dynamic_kernel(root, kernels::PostOp::None, *weight) != nullptr;
  return is_quantized_activation(dtypes.input_dtype.dtype) && (!weight || weight == c10::ScalarType::QInt8);
}

/// The dtypes of a weighted row where no kernel takes any of them; empty otherwise.
std::string untaken_dtypes(const BackendConfig& backend, const BackendPatternConfig& row) {
  const std::string_view root = kernel_root(backend, row);
  if (!has_weighted_kernel(root, kernels::PostOp::None)) return {};
  std::vector<std::string> names;
  for (const DTypeConfig& dtypes : row.dtype_configs) {
    if (takes_dtypes(root, dtypes)) return {};
    const auto name = [](std::optional<c10::ScalarType> dtype) {
      return dtype ? dtype_name(*dtype) : std::string_view("any");
    };
    names.push_back(fmt::format("input {} with weight {}", name(dtypes.input_dtype.dtype),
                                name(dtypes.weight_dtype.dtype)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// What is wrong with the reference module that a row names; empty where nothing is.
std::string wrong_reference(const BackendPatternConfig& row) {
  if (!row.reference_quantized_module) return {};
  const Symbol& reference = *row.reference_quantized_module;
  constexpr std::string_view kPyTorchs = "torch.ao.nn.quantized.reference.";
  if (reference.name.starts_with(kPyTorchs)) {
    if (!row.root_module || bare_name(row.root_module->name) == bare_name(reference.name)) return {};
    return fmt::format("names {}, the reference module of another layer than {}", reference.name,
                       row.root_module->name);
  }
  if (reference_definition(reference) || torchscript::is_registered_reference(reference)) return {};
  return fmt::format("names the reference module '{}', which nobody has registered", reference.name);
}

}  // namespace

std::string_view to_string(TableFinding::Kind kind) {
  switch (kind) {
    case TableFinding::Kind::NeverMatches:
      return "never matches";
    case TableFinding::Kind::Shadowed:
      return "shadowed";
    case TableFinding::Kind::NoKernel:
      return "no kernel";
    case TableFinding::Kind::WrongReference:
      return "wrong reference";
  }
  return "";
}

std::vector<TableFinding> check_table(const BackendConfig& backend) {
  std::vector<TableFinding> findings;
  for (std::size_t i = 0; i < backend.configs().size(); ++i) {
    const BackendPatternConfig& row = backend.configs()[i];
    const std::vector<Symbol> symbols = symbols_of(row.key());
    if (std::ranges::any_of(symbols, is_for_training)) continue;
    const std::string pattern = to_string(row.key());
    const auto add = [&](TableFinding::Kind kind, const std::string& what) {
      findings.push_back({.kind = kind,
                          .row = i,
                          .pattern = pattern,
                          .sentence = fmt::format("'configs[{}]' ({}) {}", i, pattern, what)});
    };
    const auto never = std::ranges::find_if(
        symbols, [&](const Symbol& symbol) { return !unmatchable(backend, symbol).empty(); });
    const BackendPatternConfig* shadow = shadow_of(backend, row);
    if (never != symbols.end()) {
      add(TableFinding::Kind::NeverMatches, "never matches: " + unmatchable(backend, *never));
    } else if (shadow != nullptr) {
      add(TableFinding::Kind::Shadowed,
          fmt::format("never matches: 'configs[{}]' ({}) takes all that it would",
                      shadow - backend.configs().data(), to_string(shadow->key())));
    } else if (const std::string wrong = wrong_reference(row); !wrong.empty()) {
      add(TableFinding::Kind::WrongReference, wrong);
    } else if (!quantizes(row)) {
      continue;
    } else if (!has_kernel(backend, row)) {
      add(TableFinding::Kind::NoKernel,
          "has no kernel on any engine: what it quantizes stays in reference form");
    } else if (const std::string dtypes = untaken_dtypes(backend, row); !dtypes.empty()) {
      add(TableFinding::Kind::NoKernel,
          fmt::format("has no kernel for {}: what it quantizes stays in reference form", dtypes));
    }
  }
  return findings;
}

}  // namespace tsq
