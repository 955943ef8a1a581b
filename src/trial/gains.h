#pragma once

/// What int8 has to be worth, held against float. Its error is never nothing: what gains nothing is not worth
/// it, and what loses is worth it even less. Between the two, measuring says nothing.
namespace tsq::detail {

/// A file with more than this times the float file's bytes is larger.
inline constexpr double kLarger = 1.02;
/// One with more than this times the bytes is hardly smaller.
inline constexpr double kSmaller = 0.95;
/// A model with less than this times the speed of float is slower.
inline constexpr double kSlower = 0.95;
/// One of which more than this times the speed is not certain is hardly faster.
inline constexpr double kFaster = 1.05;
/// Under this many dB a result is poor.
inline constexpr double kPoorDb = 20;

}  // namespace tsq::detail
