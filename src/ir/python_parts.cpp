#include "ir/python_parts.h"

#include <torch/csrc/jit/frontend/lexer.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <span>

namespace tsq::ir {
namespace {

using torch::jit::Token;
using Tokens = std::span<const Token>;

std::vector<Token> tokens_of(std::string_view statement) {
  torch::jit::Lexer lexer(std::make_shared<torch::jit::Source>(without_semicolons(statement)));
  std::vector<Token> tokens;
  for (Token token = lexer.next(); token.kind != torch::jit::TK_EOF; token = lexer.next()) {
    if (token.kind != torch::jit::TK_NEWLINE) tokens.push_back(token);
  }
  return tokens;
}

bool is_one_of(int kind, std::initializer_list<int> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

/// The first token for which `is_wanted` that is in no bracket, or the end.
template <typename Wanted>
std::size_t find_outside_brackets(Tokens tokens, Wanted is_wanted) {
  int depth = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (depth == 0 && is_wanted(i)) return i;
    if (is_one_of(tokens[i].kind, {'(', '[', '{'})) ++depth;
    if (is_one_of(tokens[i].kind, {')', ']', '}'})) --depth;
  }
  return tokens.size();
}

bool is_compound(int kind) {
  return is_one_of(kind,
                   {torch::jit::TK_IF, torch::jit::TK_ELIF, torch::jit::TK_ELSE, torch::jit::TK_WHILE,
                    torch::jit::TK_FOR, torch::jit::TK_WITH, torch::jit::TK_DEF, torch::jit::TK_CLASS_DEF});
}

/// What runs of a head: `f(x)` of `for y in f(x)`, `with f(x) as y` and `if f(x)`.
Tokens head_expression(Tokens head) {
  const int kind = head.front().kind;
  const auto is = [&](int wanted) {
    return [head, wanted](std::size_t i) { return head[i].kind == wanted; };
  };
  if (is_one_of(kind, {torch::jit::TK_DEF, torch::jit::TK_CLASS_DEF})) return {};
  if (kind == torch::jit::TK_WITH)
    return head.first(find_outside_brackets(head, is(torch::jit::TK_AS))).subspan(1);
  if (kind != torch::jit::TK_FOR) return head.subspan(1);
  const std::size_t in = find_outside_brackets(head, is(torch::jit::TK_IN));
  return head.subspan(std::min(in + 1, head.size()));
}

/// The parser has no f"…" and r"…".
bool is_prefix_of_string(Tokens tokens, std::size_t i) {
  return i + 1 < tokens.size() && tokens[i].kind == torch::jit::TK_IDENT &&
         tokens[i + 1].kind == torch::jit::TK_STRINGLITERAL &&
         tokens[i].range.end() == tokens[i + 1].range.start();
}

PythonPart part_of(std::string_view statement, Tokens tokens, bool may_be_skipped) {
  const std::size_t begin = tokens.front().range.start();
  std::string text(statement.substr(begin, tokens.back().range.end() - begin));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (is_prefix_of_string(tokens, i))
      text.replace(tokens[i].range.start() - begin, tokens[i].range.size(), tokens[i].range.size(), ' ');
  }
  const auto lines = std::ranges::count(statement.substr(0, begin), '\n');
  return {.text = text, .line = static_cast<std::size_t>(lines), .may_be_skipped = may_be_skipped};
}

}  // namespace

std::string without_semicolons(std::string_view text) {
  std::string result(text);
  std::ranges::replace(result, ';', ' ');
  return result;
}

std::vector<PythonPart> python_parts(std::string_view statement) {
  const std::vector<Token> all = tokens_of(statement);
  Tokens rest = all;
  std::vector<PythonPart> parts;
  const bool has_head = !rest.empty() && is_compound(rest.front().kind);
  if (has_head) {
    const std::size_t colon = find_outside_brackets(rest, [&](std::size_t i) { return rest[i].kind == ':'; });
    const Tokens head = rest.first(colon);
    const Tokens expression = head_expression(head);
    const bool may_be_skipped = is_one_of(head.front().kind, {torch::jit::TK_ELIF, torch::jit::TK_WHILE});
    if (!expression.empty()) parts.push_back(part_of(statement, expression, may_be_skipped));
    rest = rest.subspan(std::min(colon + 1, rest.size()));
  }
  while (!rest.empty()) {
    const std::size_t next = find_outside_brackets(rest, [&](std::size_t i) {
      if (i == 0) return false;
      const std::size_t end = rest[i - 1].range.end();
      return statement.substr(end, rest[i].range.start() - end).find(';') != std::string_view::npos;
    });
    parts.push_back(part_of(statement, rest.first(next), has_head));
    rest = rest.subspan(next);
  }
  return parts;
}

}  // namespace tsq::ir
