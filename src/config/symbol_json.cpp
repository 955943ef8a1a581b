#include <fmt/format.h>
#include <tsq/pattern.h>

#include <string>
#include <string_view>

#include "config/json.h"
#include "config/json_config.h"
#include "config/names/known_names.h"

namespace tsq {
namespace {

/// Before the name of a class, in TorchScript: nothing else has it.
constexpr std::string_view kTorchScript = "__torch__.";

}  // namespace

Symbol read_symbol(const JsonValue& at) {
  if (at.json().is_number_integer()) return parse_symbol(std::to_string(at.integer()));
  const std::string& name = at.string();
  if (name.empty()) at.fail("got an empty name, wanted a PyTorch name", "write it as in 'torch.nn.Conv2d'");
  const Symbol found = parse_symbol(name);
  if (name.starts_with(kTorchScript)) return found;
  if (const auto problem = unknown_name(found)) at.fail(problem->problem, problem->remedy);
  return found;
}

Symbol read_module(const JsonValue& at) {
  const Symbol found = read_symbol(at);
  if (found.kind != SymbolKind::Module)
    at.fail(fmt::format("'{}' is not a module class", found.name), "write a class as in 'torch.nn.Conv2d'");
  return found;
}

std::string written_name(const Symbol& symbol) {
  const bool is_clear =
      symbol.kind != SymbolKind::Module || (parse_symbol(symbol.name) == symbol && !unknown_name(symbol));
  return fmt::format("{}{}", is_clear ? "" : kTorchScript, symbol.name);
}

}  // namespace tsq
