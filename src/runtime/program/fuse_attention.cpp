#include "runtime/program/fuse_attention.h"

#include <cmath>
#include <numeric>
#include <optional>

#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// softmax(alpha left right + mask) value, and the operations that compute it.
struct Shares {
  int left = -1;
  int right = -1;  ///< keys, turned over
  int value = -1;
  int mask = -1;
  double alpha = 1;
  std::vector<std::size_t> operations{};
};

class Fusing {
 public:
  explicit Fusing(ResolvedModel resolved) : resolved_(std::move(resolved)) {
    uses_.resize(program().values.size(), 0);
    writers_.resize(program().values.size());
    for (std::size_t i = 0; i < operations().size(); ++i) {
      const Operation& operation = operations()[i];
      writers_[at(operation.output)] = i;
      for (const int input : operation.inputs) ++uses_[at(input)];
      for (const PostOp& post_op : operation.post_ops) {
        if (post_op.value >= 0) ++uses_[at(post_op.value)];
      }
    }
    for (const int output : program().outputs) ++uses_[at(output)];
  }

  ResolvedModel take() && {
    std::vector<std::optional<Shares>> found(operations().size());
    std::vector<bool> gone(operations().size(), false);
    for (std::size_t i = 0; i < operations().size(); ++i) {
      found[i] = shares_for(operations()[i]);
      if (!found[i]) continue;
      for (const auto part : found[i]->operations) gone[part] = true;
    }
    const auto before = std::move(operations());
    operations().clear();
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (gone[i]) continue;
      if (found[i]) {
        append(turned_keys(*found[i]));
        append(attention_of(*found[i], before[i].output));
      } else {
        append(before[i]);
      }
    }
    return std::move(resolved_);
  }

 private:
  Program& program() { return resolved_.model.program; }
  std::vector<Operation>& operations() { return program().operations; }
  [[nodiscard]] const Shape& shape(int value) const { return resolved_.shapes[at(value)]; }

  void append(Operation operation) { operations().push_back(std::move(operation)); }

  /// Goes from a float value that nobody else reads to the operation that writes it, if that is of this kind.
  const Operation* step(int read, Kind kind, Shares& shares) {
    const auto& writer = writers_[at(read)];
    if (!writer || uses_[at(read)] != 1 || program().values[at(read)].dtype != Dtype::F32) return nullptr;
    const Operation& operation = operations()[*writer];
    if (operation.kind != kind || !operation.post_ops.empty()) return nullptr;
    shares.operations.push_back(*writer);
    return &operation;
  }

  std::optional<Shares> shares_for(const Operation& product) {
    if (product.kind != Kind::Matmul || product.alpha != 1 || !product.post_ops.empty()) return std::nullopt;
    Shares shares;
    const Operation* softmax = step(product.inputs[0], Kind::Softmax, shares);
    if (softmax == nullptr) return std::nullopt;
    const auto rank = shape(softmax->output).size();
    if (axis_of(*softmax, rank) + 1 != rank) return std::nullopt;
    const int scores = before_factor(before_mask(softmax->inputs[0], shares), shares);
    const Operation* first = step(scores, Kind::Matmul, shares);
    if (first == nullptr) return std::nullopt;
    shares.left = codes_of(first->inputs[0], shares);
    shares.right = codes_of(first->inputs[1], shares);
    shares.value = codes_of(product.inputs[1], shares);
    shares.alpha *= first->alpha;
    const bool fits = std::isfinite(shares.alpha) && shares.alpha > 0;
    return fits ? std::optional(shares) : std::nullopt;
  }

  /// What has been converted to floats for a product; the kernel of attention reads any dtype.
  int codes_of(int read, Shares& shares) {
    const auto& writer = writers_[at(read)];
    if (!writer || operations()[*writer].kind != Kind::Convert) return read;
    const int codes = operations()[*writer].inputs[0];
    const bool is_float = program().values[at(read)].dtype == Dtype::F32;
    if (!is_float || !is_int8(program().values[at(codes)].dtype)) return read;
    if (uses_[at(read)] == 1) shares.operations.push_back(*writer);
    return codes;
  }

  /// The value to which a mask has been added, which does not change its shape.
  int before_mask(int scores, Shares& shares) {
    const auto kept = shares;
    const Operation* sum = step(scores, Kind::Add, shares);
    for (std::size_t side = 0; sum != nullptr && side < 2; ++side) {
      const int read = sum->inputs[side];
      Shares deeper = shares;
      if (shape(read) != shape(scores) || !is_scores(read, deeper)) continue;
      shares.mask = sum->inputs[1 - side];
      return read;
    }
    shares = kept;
    return scores;
  }

  /// Is it a product of activations, perhaps times a number?
  bool is_scores(int value, Shares& shares) {
    return step(before_factor(value, shares), Kind::Matmul, shares) != nullptr;
  }

  /// The value that has been multiplied by a positive number, or divided by one.
  int before_factor(int scores, Shares& shares) {
    const auto kept = shares;
    for (const Kind kind : {Kind::Mul, Kind::Div}) {
      const Operation* scaled = step(scores, kind, shares);
      if (scaled == nullptr) continue;
      for (std::size_t side = 0; side < (kind == Kind::Mul ? 2U : 1U); ++side) {
        const auto factor = positive_number(scaled->inputs[1 - side]);
        if (!factor || shape(scaled->inputs[side]) != shape(scores)) continue;
        shares.alpha *= kind == Kind::Mul ? *factor : 1 / *factor;
        return scaled->inputs[side];
      }
      shares = kept;
    }
    return scores;
  }

  std::optional<double> positive_number(int value) {
    const auto& held = program().values[at(value)].constant;
    if (!held) return std::nullopt;
    const Constant& constant = resolved_.model.constants[at(*held)];
    const bool is_one = constant.dtype == Dtype::F32 && elements_of(constant.shape) == 1;
    if (!is_one || !(*constant.floats() > 0)) return std::nullopt;
    return static_cast<double>(*constant.floats());
  }

  /// Keys as rows: a view of what is multiplied.
  Operation turned_keys(const Shares& shares) {
    Value type = program().values[at(shares.right)];
    type.constant.reset();
    Shape sizes = shape(shares.right);
    const auto rank = sizes.size();
    Operation turned{.kind = Kind::Permute, .inputs = {shares.right}, .order = Shape(rank)};
    std::iota(turned.order.begin(), turned.order.end(), 0);
    std::swap(turned.order[rank - 2], turned.order[rank - 1]);
    std::swap(sizes[rank - 2], sizes[rank - 1]);
    program().values.push_back(type);
    resolved_.shapes.push_back(sizes);
    turned.output = static_cast<int>(program().values.size()) - 1;
    return turned;
  }

  Operation attention_of(const Shares& shares, int output) {
    Operation attention{.kind = Kind::Attention,
                        .inputs = {shares.left, operations().back().output, shares.value},
                        .output = output};
    if (shares.mask >= 0) attention.inputs.push_back(shares.mask);
    attention.alpha = shares.alpha;
    return attention;
  }

  ResolvedModel resolved_;
  std::vector<int> uses_{};                            ///< of values
  std::vector<std::optional<std::size_t>> writers_{};  ///< of values
};

}  // namespace

ResolvedModel with_fused_attention(ResolvedModel resolved) { return Fusing(std::move(resolved)).take(); }

}  // namespace tsq::runtime
