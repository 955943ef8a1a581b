#pragma once

#include <compare>
#include <string_view>

namespace tsq {

/// `Literal` is a constant argument in a complex pattern, named by its digits ("0").
enum class SymbolKind { Module, Function, Method, MatchAll, Literal };

struct Pattern;

/// A PyTorch name that a pattern can contain: a module class ("torch.nn.Conv2d"), a function
/// ("torch.nn.functional.relu", "torch.add", "operator.add"), a Tensor method by its bare name ("view"), or
/// match_all. The name lives as long as the process; compare symbols freely.
struct Symbol {
  SymbolKind kind{SymbolKind::MatchAll};
  std::string_view name{};

  /// A pattern as a call: `nn::ReLU(op::add(nn::Conv2d, match_all))` is a ReLU that reads an addition of a
  /// Conv2d and anything. Defined in tsq/pattern.h.
  template <typename... Args>
  Pattern operator()(Args&&... args) const;

  friend constexpr bool operator==(const Symbol&, const Symbol&) = default;
  friend constexpr auto operator<=>(const Symbol&, const Symbol&) = default;
};

/// Matches anything: PyTorch's MatchAllNode.
inline constexpr Symbol match_all{SymbolKind::MatchAll, "MatchAllNode"};

}  // namespace tsq
