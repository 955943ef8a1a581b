#include <fmt/format.h>
#include <tsq/recipe.h>

#include <array>
#include <nlohmann/json.hpp>

#include "config/json.h"
#include "config/json_config.h"

namespace tsq {
namespace {

constexpr std::array<std::string_view, 2> kKeys{"name", "smooth_quant"};

}  // namespace

Recipe Recipe::from_dict(const nlohmann::json& dict) {
  const JsonValue at(dict);
  at.expect_object("Recipe", kKeys);
  Recipe recipe;
  if (at.has("name")) recipe.name = at.at("name").string();
  if (recipe.name != "fx")
    at.at("name").fail(fmt::format("there is no recipe '{}'", recipe.name), "use 'fx'");
  read_optional(at, "smooth_quant", recipe.smooth_quant);
  if (recipe.smooth_quant && !(*recipe.smooth_quant >= 0 && *recipe.smooth_quant <= 1)) {
    at.at("smooth_quant")
        .fail(fmt::format("{} is no migration strength", *recipe.smooth_quant), "use a number from 0 to 1");
  }
  return recipe;
}

nlohmann::json Recipe::to_dict() const {
  nlohmann::json dict{{"name", name}};
  write_optional(dict, "smooth_quant", smooth_quant);
  return dict;
}

}  // namespace tsq
