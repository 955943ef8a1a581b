#pragma once

#include <tsq/symbol.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tsq {

/// The symbol of a PyTorch name. Kind by spelling: a name whose last part begins with a capital letter is a
/// module class, another bare name a method, another dotted one a function; "MatchAllNode" is match_all and
/// digits are a literal. Other spellings of a name return the public one:
/// "torch.nn.modules.conv.Conv2d" and TorchScript's
/// "__torch__.torch.nn.modules.conv.___torch_mangle_3.Conv2d" with "torch.nn.Conv2d", "torch.conv2d" and
/// "torch._C._nn.gelu" with the function of torch.nn.functional that they are, "torch.nn.intrinsic" with
/// "torch.ao.nn.intrinsic". A class of the user's own keeps its path: "__torch__.my.pkg.Block" is
/// "my.pkg.Block". Throws Error(BadConfig) with the nearest known name for one that PyTorch does not have,
/// such as "torch.nn.Conv9d"; names as TorchScript writes them ("__torch__.…") are taken as they are.
Symbol symbol(std::string_view name);

/// A tree of symbols in data-flow form: `torch.nn.ReLU(torch.nn.Conv2d)` is a ReLU that reads a Conv2d. A
/// symbol without arguments matches whatever its operands are. FX's tuple (Conv2d, ReLU) and its reversed
/// nested (ReLU, Conv2d) are this one tree.
struct Pattern {
  Symbol symbol{};
  std::vector<Pattern> args{};

  Pattern() = default;
  Pattern(Symbol s) : symbol(s) {}  // NOLINT(google-explicit-constructor): a symbol is a pattern by itself
  Pattern(Symbol s, std::vector<Pattern> a) : symbol(s), args(std::move(a)) {}

  friend bool operator==(const Pattern&, const Pattern&) = default;
};

template <typename... Args>
Pattern Symbol::operator()(Args&&... args) const {
  return Pattern(*this, {Pattern(std::forward<Args>(args))...});
}

/// FX's simple tuple: `chain({a, b, c})` is c(b(a)).
Pattern chain(const std::vector<Symbol>& forward_order);

/// The symbols of a pattern that is a chain, in forward order; the whole tree's symbols, last operator first,
/// otherwise.
std::vector<Symbol> symbols_of(const Pattern& pattern);

/// Number of symbols in the tree, match_all included (the length that decides which pattern is tried first:
/// C-01).
std::size_t leaf_count(const Pattern& pattern);

/// `torch.nn.ReLU(torch.nn.Conv2d)`.
std::string to_string(const Pattern& pattern);

}  // namespace tsq
