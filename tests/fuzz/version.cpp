#include <string>

/// The version stands in src/pipeline, whose files need all the others.
namespace tsq {
std::string version();
std::string version() { return "0"; }
}  // namespace tsq
