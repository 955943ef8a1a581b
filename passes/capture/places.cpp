#include "passes/capture/places.h"

#include <fmt/format.h>

#include <functional>

#include "ir/methods.h"

namespace tsq::passes {

int64_t places_of(const std::string& path, std::string_view method) {
  return static_cast<int64_t>(std::hash<std::string>()(fmt::format("{}.{}", path, method)));
}

int64_t places_of_call(const ir::Node* call) {
  return places_of(std::to_string(ir::place_of(call).value_or(0)), call->kind().toQualString());
}

void set_places(const std::vector<ir::Node*>& nodes, int64_t code) {
  for (std::size_t i = 0; i < nodes.size(); ++i)
    ir::set_place(nodes[i], static_cast<int64_t>(c10::get_hash(code, i)));
}

}  // namespace tsq::passes
