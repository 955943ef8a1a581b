#include "runtime/primitives/epilogue.h"

#include <algorithm>
#include <limits>

namespace tsq::runtime {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A sum v in the primitive stands for the real number unit * (v - offset). Post-ops are appended one after
/// the other, in whatever unit each of them needs, and unit and offset are kept up to date.
class Planner {
 public:
  Planner(Compilation& compilation, const View& output, std::span<const View> inputs,
          const EpilogueOptions& options)
      : compilation_(compilation), output_(output), inputs_(inputs), options_(options) {}

  Epilogue plan() {
    start();
    for (const auto& post_op : compilation_.operation().post_ops) append(post_op);
    finish();
    return std::move(epilogue_);
  }

 private:
  /// The residual that the output can be written over: one of the same dtype and strides, which nobody reads
  /// afterwards.
  [[nodiscard]] bool can_overwrite(const View& view) const {
    const int value = compilation_.operation().output;
    const bool read_here =
        std::ranges::any_of(inputs_, [&](const View& input) { return input.buffer == view.buffer; });
    return !compilation_.reserved(value) && !read_here && view.moves.empty() && view.dtype == output_.dtype &&
           view.sizes == output_.sizes && same_strides(view.sizes, view.strides, output_.strides) &&
           compilation_.is_last_use(view);
  }

  /// Chooses which residual is summed in place, and the unit and offset of the sums so that the fewest
  /// conversions follow.
  void start() {
    const auto& post_ops = compilation_.operation().post_ops;
    double unit = output_.scale;
    double offset = output_.zero_point;
    double summed = 0;
    double factor = 1;  // by which later post-ops multiply
    for (const auto& post_op : post_ops) {
      if (post_op.kind == PostOpKind::Relu || post_op.kind == PostOpKind::Clamp) continue;
      if (post_op.kind == PostOpKind::Linear && post_op.alpha > 0 && post_op.beta == 0 && !summed_) {
        factor *= post_op.alpha;
        continue;
      }
      if (post_op.kind == PostOpKind::Add) {
        const View read = compilation_.view(post_op.value);
        if (!summed_ && can_overwrite(read)) {
          summed_ = &post_op;
          summed = read.scale * read.zero_point;
          continue;
        }
        unit = read.scale;
        offset = 0;
        summed = 0;
        break;
      }
      unit = 1;
      offset = 0;
      break;
    }
    if (!options_.scaled) unit = options_.unit;
    unit_ = options_.scaled ? unit / factor : unit;
    offset_ = options_.shifted && options_.scaled ? offset - summed / unit : 0;
    epilogue_.unit = unit_;
    epilogue_.offset = offset_;
  }

  void append(const PostOp& post_op) {
    switch (post_op.kind) {
      case PostOpKind::Relu:
        clip(0, kInfinity);
        return;
      case PostOpKind::Clamp:
        clip(post_op.alpha, post_op.beta);
        return;
      case PostOpKind::Add:
        append_sum(post_op);
        return;
      case PostOpKind::Mul:
        append_product(post_op);
        return;
      case PostOpKind::Linear:
        if (post_op.alpha > 0) {
          unit_ *= post_op.alpha;
          offset_ -= post_op.beta / unit_;
          return;
        }
        [[fallthrough]];
      default:
        convert_to(1, 0);
        append_function(epilogue_.post_ops, post_op);
    }
  }

  void clip(double low, double high) {
    const double lowest = low / unit_ + offset_;
    const double highest = std::max(lowest, high / unit_ + offset_);
    low_ = std::clamp(low_, lowest, highest);
    high_ = std::clamp(high_, lowest, highest);
  }

  /// Bounds that the output's dtype has anyway need no post-op.
  void flush_clip(double free_low, double free_high) {
    const bool binds = low_ > free_low || high_ < free_high;
    if (binds) {
      constexpr double kLargest = std::numeric_limits<float>::max();
      const bool relu = low_ == 0 && high_ == kInfinity;
      epilogue_.post_ops.append_eltwise(relu ? dnnl::algorithm::eltwise_relu : dnnl::algorithm::eltwise_clip,
                                        relu ? 0.0F : static_cast<float>(std::max(low_, -kLargest)),
                                        relu ? 0.0F : static_cast<float>(std::min(high_, kLargest)));
    }
    low_ = -kInfinity;
    high_ = kInfinity;
  }

  void convert_to(double unit, double offset) {
    flush_clip(-kInfinity, kInfinity);
    if (unit == unit_ && offset == offset_) return;
    const double factor = unit_ / unit;
    epilogue_.post_ops.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(factor),
                                      static_cast<float>(offset - offset_ * factor));
    unit_ = unit;
    offset_ = offset;
  }

  void append_sum(const PostOp& post_op) {
    const View read = compilation_.view(post_op.value);
    if (&post_op == summed_) {
      flush_clip(-kInfinity, kInfinity);
      epilogue_.post_ops.append_sum(static_cast<float>(read.scale / unit_));
      epilogue_.overwritten = read;
      offset_ += read.scale * read.zero_point / unit_;
      return;
    }
    if (unit_ != read.scale) convert_to(read.scale, offset_ * unit_ / read.scale);
    append_binary(dnnl::algorithm::binary_add, read);
    offset_ += read.zero_point;
  }

  /// By a value without zero point (validated).
  void append_product(const PostOp& post_op) {
    const View read = compilation_.view(post_op.value);
    convert_to(unit_, 0);
    append_binary(dnnl::algorithm::binary_mul, read);
    unit_ *= read.scale;
  }

  void append_binary(dnnl::algorithm algorithm, const View& read) {
    flush_clip(-kInfinity, kInfinity);
    const View operand = operand_view(read);
    const auto desc = desc_of(operand);
    const int argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(epilogue_.post_ops.len()) | DNNL_ARG_SRC_1;
    epilogue_.post_ops.append_binary(algorithm, desc);
    epilogue_.operands.push_back(compilation_.operand(argument, operand, desc));
  }

  /// A post-op reads a tensor of the output's size, one number, or one for each channel: others are spread
  /// out.
  View operand_view(const View& read) {
    View wide = read;
    const auto rank = output_.sizes.size();
    wide.strides = broadcast_strides(read, output_.sizes);
    wide.sizes.assign(rank - read.sizes.size(), 1);
    wide.sizes.insert(wide.sizes.end(), read.sizes.begin(), read.sizes.end());
    const std::size_t channel = options_.form == Form::Rows || rank < 3 ? rank - 1 : 1;
    bool narrow = true;
    for (std::size_t d = 0; d < rank; ++d)
      narrow = narrow && (wide.sizes[d] == 1 ||
                          (d == channel && wide.strides[d] == 1 && options_.form != Form::Matrices));
    if (narrow) {
      wide.strides = channel == 1 ? channels_last_strides(wide.sizes) : row_major_strides(wide.sizes);
    } else if (!options_.spread) {
      wide = compilation_.with_strides(wide, row_major_strides(wide.sizes));
    } else {
      wide.sizes = output_.sizes;
      wide = compilation_.with_strides(wide, output_.strides);
    }
    return options_.form == Form::Rows ? as_rows(wide) : wide;
  }

  static View as_rows(const View& view) {
    const auto columns = view.sizes.back();
    View rows = view;
    rows.sizes = {elements_of(view.sizes) / columns, columns};
    rows.strides = row_major_strides(rows.sizes);
    return rows;
  }

  void finish() {
    const bool matches = unit_ == output_.scale && offset_matches();
    if (!matches) convert_to(output_.scale, output_.zero_point);
    if (output_.dtype == Dtype::F32) return flush_clip(-kInfinity, kInfinity);
    const double lowest = output_.dtype == Dtype::U8 ? 0 : -128;
    flush_clip(lowest, lowest + 255);
  }

  /// Offsets are sums that cancel but for the last bits.
  [[nodiscard]] bool offset_matches() const {
    const double difference = offset_ - output_.zero_point;
    return difference < 1e-6 && difference > -1e-6;
  }

  Compilation& compilation_;
  const View& output_;
  std::span<const View> inputs_;
  const EpilogueOptions& options_;
  Epilogue epilogue_{};
  const PostOp* summed_ = nullptr;
  double unit_ = 1;
  double offset_ = 0;
  double low_ = -kInfinity;
  double high_ = kInfinity;
};

}  // namespace

Epilogue plan_epilogue(Compilation& compilation, const View& output, std::span<const View> inputs,
                       const EpilogueOptions& options) {
  return Planner(compilation, output, inputs, options).plan();
}

View placed(Compilation& compilation, const View& output, const Epilogue& epilogue) {
  if (!epilogue.overwritten) return output;
  View place = output;
  place.buffer = epilogue.overwritten->buffer;
  place.offset = epilogue.overwritten->offset;
  compilation.forget_copies(place.buffer);
  return place;
}

dnnl::primitive_attr attributes_with(const dnnl::post_ops& post_ops) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post_ops);
  return attributes;
}

}  // namespace tsq::runtime
