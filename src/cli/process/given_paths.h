#pragma once

#include <string>
#include <vector>

#include "cli/process/options.h"

namespace tsq::cli {

/// A file that the command line names.
struct GivenPath {
  std::string option{};  ///< "--calib", or "MODEL.pt" for an argument without a name
  std::string file{};
};

struct GivenPaths {
  std::vector<GivenPath> inputs{};
  std::vector<GivenPath> outputs{};
};

/// The files that these options name on the command line that was parsed: each of a list, those among the
/// words of a program, and those that a configuration names. Throws UsageError for a name that is empty,
/// Error(BadConfig) for settings of a model that do not exist.
GivenPaths given_paths(const std::vector<PathOption>& options);

}  // namespace tsq::cli
