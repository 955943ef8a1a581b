#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/bench/entry.h>
#include <tsq/sample.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "torchscript/kept_state.h"

namespace tsq::bench {

/// An entry that can be called.
struct Loaded {
  Entry entry{};
  torch::jit::Module module;
  at::QEngine engine{};
  std::vector<Sample> batches{};
  std::unique_ptr<torchscript::KeptState> state{};  ///< of `module`
};

/// Who loads models and takes times, in a process of its own. It answers requests:
///
///     {"do": "load", "entry": …, "is_optional": …, "data": PATH}
///                                                     bytes, engine, rows, load_seconds, first_seconds
///     {"do": "turn", "entry": I, "sample": N, "calls": N}
///                                                     seconds of each call, wall: of all (several threads at
///                                                     once)
///     {"do": "profile", "entry": I, "rounds": N}      operators, seconds: see profile.h
///     {"do": "end"}                                   peak_memory: bytes, of a process that loaded one entry
///
/// `entry` counts what was loaded. A turn begins with a call that is not timed: others ran before it.
class Worker {
 public:
  /// Throws tsq::Error.
  nlohmann::json answer(const nlohmann::json& request);

 private:
  nlohmann::json load(const nlohmann::json& request);

  [[nodiscard]] std::optional<uint64_t> peak_memory() const;

  std::vector<Loaded> loaded_{};
  uint64_t before_{0};         ///< bytes before the first model
  uint64_t while_loading_{0};  ///< the most
  uint64_t of_data_{0};
};

/// Throws the Error that an answer holds, if it holds one.
void throw_error_in(const nlohmann::json& answer);

}  // namespace tsq::bench
