#pragma once

#include <tsq/backend_config.h>

#include <string>
#include <vector>

namespace tsq {

/// Something about a row of a table that its writer will not have meant.
struct TableFinding {
  enum class Kind {
    NeverMatches,    ///< no graph of a model holds what the pattern names
    Shadowed,        ///< another row takes all that it matches
    NoKernel,        ///< no engine lowers what it quantizes: it stays in reference form
    WrongReference,  ///< its reference module is unknown, or that of another layer
  };
  Kind kind{};
  std::size_t row{};       ///< index in configs()
  std::string pattern{};   ///< the row's
  std::string sentence{};  ///< "'configs[3]' (torch.nn.ReLU(torch.nn.Foo)): …"
};
std::string_view to_string(TableFinding::Kind kind);

/// What can be said of a table without a model. Rows of modules for training are left out.
std::vector<TableFinding> check_table(const BackendConfig& backend);

}  // namespace tsq
