#include <tsq/error.h>

namespace tsq {
namespace {

std::string sentence(const std::string& problem, const std::string& remedy, const Where& where) {
  std::string text;
  if (!where.pass.empty()) text += where.pass + ": ";
  if (!where.layer.empty()) text += "layer '" + where.layer + "'";
  if (!where.op.empty()) text += where.layer.empty() ? "'" + where.op + "'" : " (" + where.op + ")";
  if (!where.layer.empty() || !where.op.empty()) text += ": ";
  text += problem;
  if (!remedy.empty()) text += "; " + remedy;
  return text;
}

}  // namespace

Error::Error(ErrorCode code, std::string problem, std::string remedy, Where where)
    : std::runtime_error(sentence(problem, remedy, where)),
      code_(code),
      problem_(std::move(problem)),
      remedy_(std::move(remedy)),
      where_(std::move(where)) {}

Error Error::in_pass(std::string pass) const {
  if (!where_.pass.empty()) return *this;
  Where where = where_;
  where.pass = std::move(pass);
  return Error(code_, problem_, remedy_, std::move(where));
}

}  // namespace tsq
