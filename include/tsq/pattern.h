#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tsq {

enum class SymbolKind { Module, Function, Method, MatchAll };

/// A PyTorch name that a pattern can speak of: a module class ("torch.nn.Conv2d"), a function
/// ("torch.nn.functional.relu", "torch.add", "operator.add"), a Tensor method by its bare name ("view"), or match_all.
/// The name lives as long as the process; compare symbols freely.
struct Symbol {
  SymbolKind kind{SymbolKind::MatchAll};
  std::string_view name{};

  friend constexpr bool operator==(const Symbol&, const Symbol&) = default;
};

/// The symbol of a public PyTorch name. Kind by spelling: a bare name is a method; a dotted name whose last part begins
/// with a capital letter is a module class; "MatchAllNode" is match_all; anything else is a function. The private spelling of a
/// class ("torch.nn.modules.conv.Conv2d", "torch.ao.nn.intrinsic.modules.fused.ConvReLU2d") answers with the public one.
Symbol symbol(std::string_view name);

/// A tree of symbols in data-flow form: `torch.nn.ReLU(torch.nn.Conv2d)` is a ReLU that reads a Conv2d. A symbol without
/// arguments matches whatever its operands are. FX's tuple (Conv2d, ReLU) and its reversed nested (ReLU, Conv2d) are this one tree.
struct Pattern {
  Symbol symbol{};
  std::vector<Pattern> args{};

  Pattern() = default;
  Pattern(Symbol s) : symbol(s) {}  // NOLINT(google-explicit-constructor): a symbol is a pattern by itself
  Pattern(Symbol s, std::vector<Pattern> a) : symbol(s), args(std::move(a)) {}

  friend bool operator==(const Pattern&, const Pattern&) = default;
};

/// FX's simple tuple: `chain({a, b, c})` is c(b(a)).
Pattern chain(const std::vector<Symbol>& forward_order);

/// The symbols of a pattern that is a chain, in forward order; the whole tree's symbols, last operator first, otherwise.
std::vector<Symbol> symbols_of(const Pattern& pattern);

/// Number of symbols in the tree, match_all included (the length that decides which pattern is tried first: C-01).
std::size_t leaf_count(const Pattern& pattern);

/// `torch.nn.ReLU(torch.nn.Conv2d)`.
std::string to_string(const Pattern& pattern);

}  // namespace tsq
