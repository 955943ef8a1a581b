#include "config/names/known_names.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/text.h"
#include "config/names/pytorch_names.h"

namespace tsq {
namespace {

/// `prefix.word` for a word that PyTorch has in another namespace: "torch.Conv2d" was meant as
/// "torch.nn.Conv2d". From the shortest namespace to the longest.
std::string full_name(std::string_view word) {
  const auto spaces = pytorch_namespaces();
  for (auto space = spaces.rbegin(); space != spaces.rend(); ++space) {
    if (has_word(space->names, word)) return fmt::format("{}{}", space->prefix, word);
  }
  return {};
}

UnknownName unknown(std::string_view prefix, std::string_view word, std::span<const std::string_view> words) {
  const std::string elsewhere = full_name(word);
  const std::string_view near = nearest(word, words);
  std::string remedy = "a class of your own is written with its path, 'my_package.Block'";
  if (!near.empty()) remedy = fmt::format("did you mean '{}{}'?", prefix, near);
  if (!elsewhere.empty()) remedy = fmt::format("did you mean '{}'?", elsewhere);
  return {.problem = fmt::format("PyTorch has no '{}{}'", prefix, word), .remedy = std::move(remedy)};
}

/// PyTorch's tables speak of methods that Tensor has not ("hardsigmoid", "leaky_relu"), by the names of the
/// functions.
bool is_known_method(std::string_view name) {
  const std::string_view out_of_place = name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
  return has_word(tensor_methods(), name) || has_word(pytorch_names("torch.nn.functional."), out_of_place);
}

}  // namespace

std::optional<UnknownName> unknown_name(const Symbol& symbol) {
  if (symbol.kind == SymbolKind::Method) {
    if (is_known_method(symbol.name)) return std::nullopt;
    return unknown("", symbol.name, split_words(tensor_methods()));
  }
  if (symbol.name.find('.') == std::string_view::npos && has_word(pytorch_names("torch.nn."), symbol.name)) {
    return UnknownName{.problem = fmt::format("got '{}' without its module", symbol.name),
                       .remedy = fmt::format("did you mean 'torch.nn.{}'?", symbol.name)};
  }
  for (const PyTorchNamespace& space : pytorch_namespaces()) {
    if (!symbol.name.starts_with(space.prefix)) continue;
    const std::string_view word = symbol.name.substr(space.prefix.size());
    if (word.find('.') != std::string_view::npos || word.starts_with('_')) continue;
    if (!has_word(space.names, word)) return unknown(space.prefix, word, split_words(space.names));
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tsq
