#include "base/user_call.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <stdexcept>

#include "base/libtorch_error.h"

namespace tsq {
namespace {

/// What the standard library and LibTorch say of their own insides tells nobody what to mend.
std::string reason_for_people(const std::exception& exception) {
  if (dynamic_cast<const std::out_of_range*>(&exception) != nullptr)
    return "it asks for an element that is not there";
  return is_assertion(exception) ? "it calls LibTorch with what that does not take" : reason_of(exception);
}

}  // namespace

Error failed_call(const std::string& function, const std::exception& exception, Where where) {
  rethrow_out_of_memory(exception);
  return {ErrorCode::BadConfig, fmt::format("{} failed: {}", function, reason_for_people(exception)),
          "mend the function, or take the row out of the table", std::move(where)};
}

void check_call(const torch::jit::Module& module, std::size_t values, const std::string& subject,
                const Where& where) {
  const auto forward = module.find_method("forward");
  const std::string remedy = "define forward with the arguments of the operator whose place it takes";
  if (!forward) throw Error(ErrorCode::BadConfig, subject + " a module without forward", remedy, where);
  const auto& arguments = forward->function().getSchema().arguments();
  const auto needed = static_cast<std::size_t>(std::ranges::count_if(
      arguments, [](const c10::Argument& argument) { return !argument.default_value(); }));
  constexpr std::size_t kSelf = 1;
  if (values + kSelf >= needed && values + kSelf <= arguments.size()) return;
  throw Error(ErrorCode::BadConfig,
              fmt::format("{} a module whose forward takes {} argument{}, and it is called with {}", subject,
                          arguments.size() - kSelf, arguments.size() == 2 ? "" : "s", values),
              remedy, where);
}

}  // namespace tsq
