#include "ir/python_source.h"

#include <torch/csrc/jit/frontend/lexer.h>
#include <torch/csrc/jit/frontend/parser.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <utility>

#include "ir/python_parts.h"

namespace tsq::ir {
namespace {

using torch::jit::Lexer;
using torch::jit::Source;
using torch::jit::Token;
using torch::jit::TreeRef;

/// Splits a file at the ends of its logical lines.
class Splitter {
 public:
  explicit Splitter(std::string_view text)
      : text_(text), source_(std::make_shared<Source>(without_semicolons(text))) {}

  std::vector<PythonStatement> run() && {
    for (Lexer lexer(source_); lexer.cur().kind != torch::jit::TK_EOF;) take(lexer.next());
    end_statement();
    return std::move(statements_);
  }

 private:
  void take(const Token& token) {
    if (token.kind == torch::jit::TK_NEWLINE) return end_statement();
    if (token.kind == torch::jit::TK_INDENT) {
      end_statement();
      functions_.push_back(head_);
    } else if (token.kind == torch::jit::TK_DEDENT) {
      end_statement();
      if (functions_.size() > 1) functions_.pop_back();
    } else {
      add(token);
    }
  }

  void add(const Token& token) {
    if (tokens_ == 0) {
      begin_ = token.range.start();
      first_ = token.kind;
      head_ = first_ == torch::jit::TK_CLASS_DEF ? std::string() : functions_.back();
    } else if (tokens_ == 1 && first_ == torch::jit::TK_DEF) {
      head_ = token.text();
    }
    end_ = token.range.end();
    last_ = token.kind;
    ++tokens_;
  }

  void end_statement() {
    if (std::exchange(tokens_, 0) == 0) return;
    const bool has_body = first_ == torch::jit::TK_DEF && last_ != ':';
    statements_.push_back({.function = has_body ? head_ : functions_.back(),
                           .first_line = source_->lineno_for_offset(begin_) + 1,
                           .last_line = source_->lineno_for_offset(end_ - 1) + 1,
                           .text = std::string(text_.substr(begin_, end_ - begin_))});
  }

  std::string_view text_;
  std::shared_ptr<Source> source_;
  std::vector<PythonStatement> statements_{};
  std::vector<std::string> functions_{std::string()};  ///< around the next statement, the innermost last
  std::string head_{};  ///< the function around the statements that the next indentation begins
  std::size_t begin_{};
  std::size_t end_{};
  int first_{};  ///< kind of the statement's first token
  int last_{};
  std::size_t tokens_{};
};

/// What a statement is put into, for the parser reads functions.
constexpr std::string_view kHead = "def f():\n  ";
constexpr std::size_t kLinesBefore = 1;

constexpr std::array kSigns{
    std::pair{int{'+'}, "+"},
    std::pair{int{'-'}, "-"},
    std::pair{int{torch::jit::TK_UNARY_MINUS}, "-"},
    std::pair{int{'*'}, "*"},
    std::pair{int{'/'}, "/"},
    std::pair{int{'@'}, "@"},
    std::pair{int{'%'}, "%"},
    std::pair{int{torch::jit::TK_POW}, "**"},
    std::pair{int{'~'}, "~"},
    std::pair{int{'&'}, "&"},
    std::pair{int{'|'}, "|"},
    std::pair{int{'^'}, "^"},
    std::pair{int{torch::jit::TK_LSHIFT}, "<<"},
    std::pair{int{torch::jit::TK_RSHIFT}, ">>"},
    std::pair{int{torch::jit::TK_EQ}, "=="},
    std::pair{int{torch::jit::TK_NE}, "!="},
    std::pair{int{'<'}, "<"},
    std::pair{int{torch::jit::TK_LE}, "<="},
    std::pair{int{'>'}, ">"},
    std::pair{int{torch::jit::TK_GE}, ">="},
};

std::string_view sign_of(int kind) {
  const auto* const found = std::ranges::find(kSigns, kind, &std::pair<int, const char*>::first);
  return found == kSigns.end() ? std::string_view() : found->second;
}

bool may_skip_parts(int kind) {
  constexpr std::array kKinds{torch::jit::TK_IF_EXPR, torch::jit::TK_AND, torch::jit::TK_OR,
                              torch::jit::TK_LIST_COMP, torch::jit::TK_DICT_COMP};
  return std::ranges::find(kKinds, kind) != kKinds.end();
}

/// Whether a tree is a number that is written out: `2.0`, `-1`, `2 * 3`.
bool is_literal_number(const TreeRef& tree) {
  if (tree->kind() == torch::jit::TK_CONST) return true;
  if (tree->isAtom() || tree->trees().empty() || sign_of(tree->kind()).empty()) return false;
  return std::ranges::all_of(tree->trees(), is_literal_number);
}

/// The last name of `a.b.name` or of `name`; empty for what is called otherwise.
std::string called_name(const TreeRef& callee) {
  if (callee->kind() == '.') return callee->tree(1)->tree(0)->stringValue();
  return callee->kind() == torch::jit::TK_VAR ? callee->tree(0)->tree(0)->stringValue() : std::string();
}

/// The text of a range and what follows it, as far as it closes brackets: the parser's ranges end before
/// them. Of a call the range is that of the callee.
std::string whole_text(const torch::jit::SourceRange& range, bool is_call) {
  // In a bracket, lines do not end.
  const std::string text = "(" + range.source()->text_str().str().substr(range.start());
  const std::size_t least = range.size() + 1;
  Lexer lexer(std::make_shared<Source>(text));
  int depth = 0;
  std::size_t end = 0;
  while (end < least || depth > 1 || (is_call && end == least)) {
    const Token token = lexer.next();
    if (token.kind == '(' || token.kind == '[' || token.kind == '{') ++depth;
    if (token.kind == ')' || token.kind == ']' || token.kind == '}') --depth;
    end = token.range.end();
  }
  return text.substr(1, end - 1);
}

/// How many arguments a call has by position, an operator operands.
std::size_t arguments_of(const TreeRef& tree) {
  if (tree->kind() == torch::jit::TK_APPLY) return tree->tree(1)->trees().size();
  return tree->kind() == torch::jit::TK_AUG_ASSIGN ? 2 : tree->trees().size();
}

/// Appends what a tree holds after its parts, which Python evaluates first.
void collect(const TreeRef& tree, bool may_be_skipped, std::vector<PythonExpression>& expressions) {
  if (tree->isAtom() || is_literal_number(tree)) return;
  const bool skips = may_be_skipped || may_skip_parts(tree->kind());
  for (const TreeRef& part : tree->trees()) collect(part, skips, expressions);
  const bool is_call = tree->kind() == torch::jit::TK_APPLY;
  // `x += y` is the assignment; the sign in it is a tree without parts.
  const bool is_assignment = tree->kind() == torch::jit::TK_AUG_ASSIGN;
  const bool has_operands = !tree->trees().empty();
  const int kind = is_assignment ? tree->tree(1)->kind() : tree->kind();
  const std::string name = is_call ? called_name(tree->tree(0)) : std::string(sign_of(kind));
  if (name.empty() || !has_operands) return;
  const torch::jit::SourceRange& range = is_call ? tree->tree(0)->range() : tree->range();
  const std::string text = whole_text(range, is_call);
  expressions.push_back({.name = name,
                         .is_call = is_call,
                         .text = text,
                         .head = is_call ? range.size() : text.size(),
                         .line = range.source()->lineno_for_offset(range.start()) - kLinesBefore,
                         .arguments = arguments_of(tree),
                         .is_number_first = !is_call && is_literal_number(tree->tree(0)),
                         .may_be_skipped = may_be_skipped});
}

}  // namespace

std::vector<PythonStatement> python_statements(std::string_view text) {
  try {
    return Splitter(text).run();
  } catch (const std::exception&) {
    return {};
  }
}

std::vector<PythonExpression> python_expressions(std::string_view statement) {
  std::vector<PythonExpression> expressions;
  try {
    for (const PythonPart& part : python_parts(statement)) {
      const std::string text = std::string(kHead).append(part.text).append("\n");
      torch::jit::Parser parser(std::make_shared<Source>(text));
      const std::size_t before = expressions.size();
      collect(parser.parseFunction(/*is_method=*/false), part.may_be_skipped, expressions);
      for (std::size_t i = before; i < expressions.size(); ++i) expressions[i].line += part.line;
    }
  } catch (const std::exception&) {
    return {};
  }
  return expressions;
}

}  // namespace tsq::ir
