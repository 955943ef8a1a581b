#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tsq {

/// A part of the model that is one fused program.
struct FusedProgram {
  std::string name{};        ///< the attribute that holds it
  std::size_t operators{0};  ///< with a decision
  std::string first{};       ///< "torch.nn.Conv2d 'features.0'", in graph order
  std::string last{};
  /// The operators that read what it returns and that no program has, in the same form; empty: none does.
  std::vector<std::string> ended_by{};
  /// Its int8 layers whose sums may leave 16 bits: without VNNI they compute in float.
  std::size_t unbounded_layers{0};
};

}  // namespace tsq
