#include <fmt/format.h>
#include <tsq/plan.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "config/json.h"

namespace tsq {
namespace {

constexpr std::string_view kFormat = "tsq plan";
constexpr std::int64_t kVersion = 1;
constexpr const char* kMakeAgain = "write a plan with --plan-output";

constexpr std::array<std::string_view, 10> kPlanKeys{"format",     "version",   "backend",   "engine",
                                                     "target",     "recipe",    "operators", "values",
                                                     "standalone", "prediction"};
constexpr std::array<std::string_view, 2> kPredictionKeys{"seconds", "noise"};
constexpr std::array<std::string_view, 12> kOperatorKeys{
    "node",   "layer", "operator", "placement", "reason", "detail",
    "remedy", "notes", "qconfig",  "kernel",    "fold",   "float_recurrent_weights"};
constexpr std::array<std::string_view, 4> kValueKeys{"value", "observer", "rounded", "exact_for"};

using Sizes = std::vector<std::int64_t> PaddingFold::*;
constexpr std::array<std::pair<std::string_view, Sizes>, 5> kFoldSizes{
    std::pair{"before", &PaddingFold::before}, std::pair{"after", &PaddingFold::after},
    std::pair{"padding", &PaddingFold::padding}, std::pair{"kernel", &PaddingFold::kernel},
    std::pair{"offset", &PaddingFold::offset}};
constexpr std::string_view kTooMany = "may_have_too_many_outputs";

/// Member by member, without those that have their default.
class Object {
 public:
  template <typename Value>
  Object& add(std::string_view key, const Value& value, const Value& usual = {}) {
    if (value != usual) json_[std::string(key)] = value;
    return *this;
  }
  Object& add(std::string_view key, std::string_view text) {
    if (!text.empty()) json_[std::string(key)] = text;
    return *this;
  }
  nlohmann::json json() && { return std::move(json_); }

 private:
  nlohmann::json json_ = nlohmann::json::object();
};

nlohmann::json json_of(const PaddingFold& fold) {
  Object object;
  for (const auto& [key, sizes] : kFoldSizes) object.add(key, fold.*sizes);
  return std::move(object.add(kTooMany, fold.may_have_too_many_outputs)).json();
}

nlohmann::json json_of(const PlannedOperator& planned) {
  Object object;
  object.add("node", planned.node)
      .add("layer", planned.layer)
      .add("operator", planned.op)
      .add("placement", to_string(planned.placement))
      .add("reason", to_string(planned.reason))
      .add("detail", planned.detail)
      .add("remedy", planned.remedy)
      .add("notes", planned.notes)
      .add("qconfig", planned.has_qconfig, true)
      .add("kernel", planned.kernel)
      .add("float_recurrent_weights", planned.float_recurrent_weights);
  nlohmann::json json = std::move(object).json();
  if (planned.fold) json["fold"] = json_of(*planned.fold);
  return json;
}

nlohmann::json json_of(const PlannedValue& value) {
  return std::move(Object()
                       .add("value", value.value)
                       .add("observer", value.observer)
                       .add("rounded", value.is_rounded, true)
                       .add("exact_for", value.exact_for))
      .json();
}

template <typename Each>
nlohmann::json list_of(const std::vector<Each>& all) {
  nlohmann::json list = nlohmann::json::array();
  for (const Each& each : all) list.push_back(json_of(each));
  return list;
}

void read(const JsonValue& at, std::string_view key, std::string& text) {
  if (at.is_given(key)) text = at.at(key).string();
}
void read(const JsonValue& at, std::string_view key, bool& value) {
  if (at.is_given(key)) value = at.at(key).boolean();
}
void read(const JsonValue& at, std::string_view key, std::vector<std::string>& texts) {
  if (!at.is_given(key)) return;
  for (const JsonValue& each : at.at(key).elements("texts", kMostModules)) texts.push_back(each.string());
}

PaddingFold read_fold(const JsonValue& at) {
  PaddingFold fold;
  for (const auto& [key, sizes] : kFoldSizes) {
    for (const JsonValue& size : at.at(key).elements("whole numbers")) (fold.*sizes).push_back(size.index());
    if ((fold.*sizes).size() != fold.before.size())
      at.fail(fmt::format("'{}' has not one number for each of the {} dimensions of 'before'", key,
                          fold.before.size()));
  }
  read(at, kTooMany, fold.may_have_too_many_outputs);
  return fold;
}

/// Words that are no name of a reason are one's own.
void read_reason(const JsonValue& at, PlannedOperator& planned) {
  std::string name;
  read(at, "reason", name);
  const auto reason = reason_named(name);
  planned.reason = reason.value_or(Reason::LeftOut);
  if (!reason) planned.detail = name;
}

PlannedOperator read_operator(const JsonValue& at) {
  at.expect_object("operator", kOperatorKeys);
  PlannedOperator planned{.node = at.at("node").string()};
  read(at, "layer", planned.layer);
  read(at, "operator", planned.op);
  const JsonValue placement = at.at("placement");
  const auto named = placement_named(placement.string());
  if (!named || *named == Placement::Undecided)
    placement.fail(fmt::format("'{}' is no placement", placement.string()),
                   "use int8, int8_float_out, float or reference");
  planned.placement = *named;
  read(at, "detail", planned.detail);
  read_reason(at, planned);
  read(at, "remedy", planned.remedy);
  read(at, "notes", planned.notes);
  read(at, "qconfig", planned.has_qconfig);
  read(at, "kernel", planned.kernel);
  if (at.is_given("fold")) planned.fold = read_fold(at.at("fold"));
  if (at.is_given("float_recurrent_weights"))
    planned.float_recurrent_weights = at.at("float_recurrent_weights").index();
  return planned;
}

PlannedValue read_value(const JsonValue& at) {
  at.expect_object("value", kValueKeys);
  PlannedValue value{.value = at.at("value").string(), .observer = at.at("observer").string()};
  read(at, "rounded", value.is_rounded);
  read(at, "exact_for", value.exact_for);
  return value;
}

void check_version(const JsonValue& at) {
  const bool is_plan = at.json().is_object() && at.has("format") && at.at("format").json() == kFormat;
  if (!is_plan) at.fail("this is no plan", kMakeAgain);
  const std::int64_t version = at.at("version").integer();
  if (version < 1 || version > kVersion)
    at.fail(fmt::format("the plan has version {}, and this tsq reads {}", version, kVersion),
            version < 1 ? kMakeAgain : "use the tsq that wrote it, or write a plan with this one");
}

Plan read_plan(const JsonValue& at) {
  check_version(at);
  at.expect_object("plan", kPlanKeys);
  Plan plan;
  read(at, "backend", plan.backend);
  read(at, "engine", plan.engine);
  read(at, "target", plan.target);
  read(at, "recipe", plan.recipe);
  for (const JsonValue& each : at.at("operators").elements("operators", kMostModules))
    plan.operators.push_back(read_operator(each));
  for (const JsonValue& each : at.at("values").elements("values", kMostModules))
    plan.values.push_back(read_value(each));
  if (at.is_given("standalone")) {
    for (const auto& [path, child] : at.at("standalone").members("plans of standalone modules"))
      plan.standalone.emplace(path, read_plan(child));
  }
  if (at.is_given("prediction")) {
    const JsonValue prediction = at.at("prediction");
    prediction.expect_object("prediction", kPredictionKeys);
    plan.prediction = {.seconds = prediction.at("seconds").number(),
                       .noise = prediction.at("noise").number()};
  }
  return plan;
}

}  // namespace

nlohmann::json Plan::to_dict() const {
  nlohmann::json json{{"format", kFormat},
                      {"version", kVersion},
                      {"backend", backend},
                      {"engine", engine},
                      {"target", target},
                      {"recipe", recipe},
                      {"operators", list_of(operators)},
                      {"values", list_of(values)}};
  for (const auto& [path, child] : standalone) json["standalone"][path] = child.to_dict();
  if (prediction) json["prediction"] = {{"seconds", prediction->seconds}, {"noise", prediction->noise}};
  return json;
}

Plan Plan::from_dict(const nlohmann::json& json) { return read_plan(JsonValue(json)); }

}  // namespace tsq
