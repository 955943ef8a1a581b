// Which numbers of a result are scores, and whether they decide as they should.

#include "pipeline/decisions.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/decision_counts.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/wilson.h"

namespace tsq {
namespace {

nlohmann::json counts_json(const Decisions& counts) {
  return {{"rows", counts.rows}, {"agreed", counts.agreed}, {"tied", counts.tied}};
}

std::string_view origin_text(ScoresBy by) {
  switch (by) {
    case ScoresBy::Softmax:
      return "rows of a softmax";
    case ScoresBy::LogSoftmax:
      return "rows of a log-softmax";
    case ScoresBy::Sigmoid:
      return "each number of a sigmoid";
    case ScoresBy::Compared:
      return "rows that the model compares";
    case ScoresBy::Probabilities:
      return "rows that add up to one";
    case ScoresBy::Rows:
      return "rows of a layer's outputs";
    case ScoresBy::Named:
      return "rows that --decisions names";
    case ScoresBy::Labels:
      return "labels";
    case ScoresBy::Nothing:
      break;
  }
  return "";
}

}  // namespace

std::string_view to_string(ScoresBy by) {
  constexpr std::array<std::string_view, 9> kNames{
      "nothing", "softmax", "log_softmax", "sigmoid", "compared", "probabilities", "rows", "named", "labels"};
  return kNames.at(static_cast<std::size_t>(by));
}

NamedDecisions NamedDecisions::parse(std::string_view text) {
  NamedDecisions named;
  const std::size_t colon = text.rfind(':');
  std::string_view output = text;
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    int64_t dim = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), dim);
    if (code == std::errc() && end == digits.data() + digits.size() && !digits.empty()) {
      named.dim = dim;
      output = text.substr(0, colon);
    }
  }
  if (output.empty())
    throw Error(ErrorCode::BadConfig, fmt::format("decisions '{}' name no output", text),
                "write OUTPUT or OUTPUT:DIM, as in output[1]:2");
  named.output = output;
  return named;
}

void Decisions::add(const Decisions& more) {
  rows += more.rows;
  agreed += more.agreed;
  tied += more.tied;
}

double Decisions::share() const noexcept {
  return rows == 0 ? 1 : static_cast<double>(agreed) / static_cast<double>(rows);
}

void JudgedDecisions::add(const JudgedDecisions& more) {
  if (!more.is_judged()) return;
  if (!is_judged()) {
    *this = more;
    return;
  }
  all.add(more.all);
  clear.add(more.clear);
  left_out += more.left_out;
}

nlohmann::json JudgedDecisions::to_json() const {
  if (!is_judged()) return {{"judged_by", nullptr}, {"reason", reason}};
  nlohmann::json json = counts_json(all);
  const detail::ShareInterval further =
      all.rows > 0 ? detail::wilson_95(all.agreed, all.rows) : detail::ShareInterval();
  json.update(
      {{"judged_by", to_string(by)},
       {"dim", dim ? nlohmann::json(*dim) : nlohmann::json(nullptr)},
       {"further", all.rows > 0 ? nlohmann::json({further.low, further.high}) : nlohmann::json(nullptr)},
       {"left_out", left_out},
       {"clear", counts_json(clear)}});
  return json;
}

std::string JudgedDecisions::to_text() const {
  if (!is_judged()) return fmt::format("not judged as decisions: {}", reason);
  const std::string what =
      dim ? fmt::format("{} along dimension {}", origin_text(by), *dim) : std::string(origin_text(by));
  if (all.rows == 0) return fmt::format("none to compare; {}", what);
  const detail::ShareInterval further = detail::wilson_95(all.agreed, all.rows);
  const std::string ties = all.tied > 0 ? fmt::format("; {} tied", all.tied) : "";
  const std::string rest =
      left_out > 0 ? fmt::format("; {} that most samples share not counted", left_out) : "";
  const std::string of_clear = clear.rows > 0
                                   ? fmt::format(", of the clear ones {} of {}", clear.agreed, clear.rows)
                               : by == ScoresBy::Labels ? ""
                                                        : ", none of them clear in float";
  return fmt::format("{} of {} as in float ({:.1f} %, of further ones {:.1f} to {:.1f} %{}){}; {}{}",
                     all.agreed, all.rows, 100 * all.share(), 100 * further.low, 100 * further.high, ties,
                     of_clear, what, rest);
}

namespace detail {
namespace {

constexpr double kClear = 0.9;      // of the probability
constexpr double kRounding = 1e-2;  // of a sum of a thousand numbers in bfloat16
constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// exp(-104) is 0 in float32: no softmax teaches a model that one class is so far below another.
constexpr double kWidest = 104;

/// NaN is less than any number.
at::Tensor scores_of(const at::Tensor& numbers) {
  return at::nan_to_num(numbers.detach().to(at::kDouble), -kInfinity, kInfinity, -kInfinity);
}

/// Rows along a dimension.
at::Tensor rows_of(const at::Tensor& numbers, int64_t dim) {
  return numbers.movedim(dim, -1).reshape({-1, numbers.size(dim)});
}

bool are_probabilities(const at::Tensor& rows) {
  return (rows >= 0).all().item<bool>() && ((rows.sum(1) - 1).abs() <= kRounding).all().item<bool>();
}

/// The dimension along which numbers are probabilities; the last of several.
std::optional<int64_t> dim_of_probabilities(const at::Tensor& numbers) {
  const at::Tensor scores = scores_of(numbers);
  for (int64_t dim = scores.dim() - 1; dim >= 0; --dim) {
    if (scores.size(dim) > 1 && are_probabilities(rows_of(scores, dim))) return dim;
  }
  return std::nullopt;
}

/// The one dimension of a size.
std::optional<int64_t> dim_of_size(const at::Tensor& numbers, int64_t size) {
  std::optional<int64_t> found;
  for (int64_t dim = 0; dim < numbers.dim(); ++dim) {
    if (numbers.size(dim) != size) continue;
    if (found) return std::nullopt;
    found = dim;
  }
  return found;
}

/// One number for each row of float32: rows that differ in the last six bits alone have the same, for the
/// last bits of a kernel's sums depend on the place in the tensor.
std::vector<int64_t> keys_of(const at::Tensor& rows) {
  constexpr int64_t kLastBits = 6;
  const at::Tensor bits = rows.to(at::kFloat).contiguous().view(at::kInt).to(at::kLong);
  const at::Tensor kept = (bits + (1 << (kLastBits - 1))).bitwise_right_shift(kLastBits);
  // Odd factors, of Knuth's generator: sums of products wrap around.
  std::vector<int64_t> factors(static_cast<std::size_t>(rows.size(1)));
  uint64_t factor = 1;
  for (int64_t& each : factors) {
    factor = factor * 6364136223846793005U + 1442695040888963407U;
    each = static_cast<int64_t>(factor | 1U);
  }
  const at::Tensor sums = (kept * at::tensor(factors)).sum(1).contiguous();
  const int64_t* first = sums.const_data_ptr<int64_t>();
  return {first, first + sums.numel()};
}

std::string known_places(std::span<const std::string> places) {
  return fmt::format("{}", fmt::join(places, ", "));
}

}  // namespace

/// What is known of each row; of a sigmoid a row is one number.
struct DecisionCounter::Rows {
  at::Tensor agrees{};
  at::Tensor ties{};
  at::Tensor is_clear{};
  at::Tensor is_decided{};
  at::Tensor says_yes{};
  at::Tensor counts{};  ///< whether it is a decision: not NaN, and not all equal

  [[nodiscard]] static bool is_set(const at::Tensor& flags, int64_t row) {
    return flags.const_data_ptr<bool>()[row];
  }
};

namespace {

/// The largest number is further from the next than twice the deviation of the row. Of eight independent
/// normal numbers the largest is in one row of a hundred, of more in fewer; fewer numbers say little by that.
at::Tensor stands_apart(const at::Tensor& scores) {
  constexpr int64_t kFewest = 8;
  if (scores.size(1) < kFewest) return at::zeros({scores.size(0)}, at::kBool);
  const auto largest = std::get<0>(scores.topk(2, 1));
  return (largest.select(1, 0) - largest.select(1, 1)) > 2 * scores.std(1, /*unbiased=*/false);
}

uint64_t count_of(const at::Tensor& flags) { return static_cast<uint64_t>(flags.sum().item<int64_t>()); }

at::Tensor is_largest(const at::Tensor& scores) { return scores == scores.amax(1, /*keepdim=*/true); }

/// What is masked has the lowest number of all, or nearly so.
at::Tensor lowest_unmasked(const at::Tensor& scores) {
  constexpr double kMasked = -9e3;  // float16 has no number below -65504, masks of -1e4 are usual
  return at::where(scores < kMasked, at::full({}, kInfinity, scores.options()), scores).amin(1);
}

}  // namespace

void DecisionCounter::count_all(const Rows& rows) {
  const auto decisions_of = [&](const at::Tensor& counts) {
    return Decisions{.rows = count_of(counts),
                     .agreed = count_of(rows.agrees & counts),
                     .tied = count_of(rows.ties & counts)};
  };
  whole_.all.add(decisions_of(rows.counts));
  whole_.clear.add(decisions_of(rows.counts & rows.is_clear));
  whole_.decided += count_of(rows.counts & rows.is_decided);
  whole_.yes += count_of(rows.counts & rows.says_yes);
}

void DecisionCounter::find_padding(const Rows& rows, std::span<const int64_t> keys) {
  // A row that more than half of many sequences have is not in the first eight in one of 256 cases.
  constexpr uint64_t kWithNewRows = 8;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    if (!Rows::is_set(rows.counts, row)) continue;
    auto found = known_.find(keys[i]);
    if (found == known_.end()) {
      if (sequences_ > kWithNewRows) continue;
      found = known_.emplace(keys[i], Known()).first;
    }
    Known& known = found->second;
    if (known.last != sequences_) ++known.sequences;
    known.last = sequences_;
    const auto one = [&](const at::Tensor& flags) { return static_cast<uint64_t>(Rows::is_set(flags, row)); };
    const Decisions decision{.rows = 1, .agreed = one(rows.agrees), .tied = one(rows.ties)};
    known.tally.all.add(decision);
    if (Rows::is_set(rows.is_clear, row)) known.tally.clear.add(decision);
    known.tally.decided += one(rows.is_decided);
  }
}

DecisionCounter::Rows DecisionCounter::answers(const at::Tensor& wanted, const at::Tensor& got) {
  const at::Tensor right = scores_of(wanted).select(1, 0);
  const at::Tensor yes = right >= 0.5;
  const at::Tensor is_clear = (right >= kClear) | (right <= 1 - kClear);
  return {.agrees = yes == (scores_of(got).select(1, 0) >= 0.5),
          .ties = at::zeros_like(yes),
          .is_clear = is_clear,
          .is_decided = is_clear,
          .says_yes = yes,
          .counts = wanted.isnan().select(1, 0).logical_not()};
}

DecisionCounter::Rows DecisionCounter::labels(const at::Tensor& wanted, const at::Tensor& got) {
  const at::Tensor agrees = (wanted == got).select(1, 0);
  const at::Tensor none = at::zeros_like(agrees);
  return {.agrees = agrees,
          .ties = none,
          .is_clear = none,
          .is_decided = none,
          .says_yes = none,
          .counts = at::ones_like(agrees)};
}

DecisionCounter::Rows DecisionCounter::choices(const at::Tensor& wanted, const at::Tensor& got) {
  const at::Tensor right = scores_of(wanted);
  const at::Tensor largest = is_largest(right);
  const at::Tensor found = is_largest(scores_of(got));
  const at::Tensor is_tied = (found.sum(1) > 1) & (largest.sum(1) == 1);
  const bool is_sure = are_probabilities(right);
  are_probabilities_ = are_probabilities_ && is_sure;
  const at::Tensor is_clear = (is_sure ? right : at::softmax(right, 1)).amax(1) >= kClear;
  const at::Tensor is_number = wanted.isnan().any(1).logical_not();
  const at::Tensor is_equal = right.amax(1) == right.amin(1);
  equal_rows_ += count_of(is_number & is_equal);
  Rows rows{.agrees = (largest & found).any(1) & ~is_tied,
            .ties = is_tied,
            .is_clear = is_clear,
            .is_decided = is_clear,
            .says_yes = at::zeros_like(is_tied),
            .counts = is_number & ~is_equal};
  if (form_.by != ScoresBy::Rows) return rows;
  rows.is_decided = is_clear | stands_apart(right);
  wide_ += count_of(right.amax(1) - lowest_unmasked(right) > kWidest);
  numbers_ += static_cast<uint64_t>(right.numel());
  negative_ += count_of(right < 0);
  return rows;
}

void DecisionCounter::add(const at::Tensor& wanted, const at::Tensor& got) {
  if (form_.by == ScoresBy::Nothing || wanted.numel() == 0) return;
  if (rank_ == 0) rank_ = wanted.dim();
  has_odd_rank_ = has_odd_rank_ || wanted.dim() != rank_;
  if (has_odd_rank_) return;
  const bool each = form_.each_decides;
  const at::Tensor right = each ? wanted.detach().reshape({-1, 1}) : rows_of(wanted.detach(), form_.dim);
  const at::Tensor found = each ? got.detach().reshape({-1, 1}) : rows_of(got.detach(), form_.dim);
  // Images have no padding, and many rows; numbers of fewer bits are often the same.
  constexpr int64_t kSequences = 3;
  const bool looks_for_padding = !each && rank_ <= kSequences && wanted.element_size() >= 4;
  const bool has_batch = rank_ == kSequences && form_.dim != 0;
  const int64_t length = right.size(0) / (has_batch ? wanted.size(0) : 1);
  // Part by part: there may be many classes, and the numbers are needed several times over.
  constexpr int64_t kNumbers = 1 << 21;
  const int64_t most = std::max<int64_t>(1, kNumbers / right.size(1));
  for (int64_t begin = 0; begin < right.size(0);) {
    if (begin % length == 0) ++sequences_;
    const int64_t end = std::min(begin + most, begin - begin % length + length);
    const at::Tensor of_part = right.slice(0, begin, end);
    const at::Tensor of_found = found.slice(0, begin, end);
    Rows rows = form_.by == ScoresBy::Labels ? labels(of_part, of_found)
                : each                       ? answers(of_part, of_found)
                                             : choices(of_part, of_found);
    for (at::Tensor* flags :
         {&rows.agrees, &rows.ties, &rows.is_clear, &rows.is_decided, &rows.says_yes, &rows.counts})
      *flags = flags->contiguous();
    count_all(rows);
    if (looks_for_padding) find_padding(rows, keys_of(of_part));
    begin = end;
  }
}

/// Why rows of a layer's outputs, or numbers of a sigmoid, are no scores after all; empty of those that are.
std::string DecisionCounter::doubt(const Tally& counted) const {
  const bool is_mostly_decided = 2 * counted.decided > counted.all.rows;
  if (form_.by == ScoresBy::Sigmoid) {
    if (!is_mostly_decided) return "more than half of what its sigmoid returns lies between 0.1 and 0.9";
    if (counted.yes == 0 || counted.yes == counted.all.rows)
      return "its sigmoid has one answer to all samples";
    return {};
  }
  if (form_.by == ScoresBy::Probabilities && !are_probabilities_) return "not all of its rows add up to one";
  if (form_.by != ScoresBy::Rows) return {};
  constexpr uint64_t kFewNegative = 10;
  if (2 * wide_ > counted.all.rows)
    return fmt::format("most of its rows span more than {:.0f}, as coordinates do and logits do not",
                       kWidest);
  if (kFewNegative * negative_ < numbers_)
    return "hardly a number is negative, as in coordinates and unlike logits";
  // Of three dimensions are also what detectors return: boxes, landmarks, and scores in one row.
  constexpr uint64_t kFewDecided = 20;
  constexpr int64_t kOfDetectors = 3;
  if (rank_ == kOfDetectors && !is_mostly_decided) return "in most of its rows no number stands apart";
  if (kFewDecided * counted.decided < counted.all.rows) return "in hardly a row a number stands apart";
  return {};
}

JudgedDecisions DecisionCounter::result() const {
  if (form_.by == ScoresBy::Nothing) return {.reason = form_.reason};
  if (has_odd_rank_) return {.reason = "its rank depends on the sample"};
  Tally counted = whole_;
  JudgedDecisions result{.by = form_.by, .left_out = equal_rows_};
  if (!form_.each_decides) result.dim = form_.dim;
  for (const auto& [key, known] : known_) {
    if (sequences_ < 2 || 2 * known.sequences <= sequences_) continue;
    const auto take = [](Decisions& from, const Decisions& part) {
      from = {
          .rows = from.rows - part.rows, .agreed = from.agreed - part.agreed, .tied = from.tied - part.tied};
    };
    take(counted.all, known.tally.all);
    take(counted.clear, known.tally.clear);
    counted.decided -= known.tally.decided;
    result.left_out += known.tally.all.rows;
  }
  if (std::string why = doubt(counted); !why.empty()) return {.reason = std::move(why)};
  result.all = counted.all;
  result.clear = counted.clear;
  return result;
}

OutputDecisions::OutputDecisions(const torch::jit::Module& model, std::vector<NamedDecisions> named)
    : graph_(model), named_(std::move(named)) {}

namespace {

bool is_named(const NamedDecisions& named, const std::string& place) {
  return place == named.output || place == fmt::format("output['{}']", named.output);
}

/// The dimension that a user has named, from the first on.
int64_t checked_dim(const NamedDecisions& named, const at::Tensor& wanted) {
  const int64_t rank = wanted.dim();
  if (*named.dim < -rank || *named.dim >= rank)
    throw Error(ErrorCode::BadConfig,
                fmt::format("'{}' has {} dimensions, none of number {}", named.output, rank, *named.dim),
                "name the dimension along which classes are numbered");
  return *named.dim < 0 ? *named.dim + rank : *named.dim;
}

ScoreForm nothing(std::string reason) { return {.reason = std::move(reason)}; }

}  // namespace

ScoreForm OutputDecisions::form_of(const std::string& place, const at::Tensor& wanted) const {
  using operators::ScoreMaker;
  const operators::ScoreFact fact = graph_.of(place, wanted.dim());
  const ScoreForm labels{.by = ScoresBy::Labels, .each_decides = true};
  if (fact.maker == ScoreMaker::Labels) return labels;
  const auto names_it = [&](const NamedDecisions& named) { return is_named(named, place); };
  if (!wanted.is_floating_point())
    return std::ranges::any_of(named_, names_it)
               ? labels
               : nothing("its whole numbers are no places of largest ones, and no comparison makes them");
  if (wanted.dim() == 0) return nothing("it is one number");
  const auto by_dim = [&](ScoresBy by, std::optional<int64_t> dim) {
    if (!dim) return nothing("nothing tells along which dimension classes are numbered");
    return wanted.size(*dim) > 1 ? ScoreForm{.by = by, .dim = *dim} : nothing("its rows have one number");
  };
  const auto sure_dim = [&]() -> std::optional<int64_t> {
    if (fact.dim && are_probabilities(rows_of(scores_of(wanted), *fact.dim))) return fact.dim;
    const auto dim = dim_of_probabilities(wanted);
    return dim ? dim : fact.dim;
  };
  for (const NamedDecisions& named : named_) {
    if (!is_named(named, place)) continue;
    if (named.dim) return by_dim(ScoresBy::Named, checked_dim(named, wanted));
    if (fact.maker == ScoreMaker::Sigmoid) return {.by = ScoresBy::Named, .each_decides = true};
    return by_dim(ScoresBy::Named, sure_dim().value_or(wanted.dim() - 1));
  }
  switch (fact.maker) {
    case ScoreMaker::Softmax:
      return by_dim(ScoresBy::Softmax, sure_dim());
    case ScoreMaker::LogSoftmax: {
      const auto dim = fact.dim ? fact.dim : dim_of_probabilities(wanted.to(at::kDouble).exp());
      return by_dim(ScoresBy::LogSoftmax, dim);
    }
    case ScoreMaker::Sigmoid:
      return {.by = ScoresBy::Sigmoid, .each_decides = true};
    case ScoreMaker::Compared:
      return by_dim(ScoresBy::Compared, fact.dim);
    case ScoreMaker::Attention:
      return nothing("its softmax weighs the values of attention");
    case ScoreMaker::Layer: {
      const auto dim = fact.dim ? fact.dim : fact.classes ? dim_of_size(wanted, *fact.classes) : std::nullopt;
      constexpr int64_t kImages = 4;
      constexpr int64_t kBoxes = 4;
      if (wanted.dim() >= kImages)
        return nothing("nothing tells whether the channels of an image are classes");
      if (dim && wanted.dim() == kImages - 1 && wanted.size(*dim) <= kBoxes)
        return nothing(fmt::format("rows of {} may be points or boxes", wanted.size(*dim)));
      return by_dim(ScoresBy::Rows, dim);
    }
    case ScoreMaker::Labels:
    case ScoreMaker::Unknown:
      break;
  }
  const auto dim = dim_of_probabilities(wanted);
  return dim ? by_dim(ScoresBy::Probabilities, dim)
             : nothing("no softmax, sigmoid or layer makes its numbers, and no argmax reads them");
}

void OutputDecisions::add(const std::string& place, const at::Tensor& wanted, const at::Tensor& got) {
  if (!wanted.defined() || wanted.is_complex() || wanted.is_quantized() || wanted.layout() != at::kStrided ||
      wanted.numel() == 0 || wanted.sizes() != got.sizes())
    return;
  auto found = counters_.find(place);
  if (found == counters_.end())
    found = counters_.emplace(place, DecisionCounter(form_of(place, wanted))).first;
  found->second.add(wanted, got);
}

JudgedDecisions OutputDecisions::of(const std::string& place) const {
  const auto found = counters_.find(place);
  return found == counters_.end() ? JudgedDecisions{.reason = "it holds no real numbers"}
                                  : found->second.result();
}

void OutputDecisions::check_names(std::span<const std::string> places) const {
  for (const NamedDecisions& named : named_) {
    if (std::ranges::any_of(places, [&](const std::string& place) { return is_named(named, place); }))
      continue;
    throw Error(ErrorCode::BadConfig, fmt::format("the model has no output '{}'", named.output),
                fmt::format("name one of {}", known_places(places)));
  }
}

}  // namespace detail

DecisionCounts::DecisionCounts(const torch::jit::Module& first, std::vector<NamedDecisions> named)
    : outputs_(std::make_shared<detail::OutputDecisions>(first, std::move(named))) {}

void DecisionCounts::add(const std::string& place, const at::Tensor& wanted, const at::Tensor& got) {
  outputs_->add(place, wanted, got);
}

JudgedDecisions DecisionCounts::of(const std::string& place) const { return outputs_->of(place); }

void DecisionCounts::check_names(std::span<const std::string> places) const { outputs_->check_names(places); }

}  // namespace tsq
