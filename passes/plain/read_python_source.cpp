// A trace has one operator for torch.add(x, y), x.add(y) and x + y, which are three things to FX and to its
// tables. Its debug information names file and line: where the file is here, the line tells which it was.
//   aten::add, model.py(12)   →   aten::add, "torch.add" of `y = torch.add(x, y) + 1.0`

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "io/python_file.h"
#include "ir/analysis.h"
#include "ir/callee.h"
#include "ir/origin.h"
#include "ir/python_operators.h"
#include "ir/python_source.h"
#include "passes/plain/passes.h"

namespace tsq::passes {
namespace {

using ir::PythonExpression;
using ir::PythonStatement;

class Files {
 public:
  /// Null where there is no such statement: no such file here, or another than the one that was traced.
  const PythonStatement* statement(const ir::TracedCall& call) {
    const std::vector<PythonStatement>& statements = statements_of(call.file);
    const auto after =
        std::ranges::upper_bound(statements, call.line, std::less<>{}, &PythonStatement::first_line);
    if (after == statements.begin()) return nullptr;
    const PythonStatement& found = *std::prev(after);
    return found.last_line >= call.line && found.function == call.function ? &found : nullptr;
  }

 private:
  const std::vector<PythonStatement>& statements_of(const std::string& file) {
    const auto [entry, is_new] = statements_.try_emplace(file);
    if (!is_new) return entry->second;
    const std::optional<std::string> text = io::read_python_file(file);
    if (text) entry->second = ir::python_statements(*text);
    return entry->second;
  }

  std::map<std::string, std::vector<PythonStatement>> statements_{};
};

/// Whether an expression may be the one that was traced as an operator.
bool may_be(const PythonExpression& expression, std::string_view aten) {
  const std::string_view plain = ir::without_underscore(aten);
  // The operators of `1.0 - x` and of `1.0 / x` have other names.
  if (expression.is_number_first && (plain == "sub" || plain == "div")) return false;
  if (expression.is_call) return ir::names_operator(expression.name, plain);
  const ir::PythonOperator* const python = ir::python_operator(plain);
  return python != nullptr && python->sign == expression.name &&
         ir::operands_of(python->name) == expression.arguments;
}

/// The operators of one kind that one statement has made, in the order in which they ran.
struct Made {
  const PythonStatement* statement{};
  std::string file{};
  std::vector<ir::Node*> nodes{};
};

bool are_alike(const std::vector<PythonExpression>& expressions) {
  const auto written = [](const PythonExpression& each) {
    return std::tuple(each.is_call, each.is_call ? each.text.substr(0, each.head) : each.name, each.arguments,
                      each.is_number_first);
  };
  return std::ranges::all_of(expressions, [&](const PythonExpression& each) {
    return written(each) == written(expressions.front());
  });
}

/// For each node its expression; empty where the statement does not tell.
std::vector<PythonExpression> expressions_of(const Made& made) {
  std::vector<PythonExpression> all = ir::python_expressions(made.statement->text);
  std::erase_if(all, [&](const PythonExpression& each) {
    return !may_be(each, made.nodes.front()->kind().toUnqualString());
  });
  if (all.empty()) return {};
  const std::size_t count = made.nodes.size();
  if (are_alike(all)) return std::vector(count, all.front());
  const bool all_ran =
      std::ranges::none_of(all, &PythonExpression::may_be_skipped) && count % all.size() == 0;
  if (all_ran) {
    std::vector<PythonExpression> expressions;
    for (std::size_t i = 0; i < count; ++i) expressions.push_back(all[i % all.size()]);
    return expressions;
  }
  // Of operators it may be open which have the number first.
  const bool are_operators = std::ranges::none_of(all, &PythonExpression::is_call);
  std::erase_if(all, std::mem_fn(&PythonExpression::is_number_first));
  return are_operators && !all.empty() && are_alike(all) ? std::vector(count, all.front())
                                                         : std::vector<PythonExpression>();
}

bool tell(const Made& made) {
  const std::vector<PythonExpression> expressions = expressions_of(made);
  if (expressions.empty()) return false;
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    // No more of the user's source than this: it goes into the files that are written.
    const PythonExpression& written = expressions[i];
    const auto source = std::make_shared<torch::jit::Source>(written.text, made.file,
                                                             made.statement->first_line + written.line);
    made.nodes[i]->setSourceRange(torch::jit::SourceRange(source, 0, written.head));
  }
  return true;
}

}  // namespace

bool read_python_source(ir::Model& model, const PassContext& /*context*/) {
  Files files;
  std::map<std::tuple<const PythonStatement*, std::string, std::string>, Made> made;
  for (ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!node->kind().is_aten()) continue;
    const std::optional<ir::TracedCall> call = ir::traced_call(node);
    const PythonStatement* const statement = call ? files.statement(*call) : nullptr;
    if (statement == nullptr) continue;
    Made& group = made[{statement, call->callers, node->kind().toUnqualString()}];
    group.statement = statement;
    group.file = call->file;
    group.nodes.push_back(node);
  }
  bool changed = false;
  for (const auto& [key, group] : made) {
    if (!tell(group)) continue;
    model.python_files.insert(group.file);
    changed = true;
  }
  return changed;
}

}  // namespace tsq::passes
