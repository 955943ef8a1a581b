#include <tsq/error.h>
#include <tsq/pattern.h>

#include <algorithm>

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
  for (std::size_t i = 1; i < forward_order.size(); ++i) {
    std::vector<Pattern> args;
    args.push_back(std::move(pattern));
    pattern = Pattern(forward_order[i], std::move(args));
  }
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
  std::string text(pattern.symbol.name.empty() ? match_all.name : pattern.symbol.name);
  if (pattern.args.empty()) return text;
  text += '(';
  for (std::size_t i = 0; i < pattern.args.size(); ++i) {
    if (i > 0) text += ", ";
    text += to_string(pattern.args[i]);
  }
  return text + ')';
}

}  // namespace tsq
