#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/pattern.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "base/text.h"
#include "config/names/known_names.h"

namespace tsq {
namespace {

void replace_prefix(std::string& name, std::string_view prefix, std::string_view replacement) {
  if (name.starts_with(prefix)) name.replace(0, prefix.size(), replacement);
}

/// "a.___torch_mangle_3.B" → "a.B": TorchScript tells classes of one name apart so.
void drop_mangling(std::string& name) {
  constexpr std::string_view kMark = "___torch_mangle_";
  for (auto at = name.find(kMark); at != std::string::npos; at = name.find(kMark, at)) {
    const auto end = name.find('.', at);
    if (end == std::string::npos) return;
    name.erase(at, end + 1 - at);
  }
}

/// "torch.nn.modules.conv.Conv2d" → "torch.nn.Conv2d", "torch.ao.nn.intrinsic.modules.fused.ConvReLU2d" →
/// "torch.ao.nn.intrinsic.ConvReLU2d".
void make_class_public(std::string& name) {
  for (const std::string_view old : {"intrinsic", "qat", "quantized", "quantizable"}) {
    replace_prefix(name, fmt::format("torch.nn.{}.", old), fmt::format("torch.ao.nn.{}.", old));
  }
  if (!name.starts_with("torch.nn.") && !name.starts_with("torch.ao.nn.")) return;
  const auto at = name.find(".modules.");
  if (at != std::string::npos) name.erase(at + 1, name.rfind('.') - at);
}

/// Functions that torch and torch.nn.functional both hold: one object in Python, hence one symbol.
constexpr std::array<std::string_view, 31> kTorchAliases{"adaptive_avg_pool1d",
                                                         "avg_pool1d",
                                                         "bilinear",
                                                         "celu_",
                                                         "channel_shuffle",
                                                         "conv1d",
                                                         "conv2d",
                                                         "conv3d",
                                                         "conv_tbc",
                                                         "conv_transpose1d",
                                                         "conv_transpose2d",
                                                         "conv_transpose3d",
                                                         "cosine_similarity",
                                                         "hardshrink",
                                                         "native_channel_shuffle",
                                                         "pairwise_distance",
                                                         "pdist",
                                                         "pixel_shuffle",
                                                         "pixel_unshuffle",
                                                         "prelu",
                                                         "relu_",
                                                         "rrelu_",
                                                         "selu_",
                                                         "threshold_",
                                                         "avg_pool2d",
                                                         "avg_pool3d",
                                                         "gelu",
                                                         "linear",
                                                         "hardtanh_",
                                                         "leaky_relu_",
                                                         "elu_"};

void make_function_public(std::string& name) {
  constexpr std::string_view kTorch = "torch.";
  constexpr std::string_view kNative = "torch._C._nn.";
  if (name.starts_with(kNative)) {
    const std::string_view rest = std::string_view(name).substr(kNative.size());
    name = fmt::format("torch.nn.functional.{}", rest == "log_sigmoid" ? "logsigmoid" : rest);
    return;
  }
  replace_prefix(name, "torch._C._VariableFunctions.", kTorch);
  replace_prefix(name, "_operator.", "operator.");
  constexpr std::string_view kDunder = "operator.__";
  if (name.starts_with(kDunder) && name.ends_with("__") && name.size() > kDunder.size() + 2) {
    const std::string word = name.substr(kDunder.size(), name.size() - kDunder.size() - 2);
    const bool keyword = word == "and" || word == "or" || word == "not";
    name = fmt::format("operator.{}{}", word, keyword ? "_" : "");
  }
  if (!name.starts_with(kTorch)) return;
  const std::string_view rest = std::string_view(name).substr(kTorch.size());
  if (std::ranges::find(kTorchAliases, rest) != kTorchAliases.end())
    name = fmt::format("torch.nn.functional.{}", rest);
}

bool is_literal(std::string_view name) {
  const std::string_view digits = name.starts_with('-') ? name.substr(1) : name;
  return !digits.empty() && std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Overloads of torch.ops are functions although some begin with a capital letter:
/// "torch.ops.aten.add.Tensor".
bool is_class(std::string_view name) {
  const std::string_view last = bare_name(name);
  return !name.starts_with("torch.ops.") && !last.empty() &&
         std::isupper(static_cast<unsigned char>(last[0])) != 0;
}

}  // namespace

Symbol parse_symbol(std::string_view given) {
  constexpr std::string_view kTorchScript = "__torch__.";
  const bool from_torchscript = given.starts_with(kTorchScript);
  std::string name(without_prefix(given, kTorchScript));
  drop_mangling(name);
  replace_prefix(name, "__main__.", "");
  if (bare_name(name) == "MatchAllNode") return match_all;
  if (is_literal(name)) return {SymbolKind::Literal, interned(std::move(name))};
  if (from_torchscript || is_class(name)) {
    make_class_public(name);
    return {SymbolKind::Module, interned(std::move(name))};
  }
  if (name.find('.') == std::string::npos) return {SymbolKind::Method, interned(std::move(name))};
  make_function_public(name);
  return {SymbolKind::Function, interned(std::move(name))};
}

Symbol symbol(std::string_view name) {
  const Symbol found = parse_symbol(name);
  if (found.kind == SymbolKind::MatchAll || found.kind == SymbolKind::Literal ||
      name.starts_with("__torch__."))
    return found;
  if (const auto problem = unknown_name(found))
    throw Error(ErrorCode::BadConfig, problem->problem, problem->remedy);
  return found;
}

}  // namespace tsq
