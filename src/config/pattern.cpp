#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/error.h>
#include <tsq/pattern.h>

#include <algorithm>
#include <span>

#include "base/mapped.h"

namespace tsq {
namespace {

bool is_chain(const Pattern& pattern) {
  return pattern.args.empty() || (pattern.args.size() == 1 && is_chain(pattern.args[0]));
}

void collect(const Pattern& pattern, std::vector<Symbol>& symbols) {
  symbols.push_back(pattern.symbol);
  for (const Pattern& arg : pattern.args) collect(arg, symbols);
}

}  // namespace

Pattern chain(const std::vector<Symbol>& forward_order) {
  if (forward_order.empty())
    throw Error(ErrorCode::BadConfig, "a pattern has no symbol",
                "give one symbol, or two or three in forward order");
  Pattern pattern(forward_order.front());
  for (const Symbol& next : std::span(forward_order).subspan(1))
    pattern = Pattern(next, std::vector<Pattern>{pattern});
  return pattern;
}

std::vector<Symbol> symbols_of(const Pattern& pattern) {
  std::vector<Symbol> symbols;
  collect(pattern, symbols);
  if (is_chain(pattern)) std::ranges::reverse(symbols);
  return symbols;
}

std::size_t leaf_count(const Pattern& pattern) {
  std::size_t count = 1;
  for (const Pattern& arg : pattern.args) count += leaf_count(arg);
  return count;
}

std::string to_string(const Pattern& pattern) {
  const std::string name(pattern.symbol.name.empty() ? match_all.name : pattern.symbol.name);
  if (pattern.args.empty()) return name;
  const auto args = mapped(pattern.args, [](const Pattern& arg) { return to_string(arg); });
  return fmt::format("{}({})", name, fmt::join(args, ", "));
}

}  // namespace tsq
