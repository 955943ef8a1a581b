#include "runtime/program/channels_last.h"

#include <algorithm>

namespace tsq::runtime {
namespace {

bool is_spatial(Kind kind) {
  return kind == Kind::Convolution || kind == Kind::TransposedConvolution || kind == Kind::MaxPool ||
         kind == Kind::AvgPool || kind == Kind::GlobalAvgPool || kind == Kind::ResizeNearest ||
         kind == Kind::ResizeBilinear || kind == Kind::AdaptiveAvgPool || kind == Kind::AdaptiveMaxPool;
}

bool is_elementwise(Kind kind) {
  return kind == Kind::Convert || kind == Kind::Add || kind == Kind::Sub || kind == Kind::Mul ||
         kind == Kind::Div || kind == Kind::Maximum || kind == Kind::Minimum || kind == Kind::Where ||
         kind == Kind::Activation || kind == Kind::Prelu || kind == Kind::ScaleShift || kind == Kind::Pad ||
         kind == Kind::Concat;
}

}  // namespace

std::vector<bool> channels_last_values(const Program& program, const std::vector<Shape>& shapes) {
  std::vector<bool> last(program.values.size(), false);
  const auto at = [](int value) { return static_cast<std::size_t>(value); };
  std::vector<bool> wanted(program.values.size(), false);
  for (auto operation = program.operations.rbegin(); operation != program.operations.rend(); ++operation) {
    const bool passes_on = is_elementwise(operation->kind) && wanted[at(operation->output)];
    if (!is_spatial(operation->kind) && !passes_on) continue;
    for (const int input : operation->inputs) wanted[at(input)] = true;
  }
  for (const auto& operation : program.operations) {
    const auto output = at(operation.output);
    const bool from_input = std::ranges::any_of(operation.inputs, [&](int input) { return last[at(input)]; });
    const bool chosen = is_spatial(operation.kind) ||
                        (is_elementwise(operation.kind) && (wanted[output] || from_input)) ||
                        (operation.kind == Kind::Slice && from_input);
    last[output] = chosen && shapes[output].size() >= 3;
  }
  return last;
}

}  // namespace tsq::runtime
