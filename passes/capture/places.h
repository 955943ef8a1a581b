#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

/// Places of nodes (ir::place_of) are numbers that follow from the code in which a node stands.
namespace tsq::passes {

/// The number of a module's method.
[[nodiscard]] int64_t places_of(const std::string& path, std::string_view method);
/// The number of what comes into the place of a call.
[[nodiscard]] int64_t places_of_call(const ir::Node* call);
/// Numbers the nodes of the code with this number.
void set_places(const std::vector<ir::Node*>& nodes, int64_t code);

}  // namespace tsq::passes
