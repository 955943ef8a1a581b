#include "runtime/primitives/layouts.h"

#include <algorithm>
#include <tuple>

#include "runtime/program/operation_table.h"

namespace tsq::runtime {
namespace {

template <typename Visit>
void for_each_use(const Program& program, const Visit& visit) {
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    for (const int input : program.operations[i].inputs)
      visit(static_cast<std::size_t>(input), static_cast<int>(i));
    for (const auto& post_op : program.operations[i].post_ops) {
      if (post_op.value >= 0) visit(static_cast<std::size_t>(post_op.value), static_cast<int>(i));
    }
  }
}

}  // namespace

std::vector<bool> signed_values(const Program& program) {
  std::vector<bool> wanted(program.values.size(), false);
  for (auto operation = program.operations.rbegin(); operation != program.operations.rend(); ++operation) {
    if (operation->kind == Kind::Matmul) wanted[static_cast<std::size_t>(operation->inputs[1])] = true;
    if (is_view(operation->kind) && wanted[static_cast<std::size_t>(operation->output)]) {
      wanted[static_cast<std::size_t>(operation->inputs[0])] = true;
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = wanted[i] && is_int8(program.values[i].dtype);
  }
  return wanted;
}

std::vector<int> last_uses(const Program& program) {
  std::vector<int> uses(program.values.size(), -1);
  for_each_use(program,
               [&](std::size_t value, int operation) { uses[value] = std::max(uses[value], operation); });
  for (const auto& operation : program.operations) {
    if (operation.kind != Kind::Concat || !is_left_to_reader(program, operation)) continue;
    const int reader = uses[static_cast<std::size_t>(operation.output)];
    for (const int input : operation.inputs) {
      auto& last = uses[static_cast<std::size_t>(input)];
      last = std::max(last, reader);
    }
  }
  for (const int output : program.outputs) {
    uses[static_cast<std::size_t>(output)] = static_cast<int>(program.operations.size());
  }
  return uses;
}

std::vector<int> use_counts(const Program& program) {
  std::vector<int> counts(program.values.size(), 0);
  for_each_use(program, [&](std::size_t value, int) { ++counts[value]; });
  for (const int output : program.outputs) ++counts[static_cast<std::size_t>(output)];
  return counts;
}

const Operation* only_reader(const Program& program, int value) {
  const Operation* reader = nullptr;
  int count = 0;
  for_each_use(program, [&](std::size_t read, int operation) {
    if (read != static_cast<std::size_t>(value)) return;
    ++count;
    reader = &program.operations[static_cast<std::size_t>(operation)];
  });
  const bool returned = std::ranges::find(program.outputs, value) != program.outputs.end();
  return count == 1 && !returned ? reader : nullptr;
}

bool is_left_to_reader(const Program& program, const Operation& concat) {
  const auto* reader = only_reader(program, concat.output);
  if (reader == nullptr || reader->kind != Kind::ScaleShift || reader->axis != concat.axis) return false;
  const auto type = [&](int value) {
    const auto& declared = program.values[static_cast<std::size_t>(value)];
    return std::tuple(declared.dtype, declared.scale, declared.zero_point);
  };
  return std::ranges::any_of(concat.inputs, [&](int input) { return type(input) != type(concat.output); });
}

}  // namespace tsq::runtime
