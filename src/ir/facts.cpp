#include "ir/facts.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace tsq::ir {
namespace {

void widen(SizesSeen& seen, c10::IntArrayRef smallest, c10::IntArrayRef largest) {
  if (seen.smallest.size() != smallest.size()) {
    seen = {.smallest = smallest.vec(), .largest = largest.vec()};
    return;
  }
  for (std::size_t i = 0; i < smallest.size(); ++i) {
    seen.smallest[i] = std::min(seen.smallest[i], smallest[i]);
    seen.largest[i] = std::max(seen.largest[i], largest[i]);
  }
}

nlohmann::json json_of(const ValueFacts& value) {
  nlohmann::json json{{"calls", value.calls}};
  for (const c10::ScalarType dtype : value.dtypes) json["dtypes"].push_back(static_cast<int>(dtype));
  for (const auto& [rank, seen] : value.sizes) json["sizes"].push_back({seen.smallest, seen.largest});
  if (value.range) json["range"] = {value.range->lowest, value.range->highest};
  if (value.is_finite) json["finite"] = *value.is_finite;
  return json;
}

[[noreturn]] void refuse_facts(const std::string& what) {
  throw Error(ErrorCode::BadModel, "the facts of a value " + what,
              "prepare and calibrate the float model again");
}

c10::ScalarType dtype_of_json(const nlohmann::json& json) {
  const int number = json.get<int>();
  if (number < 0 || number >= static_cast<int>(c10::ScalarType::NumOptions))
    refuse_facts(fmt::format("name the dtype {}, which there is not", number));
  return static_cast<c10::ScalarType>(number);
}

SizesSeen sizes_of_json(const nlohmann::json& json) {
  SizesSeen seen{.smallest = json.at(0).get<std::vector<std::int64_t>>(),
                 .largest = json.at(1).get<std::vector<std::int64_t>>()};
  if (seen.smallest.size() != seen.largest.size()) refuse_facts("have sizes of two ranks in one");
  return seen;
}

ValueFacts value_of_json(const nlohmann::json& json) {
  ValueFacts value{.calls = json.at("calls").get<std::int64_t>()};
  for (const nlohmann::json& dtype : json.value("dtypes", nlohmann::json::array()))
    value.dtypes.insert(dtype_of_json(dtype));
  for (const nlohmann::json& sizes : json.value("sizes", nlohmann::json::array())) {
    SizesSeen seen = sizes_of_json(sizes);
    const auto rank = static_cast<std::int64_t>(seen.smallest.size());
    value.sizes.emplace(rank, std::move(seen));
  }
  if (json.contains("range"))
    value.range = {.lowest = json["range"].at(0).get<double>(), .highest = json["range"].at(1).get<double>()};
  if (json.contains("finite")) value.is_finite = json["finite"].get<bool>();
  return value;
}

/// The number of a value, as a key of JSON has it.
std::size_t number_of_key(const std::string& key, std::size_t count) {
  std::size_t number = count;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  const bool is_number = error == std::errc() && end == key.data() + key.size();
  if (!is_number || number >= count) refuse_facts(fmt::format("stand under '{}', which is none", key));
  return number;
}

}  // namespace

ValueFacts& facts_at(Facts& facts, std::size_t number) {
  if (number >= facts.values.size()) facts.values.resize(number + 1);
  return facts.values[number];
}

void note(Facts& facts, std::size_t number, const at::Tensor& x) {
  if (!x.defined()) return;
  ValueFacts& value = facts_at(facts, number);
  ++value.calls;
  value.dtypes.insert(x.scalar_type());
  if (!x.is_nested()) widen(value.sizes[x.dim()], x.sizes(), x.sizes());  // nested tensors have no sizes
}

void note_range(Facts& facts, std::size_t number, const at::Tensor& x) {
  const bool has_numbers =
      x.defined() && x.layout() == c10::kStrided && x.scalar_type() == at::kFloat && !x.is_nested();
  if (!has_numbers) return;
  ValueFacts& value = facts_at(facts, number);
  if (x.numel() == 0) return join(value, {.is_finite = true});
  const auto range_of = [](const at::Tensor& numbers) {
    const auto [lowest, highest] = at::aminmax(numbers);
    return RangeSeen{.lowest = lowest.item<double>(), .highest = highest.item<double>()};
  };
  RangeSeen range = range_of(x);
  const bool is_finite = std::isfinite(range.lowest) && std::isfinite(range.highest);
  ValueFacts seen{.is_finite = is_finite};
  if (!is_finite) {
    const at::Tensor finite = x.masked_select(at::isfinite(x));
    if (finite.numel() > 0) seen.range = range_of(finite);
  } else {
    seen.range = range;
  }
  join(value, seen);
}

void join(ValueFacts& into, const ValueFacts& from) {
  into.calls += from.calls;
  into.dtypes.insert(from.dtypes.begin(), from.dtypes.end());
  for (const auto& [rank, seen] : from.sizes) widen(into.sizes[rank], seen.smallest, seen.largest);
  if (from.range) {
    const RangeSeen own = into.range.value_or(*from.range);
    into.range = {.lowest = std::min(own.lowest, from.range->lowest),
                  .highest = std::max(own.highest, from.range->highest)};
  }
  if (from.is_finite) into.is_finite = into.is_finite.value_or(true) && *from.is_finite;
}

void join(Facts& into, const Facts& from) {
  for (std::size_t number = 0; number < from.values.size(); ++number)
    join(facts_at(into, number), from.values[number]);
}

bool was_constant(const ValueFacts& value) {
  return value.range && value.is_finite.value_or(false) && value.range->lowest == value.range->highest;
}

std::optional<c10::ScalarType> only_dtype(const ValueFacts& value) {
  return value.dtypes.size() == 1 ? std::optional(*value.dtypes.begin()) : std::nullopt;
}

nlohmann::json json_of(const Facts& facts) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t number = 0; number < facts.values.size(); ++number) {
    if (facts.values[number] != ValueFacts()) json[std::to_string(number)] = json_of(facts.values[number]);
  }
  return json;
}

Facts facts_of_json(const nlohmann::json& json, std::size_t count) {
  Facts facts;
  for (const auto& [key, value] : json.items())
    facts_at(facts, number_of_key(key, count)) = value_of_json(value);
  return facts;
}

}  // namespace tsq::ir
