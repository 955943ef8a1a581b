#pragma once

#include <string_view>

namespace tsq {

/// What a file is that tsq wrote, and what to do with it, for people.
struct StageKind {
  std::string_view what{};    ///< "a prepared model"
  std::string_view remedy{};  ///< "go on with it by …"
};

/// By the stage that the file's metadata name; empty for other names. A prepared model may be one that
/// trains.
constexpr StageKind kind_of_stage(std::string_view stage, bool trains = false) {
  if (stage == "prepared" && trains)
    return {.what = "a model that trains", .remedy = "train it and go on with it by tsq convert"};
  if (stage == "prepared")
    return {.what = "a prepared model", .remedy = "go on with it by tsq calibrate, then tsq convert"};
  if (stage == "reference") return {.what = "a reference model", .remedy = "go on with it by tsq lower"};
  if (stage == "quantized")
    return {.what = "a finished model", .remedy = "use it as it is: tsq run, compare and bench take it"};
  return {};
}

}  // namespace tsq
