#pragma once

#include <tsq/symbol.h>

#include <optional>
#include <string>
#include <string_view>

namespace tsq {

/// symbol() without the question whether PyTorch has the name: for names that come out of a model.
Symbol parse_symbol(std::string_view name);

/// What is wrong with a name, and what was meant.
struct UnknownName {
  std::string problem{};
  std::string remedy{};
};

/// Of a symbol in a namespace of PyTorch's that PyTorch does not have, or a bare name that is no method; none
/// for others, such as classes of the user's own.
std::optional<UnknownName> unknown_name(const Symbol& symbol);

}  // namespace tsq
