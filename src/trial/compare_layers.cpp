// The numeric suite: what each operator of an int8 model computes beside the float model.

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <tsq/bench/profile.h>
#include <tsq/compare_layers.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/kernels/engine_packing.h"
#include "base/json_number.h"
#include "base/libtorch_error.h"
#include "pipeline/output_power.h"
#include "trial/captured.h"
#include "trial/channel_gains.h"
#include "trial/layer_sums.h"
#include "trial/layer_weights.h"
#include "trial/value_histogram.h"

namespace tsq {
namespace {

using detail::add_codes;
using detail::add_difference;
using detail::add_outliers;
using detail::Captured;
using detail::ErrorSums;
using detail::fits;
using detail::in_float;
using detail::InputFactors;
using detail::Segment;
using Sums = detail::LayerSums;
using torch::jit::Module;

/// Whether a value of the int8 model is compared: computed, and of real numbers.
bool is_compared(const Captured& op) {
  if (!op.output.defined() || op.is_view || op.output.numel() == 0) return false;
  return !bench::is_conversion(op.kind) &&
         (op.output.is_quantized() || at::isFloatingType(op.output.scalar_type()));
}

// ---------------------------------------------------------------- shadows and weights

/// The tensor that an int8 operator gets, in place of its own, to compute on the float model's numbers.
at::Tensor as_input(const at::Tensor& own, const at::Tensor& exact) {
  if (!own.is_quantized()) return exact.to(own.scalar_type());
  return at::quantize_per_tensor(exact.contiguous(own.suggest_memory_format()), own.q_scale(),
                                 own.q_zero_point(), own.scalar_type());
}

/// The first result of an operator of LibTorch's on an input in place of its own.
std::optional<at::Tensor> dispatched(const Captured& op, const at::Tensor& input) {
  const auto handle = op.name ? c10::Dispatcher::singleton().findSchema(*op.name) : std::nullopt;
  if (!handle) return std::nullopt;
  torch::jit::Stack stack = op.inputs;
  *std::ranges::find_if(stack, [](const at::IValue& value) { return value.isTensor(); }) = input;
  handle->callBoxed(&stack);
  return stack.front().isTensor() ? std::optional(stack.front().toTensor()) : std::nullopt;
}

/// What an int8 operator makes of the float layer's input.
std::optional<at::Tensor> shadow(const Captured& op, const Captured& layer, const InputFactors& factors,
                                 at::QEngine engine) {
  if (op.overwrites || !op.input.defined() || !layer.input.defined() || !fits(op.input, layer.input) ||
      (op.input.is_quantized() && op.input.qscheme() != at::kPerTensorAffine))
    return std::nullopt;
  try {
    const at::Tensor input = as_input(op.input, factors.applied_to(layer.input).reshape_as(op.input));
    const kernels::EnginePacking packing(engine);
    const std::optional<at::Tensor> result = op.compute ? op.compute(input) : dispatched(op, input);
    return result ? std::optional(in_float(*result)) : std::nullopt;
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    return std::nullopt;
  }
}

void add_weight(Sums& sums, const Captured& op, const Captured& layer) {
  const at::Tensor weight = detail::int8_weight(op);
  const at::Tensor exact = weight.defined() ? detail::float_weight(layer, weight) : at::Tensor();
  if (!exact.defined()) return;
  sums.weight = in_float(weight).to(at::kDouble);
  sums.exact_weight = exact.to(at::kDouble).reshape(weight.sizes());
}

// ---------------------------------------------------------------- which values belong together

/// A float value that an int8 value may stand for.
struct Nearest {
  std::size_t place{};
  double error{std::numeric_limits<double>::infinity()};
};

/// The float value that is nearest to an int8 value, from `from` on; none of its shape: the end. The distance
/// is not relative to the float value: what follows a ReLU is never nearer to its input than to its output,
/// however wrong it is.
Nearest nearest(const Captured& op, const std::vector<Captured>& exact, std::size_t from, std::size_t end) {
  const at::Tensor got = in_float(op.output);
  Nearest best{.place = end};
  for (std::size_t i = from; i < end; ++i) {
    const Captured& candidate = exact[i];
    if (!candidate.output.defined() || candidate.is_view || !fits(candidate.output, got) ||
        !at::isFloatingType(candidate.output.scalar_type()))
      continue;
    ErrorSums difference;
    add_difference(difference, candidate.output, got.reshape_as(candidate.output));
    if (difference.error < best.error) best = {.place = i, .error = difference.error};
  }
  return best;
}

/// Sums of all operators of all segments, in the order of the flow.
class Comparison {
 public:
  Comparison(at::QEngine engine, const ComparisonOptions& options) : engine_(engine), options_(options) {}

  void add(std::vector<Captured> exact, std::vector<Captured> got) {
    pairs_.name(exact, got);
    const std::set<std::string> left = detail::layers_in(exact);
    std::set<std::string> common = detail::layers_in(got);
    std::erase_if(common, [&](const std::string& layer) { return !left.contains(layer); });
    note_layers(exact, common);
    std::map<std::string, std::vector<Segment>> float_segments;
    for (const Segment& segment : detail::segments_of(exact, common))
      float_segments[segment.layer].push_back(segment);
    std::map<std::string, std::size_t> turns;
    for (const Segment& segment : detail::segments_of(got, common)) {
      const std::vector<Segment>& same = float_segments[segment.layer];
      const std::size_t turn = turns[segment.layer]++;
      if (turn < same.size()) add(exact, same[turn], got, segment, turn);
    }
  }

  /// Finds what is scaled. True: all runs are to be added once more, since layers were shown float values
  /// without the factors that their weights take back.
  bool find_scaled() {
    for (const Sums& sums : rows_)
      columns_.push_back(sums.weight.defined() ? detail::column_gains(sums.weight, sums.exact_weight)
                                               : detail::ColumnGains());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      auto reader = reader_of_scaled(i);
      if (!reader) continue;
      const auto& [place, columns] = *reader;
      show_factors(place, rows_[i].gains, columns);
      readers_.emplace(i, *std::move(reader));
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].input_factors.of_channel.defined()) find_factors_in_front(i);
    }
    return is_repeated_;
  }

  [[nodiscard]] ComparedLayers result() const {
    ComparedLayers compared;
    compared.rows = rows();
    for (const auto& [layer, is_named] : float_layers_) {
      if (std::ranges::find(compared.rows, layer, &LayerComparison::layer) != compared.rows.end()) continue;
      compared.without_row.push_back(
          {.layer = layer, .reason = is_named ? NoRow::NothingComparable : NoRow::NotNamed});
    }
    return compared;
  }

 private:
  /// The row that takes back how another is scaled, and with what its weight's columns are multiplied.
  using Reader = std::pair<std::size_t, detail::ColumnGains>;

  /// Of a product in front of a layer, which has no row: it has no weight either, whose scale could be wrong.
  void find_factors_in_front(std::size_t place) {
    detail::ColumnGains columns = columns_[place];
    columns.is_absolute = false;
    const detail::ValueGains& gains = rows_[place].input_gains;
    if (gains.are_taken_back_by(columns)) show_factors(place, gains, columns);
  }

  /// From now on a layer is shown float values with the factors of `gains`, which its columns take back.
  void show_factors(std::size_t place, const detail::ValueGains& gains, const detail::ColumnGains& columns) {
    Sums& sums = rows_[place];
    sums.input_factors = {.of_channel = gains.factors(columns), .is_convolution = columns.is_convolution};
    sums.alone = {};
    sums.gains_alone = {};
    is_repeated_ = true;
  }

  [[nodiscard]] std::vector<LayerComparison> rows() const {
    std::vector<LayerComparison> rows;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Sums& sums = rows_[i];
      rows.push_back(facts_of(sums));
      if (sums.input_factors.of_channel.defined())
        rows[i].weight_sqnr_db = detail::weight_sqnr(sums.weight, sums.exact_weight, columns_[i]);
    }
    for (const auto& [row, reader] : readers_) take_factors_out(rows_[row], reader.second, rows[row]);
    return rows;
  }

  void note_layers(const std::vector<Captured>& exact, const std::set<std::string>& common) {
    for (const Captured& op : exact) {
      if (op.path.empty() || !is_compared(op)) continue;
      const auto known = std::ranges::find(float_layers_, op.path, &FloatLayer::first);
      if (known == float_layers_.end()) {
        float_layers_.emplace_back(op.path, common.contains(op.layer));
      } else {
        known->second = known->second || common.contains(op.layer);
      }
    }
  }

  void add(const std::vector<Captured>& exact, const Segment& wanted, const std::vector<Captured>& got,
           const Segment& segment, std::size_t turn) {
    std::size_t from = wanted.begin;
    bool is_first = true;
    for (std::size_t i = segment.begin; i < segment.end; ++i) {
      if (!is_compared(got[i])) continue;
      const std::string key = fmt::format("{}#{}#{}", segment.layer, turn, i - segment.begin);
      const auto known = places_.find(key);
      const std::size_t place = known == places_.end() ? place_of(i, got, segment, exact, from, wanted.end)
                                                       : wanted.begin + rows_[known->second].float_place;
      if (place >= wanted.end || !fits(exact[place].output, got[i].output)) continue;
      from = place + 1;
      // A kernel may be followed by operators of its own: the sum with a bias.
      const std::size_t kernel =
          std::exchange(is_first, false) ? first_with_weight(got, segment.begin, i) : i;
      if (known == places_.end()) {
        places_.emplace(key, rows_.size());
        rows_.push_back({.float_place = place - wanted.begin});
        rows_.back().facts = {.layer = exact[wanted.begin].path,
                              .kernel = got[kernel].kind,
                              .float_operator = exact[place].kind};
      }
      add(rows_[places_.at(key)], exact[wanted.begin], exact[place], got[i]);
    }
  }

  /// The first operator from `begin` to `last` that reads more than one tensor, or packed params; else the
  /// last.
  static std::size_t first_with_weight(const std::vector<Captured>& got, std::size_t begin,
                                       std::size_t last) {
    for (std::size_t i = begin; i < last; ++i) {
      const auto tensors = std::ranges::count_if(got[i].inputs, &at::IValue::isTensor);
      if (tensors > 1 || std::ranges::any_of(got[i].inputs, &at::IValue::isObject)) return i;
    }
    return last;
  }

  /// The place of the float value that is nearest to an int8 value, unless what the int8 model computes of it
  /// in the same segment is nearer; the end where there is none.
  static std::size_t place_of(std::size_t op, const std::vector<Captured>& got, const Segment& segment,
                              const std::vector<Captured>& exact, std::size_t from, std::size_t end) {
    const Nearest own = nearest(got[op], exact, from, end);
    for (std::size_t i = op + 1; own.place < end && i < segment.end; ++i) {
      if (!is_compared(got[i])) continue;
      const Nearest later = nearest(got[i], exact, from, end);
      if (later.place == own.place && later.error < own.error) return end;
    }
    return own.place;
  }

  void add(Sums& sums, const Captured& layer, const Captured& wanted, const Captured& op) const {
    if (is_repeated_) {
      if (sums.input_factors.of_channel.defined()) add_alone(sums, layer, wanted, op);
      return;
    }
    const at::Tensor got = in_float(op.output).reshape_as(wanted.output);
    add_difference(sums.whole, wanted.output, got);
    sums.gains.add(wanted.output, got);
    sums.numbers += wanted.output.numel();
    add_codes(sums, op.output, wanted.output);
    add_outliers(sums, wanted.output);
    if (options_.histograms) sums.values.add(wanted.output);
    if (op.layer != layer.layer) return;
    if (!sums.weight.defined()) add_weight(sums, op, layer);
    if (sums.weight.defined() && fits(op.input, layer.input))
      sums.input_gains.add(layer.input, in_float(op.input).reshape_as(layer.input));
    add_alone(sums, layer, wanted, op);
  }

  void add_alone(Sums& sums, const Captured& layer, const Captured& wanted, const Captured& op) const {
    if (op.kind != sums.facts.kernel) return;  // it does not read what the layer reads
    const std::optional<at::Tensor> alone = shadow(op, layer, sums.input_factors, engine_);
    if (!alone || !fits(*alone, wanted.output)) return;
    add_difference(sums.alone, wanted.output, alone->reshape_as(wanted.output));
    sums.gains_alone.add(wanted.output, alone->reshape_as(wanted.output));
  }

  /// The row that takes back how a row's values are scaled, by channel, with what its weight's columns are
  /// multiplied with; none where they are not.
  [[nodiscard]] std::optional<Reader> reader_of_scaled(std::size_t row) const {
    constexpr std::size_t kFarthest = 8;
    for (std::size_t i = row + 1; i < std::min(rows_.size(), row + 1 + kFarthest); ++i) {
      if (!rows_[i].weight.defined()) continue;
      detail::ColumnGains columns = columns_[i];
      // A factor that nobody takes back is a fault of one of the two. What has no weight has no scale to be
      // wrong.
      columns.is_absolute = columns.is_absolute && rows_[row].weight.defined();
      if (rows_[row].gains.are_taken_back_by(columns)) return std::pair(i, columns);
    }
    return std::nullopt;
  }

  static void take_factors_out(const Sums& sums, const detail::ColumnGains& columns, LayerComparison& facts) {
    facts.is_scaled = true;
    facts.sqnr_db = sums.gains.sqnr_db(columns);
    if (facts.alone_sqnr_db) facts.alone_sqnr_db = sums.gains_alone.sqnr_db(columns);
    facts.outside.reset();  // of values that are not scaled
  }

  static void add_histograms(const Sums& sums, LayerComparison& facts) {
    facts.values = sums.values.histogram();
    if (facts.values) facts.values->range = sums.reach;
    if (!sums.weight.defined()) return;
    detail::ValueCounts weights;
    weights.add(sums.exact_weight);
    facts.weights = weights.histogram();
    if (facts.weights)
      facts.weights->range = {sums.weight.min().item<double>(), sums.weight.max().item<double>()};
  }

  [[nodiscard]] LayerComparison facts_of(const Sums& sums) const {
    LayerComparison facts = sums.facts;
    facts.sqnr_db = sums.whole.sqnr_db();
    if (sums.alone.power > 0) facts.alone_sqnr_db = sums.alone.sqnr_db();
    if (sums.weight.defined()) facts.weight_sqnr_db = detail::weight_sqnr(sums.weight, sums.exact_weight);
    if (sums.usual > 0) facts.outlier = sums.largest / sums.usual;
    if (options_.histograms) add_histograms(sums, facts);
    if (!facts.codes) return facts;
    facts.outside = static_cast<double>(sums.outside) / static_cast<double>(sums.numbers);
    facts.codes_used = sums.used.sum().item<int64_t>();
    return facts;
  }

  /// The path of a layer that computes something, and whether the int8 model names it.
  using FloatLayer = std::pair<std::string, bool>;

  at::QEngine engine_;
  ComparisonOptions options_;
  detail::LayerPairs pairs_{};
  std::vector<FloatLayer> float_layers_{};
  std::vector<Sums> rows_{};
  std::map<std::string, std::size_t> places_{};
  std::vector<detail::ColumnGains> columns_{};  ///< of each row, once all are known
  std::map<std::size_t, Reader> readers_{};     ///< of the rows that are scaled
  bool is_repeated_{false};
};

std::vector<Captured> captured(Module& module, at::QEngine engine, const Sample& sample, const char* which,
                               std::size_t number) {
  try {
    const kernels::EnginePacking packing(engine);
    return detail::capture(module, sample);
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    throw Error(ErrorCode::BadData,
                fmt::format("the {} model cannot run on sample {}: {}", which, number, reason_of(error)));
  }
}

/// The same weights in a module of its own, without batch norms in training.
Module copy_in_eval(const Module& module) {
  Module copy = module.copy();
  copy.eval();
  return copy;
}

}  // namespace

nlohmann::json ValueHistogram::to_json() const {
  nlohmann::json json{{"low", low}, {"high", high}, {"counts", counts}};
  json["range"] = range ? nlohmann::json{range->first, range->second} : nlohmann::json(nullptr);
  return json;
}

nlohmann::json LayerComparison::to_json() const {
  const auto count = [](const std::optional<int64_t>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  return {{"layer", layer},
          {"kernel", kernel},
          {"float_operator", float_operator},
          {"sqnr_db", detail::finite_or_null(sqnr_db)},
          {"alone_sqnr_db", detail::finite_or_null(alone_sqnr_db)},
          {"weight_sqnr_db", detail::finite_or_null(weight_sqnr_db)},
          {"outside", detail::finite_or_null(outside)},
          {"codes", count(codes)},
          {"codes_used", count(codes_used)},
          {"outlier", detail::finite_or_null(outlier)},
          {"is_scaled", is_scaled}};
}

nlohmann::json ComparedLayers::to_json() const {
  nlohmann::json layers = nlohmann::json::array();
  for (const LayerComparison& row : rows) layers.push_back(row.to_json());
  nlohmann::json others = nlohmann::json::array();
  for (const auto& [layer, reason] : without_row)
    others.push_back({{"layer", layer}, {"reason", to_string(reason)}});
  return {{"layers", std::move(layers)}, {"without_row", std::move(others)}};
}

std::string_view to_string(NoRow reason) {
  return reason == NoRow::NotNamed
             ? "no operator of the int8 model has its name: another layer's kernel computes it"
             : "the int8 model's operators of its name return no value like a float one";
}

ComparedLayers compare_layers(const Module& float_model, const Module& int8_model,
                              std::span<const Sample> samples, const ComparisonOptions& options) {
  const c10::InferenceMode no_gradients;
  Module exact = copy_in_eval(float_model);
  Module got = copy_in_eval(int8_model);
  const at::QEngine engine = engine_in_use();
  Comparison comparison(engine, options);
  const auto add_all = [&] {
    for (std::size_t i = 0; i < samples.size(); ++i)
      comparison.add(captured(exact, engine, samples[i], "float", i),
                     captured(got, engine, samples[i], "int8", i));
  };
  add_all();
  if (comparison.find_scaled()) add_all();
  ComparedLayers compared = comparison.result();
  if (compared.rows.empty())
    throw Error(ErrorCode::BadModel, "the models have no layer in common, by name or by weight",
                "give a float model and an int8 model of it");
  return compared;
}

}  // namespace tsq
