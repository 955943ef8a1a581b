#include "cli/process/failure.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/entries.h"
#include "base/libtorch_error.h"
#include "cli/process/standard_streams.h"

namespace tsq::cli {
namespace {

constexpr std::array<std::pair<ErrorCode, std::string_view>, 6> kCodes{
    {{ErrorCode::BadModel, "bad_model"},
     {ErrorCode::BadData, "bad_data"},
     {ErrorCode::BadConfig, "bad_config"},
     {ErrorCode::BadOutput, "bad_output"},
     {ErrorCode::Unsupported, "unsupported"},
     {ErrorCode::OutOfMemory, "out_of_memory"}}};

std::string_view name_of(ErrorCode code) {
  const auto* const known = find_entry(kCodes, code);
  return known == nullptr ? "internal" : known->second;
}

/// What is known of a failure, before it is printed.
struct Failure {
  int exit_code{kInternalError};
  std::string code{"internal"};
  std::string sentence{};
  Where where{};
};

/// An exception of LibTorch's about memory as the Error that it means.
std::optional<Error> memory_error(const std::exception& exception) {
  if (dynamic_cast<const Error*>(&exception) != nullptr) return std::nullopt;  // it says so itself
  try {
    rethrow_out_of_memory(exception);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

Failure describe_plain(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    const bool internal = error->code() == ErrorCode::Internal;
    return {.exit_code = internal ? kInternalError : kBadInput,
            .code = std::string(name_of(error->code())),
            .sentence = fmt::format("{}{}", internal ? "internal: " : "", as_line(error->what())),
            .where = error->where()};
  }
  if (dynamic_cast<const UsageError*>(&exception) != nullptr) {
    return {.exit_code = kBadUsage, .code = "bad_usage", .sentence = as_line(exception.what())};
  }
  return {.sentence = as_line(fmt::format("internal: {}", reason_of(exception)))};
}

Failure describe(const std::exception& exception) {
  const std::optional<Error> about_memory = memory_error(exception);
  return describe_plain(about_memory ? *about_memory : exception);
}

/// The sentence stands on standard error already; whoever reads the JSON misses it.
void print_json(const nlohmann::json& value) {
  if (!std::cout) return;  // which is what the sentence says
  try {
    write_standard_output(value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  } catch (const Error& error) {
    print_note(error.what());
  }
}

}  // namespace

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
    print_json(value);
  }
  return failure.exit_code;
}

}  // namespace tsq::cli
