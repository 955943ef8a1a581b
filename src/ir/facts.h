#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <vector>

/// What calibration has seen of the values of a graph. All of it holds for the samples alone: another input
/// may have other sizes.
namespace tsq::ir {

/// The sizes of the tensors of one rank.
struct SizesSeen {
  std::vector<std::int64_t> smallest{};  ///< of each dimension
  std::vector<std::int64_t> largest{};

  bool operator==(const SizesSeen&) const = default;
};

/// The smallest and the largest number.
struct RangeSeen {
  double lowest{};
  double highest{};

  bool operator==(const RangeSeen&) const = default;
};

/// What was seen of one value, whenever it was computed.
struct ValueFacts {
  std::int64_t calls{0};  ///< how often it was seen; 0 where observers alone looked at it
  std::set<c10::ScalarType> dtypes{};
  std::map<std::int64_t, SizesSeen> sizes{};  ///< by rank
  std::optional<RangeSeen> range{};           ///< of the finite numbers in it; none: nobody looked
  std::optional<bool> is_finite{};            ///< whether there were no others; none: nobody looked

  bool operator==(const ValueFacts&) const = default;
};

struct Facts {
  std::vector<ValueFacts> values{};  ///< by value_number

  bool operator==(const Facts&) const = default;
};

/// The facts of a value, made where there are none yet.
ValueFacts& facts_at(Facts& facts, std::size_t number);
/// Adds one more tensor that a value was. Its dtype and sizes alone: its numbers are not looked at.
void note(Facts& facts, std::size_t number, const at::Tensor& x);
/// Adds the range of its numbers, and whether all are finite; of a float32 tensor that has any. After `note`
/// of the same tensor.
void note_range(Facts& facts, std::size_t number, const at::Tensor& x);

/// Adds what was seen of other samples. Parts that are joined in any order are exactly what one calibration
/// with all samples would have found.
void join(ValueFacts& into, const ValueFacts& from);
void join(Facts& into, const Facts& from);

/// Whether all numbers of a value were one number, in all samples, as far as somebody looked.
[[nodiscard]] bool was_constant(const ValueFacts& value);

/// The one dtype that was seen; none where there were several or none.
[[nodiscard]] std::optional<c10::ScalarType> only_dtype(const ValueFacts& value);

[[nodiscard]] nlohmann::json json_of(const Facts& facts);
/// The same facts, of values whose numbers are below `count`. Throws Error(BadModel), or what nlohmann
/// throws, for JSON that is not of this form.
[[nodiscard]] Facts facts_of_json(const nlohmann::json& json, std::size_t count);

}  // namespace tsq::ir
