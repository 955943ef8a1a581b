#pragma once

#include <ATen/core/Tensor.h>

/// Quantizers scale channels where the next layer's weight can take that back (equalization, smoothing): the
/// values between the two are compared without these factors.
namespace tsq::detail {

/// With what the columns of an int8 layer's weight are multiplied, beside those of the float layer.
struct ColumnGains {
  at::Tensor of_channel{};  ///< [input channels], double, up to a common factor unless `is_absolute`
  bool is_absolute{false};  ///< the rows have no factors of their own
  double of_all{1};         ///< of the whole weight; what its rows are multiplied with is part of it
  bool is_convolution{false};
};

/// Of weights of equal sizes, [output channels, input channels, …], double, whose rows have factors of their
/// own as well.
ColumnGains column_gains(const at::Tensor& weight, const at::Tensor& exact);

/// Decibels of a weight beside the float one, without factors of its rows: a batch norm is folded in; and
/// without those of its columns.
double weight_sqnr(const at::Tensor& weight, const at::Tensor& exact, const ColumnGains& columns = {});

/// What the values of an operator are multiplied with, channel by channel, beside those of float, summed up
/// over samples.
class ValueGains {
 public:
  /// Tensors of equal sizes.
  void add(const at::Tensor& wanted, const at::Tensor& got);
  /// Whether the values are scaled, by factors of which the columns of the weight of who reads them are the
  /// reciprocals, or by one factor that its whole weight takes back.
  [[nodiscard]] bool are_taken_back_by(const ColumnGains& columns) const;
  /// The factors that are taken back, of each channel that a reader's columns stand for, double. A factor of
  /// all channels that absolute columns do not take back is none of them.
  [[nodiscard]] at::Tensor factors(const ColumnGains& columns) const;
  /// Decibels without these factors.
  [[nodiscard]] double sqnr_db(const ColumnGains& columns) const;

  /// The factor that all values have in common; 1 where it is near 1, or of vectors and numbers.
  [[nodiscard]] double of_all() const;
  /// Whether what reads the values makes up for their common factor: it has none, and the weight that makes
  /// them has the same factor, or the reader is wrong by it when it is shown values without. Float has an
  /// operator for it, which is part of the layer.
  [[nodiscard]] bool are_made_up_for_by(const ValueGains& reader, const ValueGains& reader_alone,
                                        const ColumnGains& own) const;
  /// Decibels without the common factor.
  [[nodiscard]] double sqnr_db() const;

 private:
  /// Sums over all but one axis.
  struct Moments {
    at::Tensor both{};    ///< wanted · got
    at::Tensor wanted{};  ///< wanted²
    at::Tensor got{};     ///< got²
  };
  static void add(const at::Tensor& wanted, const at::Tensor& got, int64_t axis, Moments& sums);
  /// `gains`: for each of the moments' channels.
  static double sqnr_db_without(const Moments& sums, const at::Tensor& gains);
  /// Those of the axis that a reader's columns stand for.
  [[nodiscard]] const Moments& moments_for(const ColumnGains& columns) const {
    return columns.is_convolution ? second_ : last_;
  }

  Moments second_{};  ///< by the channels of maps
  Moments last_{};    ///< by the features of rows
};

}  // namespace tsq::detail
