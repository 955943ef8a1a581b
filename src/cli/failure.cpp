#include "cli/failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

namespace tsq::cli {
namespace {

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::BadModel:
      return "bad_model";
    case ErrorCode::BadData:
      return "bad_data";
    case ErrorCode::BadConfig:
      return "bad_config";
    case ErrorCode::BadOutput:
      return "bad_output";
    case ErrorCode::Unsupported:
      return "unsupported";
    case ErrorCode::Internal:
      break;
  }
  return "internal";
}

/// What is known of a failure, before it is printed.
struct Failure {
  int exit_code{kInternalError};
  std::string code{"internal"};
  std::string sentence{};
  Where where{};
};

std::string without_newlines(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Failure describe(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    const bool internal = error->code() == ErrorCode::Internal;
    return {.exit_code = internal ? kInternalError : kBadInput,
            .code = std::string(name_of(error->code())),
            .sentence = fmt::format("{}{}", internal ? "internal: " : "", without_newlines(error->what())),
            .where = error->where()};
  }
  if (dynamic_cast<const UsageError*>(&exception) != nullptr) {
    return {.exit_code = kBadUsage, .code = "bad_usage", .sentence = exception.what()};
  }
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return {.exit_code = kBadInput,
            .code = "out_of_memory",
            .sentence = "the memory of this machine does not suffice for this model and its data"};
  }
  return {.sentence = fmt::format("internal: {}", one_line(exception))};
}

}  // namespace

std::string one_line(const std::exception& exception) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&exception);
  const std::string text = c10_error != nullptr ? c10_error->what_without_backtrace() : exception.what();
  // The interpreter prints a traceback first and the cause behind the last "RuntimeError: ".
  constexpr std::string_view kCause = "Error: ";
  const std::size_t cause =
      text.find("Traceback") == std::string::npos ? std::string::npos : text.rfind(kCause);
  const std::size_t begin =
      cause == std::string::npos ? text.find_first_not_of(" \n") : cause + kCause.size();
  if (begin == std::string::npos) return "no reason given";
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  return line.ends_with('.') ? line.substr(0, line.size() - 1) : line;
}

int explain(const std::exception& exception, bool json) {
  const Failure failure = describe(exception);
  std::cout.flush();
  std::cerr << fmt::format("tsq: error: {}\n", failure.sentence);
  if (json) {
    const nlohmann::json value = {{"error",
                                   {{"code", failure.code},
                                    {"message", failure.sentence},
                                    {"pass", failure.where.pass},
                                    {"layer", failure.where.layer},
                                    {"op", failure.where.op}}}};
    std::cout << value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  }
  return failure.exit_code;
}

}  // namespace tsq::cli
