#include "runtime/program/split_products.h"

#include <algorithm>
#include <span>

#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

bool reads(const Operation& operation, int value) {
  const auto in_post_op = [value](const PostOp& post_op) { return post_op.value == value; };
  return std::ranges::find(operation.inputs, value) != operation.inputs.end() ||
         std::ranges::any_of(operation.post_ops, in_post_op);
}

class Splitter {
 public:
  explicit Splitter(ResolvedModel& resolved) : resolved_(resolved) {}

  void run() {
    const auto operations = std::move(program().operations);
    program().operations.clear();
    std::vector<bool> replaced(operations.size(), false);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (replaced[i]) continue;
      const auto parts = parts_of(operations, operations[i]);
      for (const auto part : parts) {
        replaced[part] = true;
        append(part_of(operations[i], operations[part]));
      }
      if (parts.empty()) append(operations[i]);
    }
  }

 private:
  Program& program() { return resolved_.model.program; }

  void append(const Operation& operation) { program().operations.push_back(operation); }

  /// The slices that read a linear layer, if nothing else does.
  std::vector<std::size_t> parts_of(std::span<const Operation> operations, const Operation& linear) {
    constexpr std::int64_t kFewest = 16;  // columns that are worth a kernel
    std::vector<std::size_t> parts;
    const auto& outputs = program().outputs;
    const bool returned = std::ranges::find(outputs, linear.output) != outputs.end();
    const bool reads_tensors =
        std::ranges::any_of(linear.post_ops, [](const PostOp& post_op) { return post_op.value >= 0; });
    if (linear.kind != Kind::Linear || returned || reads_tensors) return {};
    std::int64_t columns = 0;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (!reads(operations[i], linear.output)) continue;
      const auto& shape = resolved_.shapes[static_cast<std::size_t>(linear.output)];
      const bool takes_columns = operations[i].kind == Kind::Slice && operations[i].step == 1 &&
                                 axis_of(operations[i], shape.size()) + 1 == shape.size();
      const auto size = operations[i].end.number - operations[i].begin.number;
      columns += size;
      if (!takes_columns || size < kFewest || columns > shape.back()) return {};
      parts.push_back(i);
    }
    return parts.size() < 2 ? std::vector<std::size_t>{} : parts;
  }

  Operation part_of(const Operation& linear, const Operation& slice) {
    Operation part = linear;
    part.output = slice.output;
    const auto begin = slice.begin.number;
    const auto size = slice.end.number - begin;
    for (auto* index : {&part.weight, &part.weight_scales, &part.bias}) {
      if (*index) *index = rows_of(**index, begin, size);
    }
    return part;
  }

  /// Some rows of a constant, which stay where they are.
  int rows_of(int index, std::int64_t begin, std::int64_t size) {
    auto& constants = resolved_.model.constants;
    Constant rows = constants[static_cast<std::size_t>(index)];
    if (elements_of(rows.shape) == 1) return index;  // one scale for all
    const auto row = elements_of(rows.shape) / rows.shape[0] * bytes_of(rows.dtype);
    const auto* data = static_cast<const std::byte*>(rows.data.get()) + begin * row;
    rows.data = std::shared_ptr<const void>(rows.data, data);
    rows.shape[0] = size;
    constants.push_back(rows);
    return static_cast<int>(constants.size()) - 1;
  }

  ResolvedModel& resolved_;
};

}  // namespace

void split_products(ResolvedModel& resolved) { Splitter(resolved).run(); }

}  // namespace tsq::runtime
