// The numeric suite: what each operator of an int8 model computes beside the float model.

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <tsq/bench/profile.h>
#include <tsq/compare_layers.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "backends/kernels/engine_packing.h"
#include "base/json_number.h"
#include "base/libtorch_error.h"
#include "outputs/output_power.h"
#include "pipeline/operator_watch.h"
#include "torchscript/kept_state.h"
#include "trial/captured.h"
#include "trial/channel_gains.h"
#include "trial/layer_sums.h"
#include "trial/layer_weights.h"
#include "trial/operator_pairs.h"
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
using detail::OperatorPair;
using Sums = detail::LayerSums;
using torch::jit::Module;

// ---------------------------------------------------------------- shadows and weights

/// The tensor that an int8 operator gets, in place of its own, to compute on the float model's numbers. What
/// the int8 model rounds on the way to it is rounded here, too. Undefined where its codes have no meaning.
at::Tensor as_input(const at::Tensor& own, const at::Tensor& exact, const at::Tensor& rounded) {
  const at::Tensor& codes = own.is_quantized() ? own : rounded;
  if (!codes.defined() || !codes.is_quantized())
    return detail::holds_codes(own) ? at::Tensor() : exact.to(own.scalar_type()).clone();
  const at::Tensor quantized =
      at::quantize_per_tensor(exact.to(at::kFloat).contiguous(own.suggest_memory_format()), codes.q_scale(),
                              codes.q_zero_point(), codes.scalar_type());
  if (own.is_quantized()) return quantized;
  return detail::holds_codes(own) ? quantized.int_repr() : quantized.dequantize().to(own.scalar_type());
}

/// A value with other tensors in it: those of `tensors`, from `next` on.
at::IValue with_tensors(const at::IValue& value, const std::vector<at::Tensor>& tensors, std::size_t& next) {
  if (value.isTensor()) return value.toTensor().defined() ? at::IValue(tensors[next++]) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& own : value.toTensorVector())
      list.push_back(own.defined() ? tensors[next++] : own);
    return list;
  }
  std::vector<at::Tensor> others;
  detail::collect_tensors(value, others);
  next += others.size();
  return value;
}

/// The first result of an operator of LibTorch's on other tensors in place of its own.
std::optional<at::Tensor> dispatched(const Captured& op, const std::vector<at::Tensor>& tensors) {
  const auto handle = op.name ? c10::Dispatcher::singleton().findSchema(*op.name) : std::nullopt;
  if (!handle) return std::nullopt;
  torch::jit::Stack stack;
  std::size_t next = 0;
  for (const at::IValue& value : op.inputs) stack.push_back(with_tensors(value, tensors, next));
  handle->callBoxed(&stack);
  return !stack.empty() && stack.front().isTensor() ? std::optional(stack.front().toTensor()) : std::nullopt;
}

/// What an int8 operator makes of the float model's values of all that it reads.
std::optional<at::Tensor> shadow(const Captured& op, const OperatorPair& pair, const InputFactors& factors,
                                 at::QEngine engine) {
  if (!pair.has_all_inputs) return std::nullopt;
  std::vector<at::Tensor> tensors = detail::tensors_of(op.inputs);
  try {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!pair.inputs[i]) continue;
      const bool is_per_tensor = !tensors[i].is_quantized() || tensors[i].qscheme() == at::kPerTensorAffine;
      if (!is_per_tensor || !fits(tensors[i], *pair.inputs[i])) return std::nullopt;
      const at::Tensor exact =
          pair.is_layer && i == pair.input ? factors.applied_to(*pair.inputs[i]) : *pair.inputs[i];
      tensors[i] = as_input(tensors[i], exact.reshape_as(tensors[i]), op.reads[i].rounded);
      if (!tensors[i].defined()) return std::nullopt;
    }
    const kernels::EnginePacking packing(engine);
    const std::optional<at::Tensor> result = op.compute ? op.compute(tensors) : dispatched(op, tensors);
    return result ? std::optional(in_float(*result)) : std::nullopt;
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    return std::nullopt;
  }
}

/// A transposed convolution's weight, [channels in, channels out of a group, …], as others lie.
at::Tensor by_output_channel(const at::Tensor& weight, const Captured& layer) {
  const bool is_transposed = detail::weighted_kind(layer.kind, layer.inputs).starts_with("conv_transpose");
  if (!is_transposed || layer.output.dim() < weight.dim() - 1) return weight;
  const int64_t groups = layer.output.size(1 - weight.dim()) / weight.size(1);
  return weight.unflatten(0, {groups, -1}).transpose(1, 2).flatten(0, 1);
}

void add_weight(Sums& sums, const Captured& op, const Captured& layer) {
  const at::Tensor weight = detail::int8_weight(op);
  const at::Tensor exact = weight.defined() ? detail::float_weight(layer, weight) : at::Tensor();
  if (!exact.defined()) return;
  sums.weight = by_output_channel(in_float(weight).to(at::kDouble), layer);
  sums.exact_weight = by_output_channel(exact.to(at::kDouble).reshape(weight.sizes()), layer);
}

/// How many operators of the same kind run before one.
std::size_t occurrence_of(const std::vector<Captured>& run, std::size_t place) {
  return static_cast<std::size_t>(std::ranges::count(
      run.begin(), run.begin() + static_cast<std::ptrdiff_t>(place), run[place].kind, &Captured::kind));
}

/// Sums of all operators that are compared, in the order of the flow.
class Comparison {
 public:
  Comparison(at::QEngine engine, const ComparisonOptions& options) : engine_(engine), options_(options) {}

  void add(std::vector<Captured> exact, std::vector<Captured> got) {
    layers_.name(exact, got);
    note_layers(exact);
    std::map<std::size_t, std::size_t> rows_of_run;  // by operator of the int8 run
    for (const OperatorPair& pair : pairs_.find(exact, got)) {
      rows_of_run.emplace(pair.got, pair.row);
      if (pair.row == rows_.size()) {
        const std::string& layer = exact[pair.first].path;
        rows_.emplace_back().facts = {.layer = layer.empty() ? std::string(kModelItself) : layer,
                                      .kernel = got[pair.kernel].kind,
                                      .occurrence = occurrence_of(got, pair.kernel),
                                      .float_operator = exact[pair.last].kind};
      }
      for (const std::size_t op : pair.operators) computed_.insert(exact[op].path);
      for (const std::size_t maker : pair.makers) {
        if (const auto row = rows_of_run.find(maker); row != rows_of_run.end() && !pair.is_layer)
          read_as_they_are_.emplace(pair.row, row->second);
      }
      add(rows_[pair.row], exact, got, pair);
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
      taken_back_.emplace(i, columns);
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].input_factors.of_channel.defined()) find_factors_in_front(i);
    }
    for (const auto& [row, read] : read_as_they_are_) {
      if (rows_[read].gains.are_made_up_for_by(rows_[row].gains, rows_[row].gains_alone, columns_[read]))
        taken_back_.try_emplace(read, std::nullopt);
    }
    return is_repeated_;
  }

  [[nodiscard]] ComparedLayers result() const {
    ComparedLayers compared;
    compared.rows = rows();
    for (const std::string& layer : float_layers_) {
      if (std::ranges::find(compared.rows, layer, &LayerComparison::layer) != compared.rows.end()) continue;
      compared.without_row.push_back(
          {.layer = layer,
           .reason = computed_.contains(layer) ? NoRow::WithinAnother : NoRow::NothingComparable});
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
    for (const auto& [row, columns] : taken_back_) take_factors_out(rows_[row], columns, rows[row]);
    // Its ranges are those of scaled values, and it was shown others.
    for (const auto& [row, read] : read_as_they_are_) {
      if (rows[read].is_scaled) rows[row].alone_sqnr_db.reset();
    }
    return rows;
  }

  void note_layers(const std::vector<Captured>& exact) {
    for (const Captured& op : exact) {
      if (op.path.empty() || !detail::is_compared(op)) continue;
      if (std::ranges::find(float_layers_, op.path) == float_layers_.end()) float_layers_.push_back(op.path);
    }
  }

  void add(Sums& sums, const std::vector<Captured>& exact_run, const std::vector<Captured>& got_run,
           const OperatorPair& pair) const {
    const Captured& layer = exact_run[pair.first];
    const Captured& wanted = exact_run[pair.last];
    const Captured& op = got_run[pair.got];
    const Captured& kernel = got_run[pair.kernel];
    if (is_repeated_) {
      if (sums.input_factors.of_channel.defined()) add_alone(sums, wanted, op, pair);
      return;
    }
    const at::Tensor got = in_float(op.output).reshape_as(wanted.output);
    add_difference(sums.whole, wanted.output, got);
    sums.gains.add(wanted.output, got);
    sums.numbers += wanted.output.numel();
    add_codes(sums, op.output, wanted.output);
    add_outliers(sums, wanted.output);
    if (options_.histograms) sums.values.add(wanted.output);
    if (pair.is_layer && !sums.weight.defined()) add_weight(sums, kernel, layer);
    if (pair.is_layer && sums.weight.defined() && kernel.input.defined() && layer.input.defined() &&
        fits(kernel.input, layer.input))
      sums.input_gains.add(layer.input, in_float(kernel.input).reshape_as(layer.input));
    add_alone(sums, wanted, op, pair);
  }

  void add_alone(Sums& sums, const Captured& wanted, const Captured& op, const OperatorPair& pair) const {
    if (pair.kernel != pair.got) return;  // it does not read what the layer reads
    const std::optional<at::Tensor> alone = shadow(op, pair, sums.input_factors, engine_);
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

  /// Those that `columns` take back, or the common one.
  static void take_factors_out(const Sums& sums, const std::optional<detail::ColumnGains>& columns,
                               LayerComparison& facts) {
    const auto sqnr_db = [&](const detail::ValueGains& gains) {
      return columns ? gains.sqnr_db(*columns) : gains.sqnr_db();
    };
    facts.is_scaled = true;
    facts.sqnr_db = sqnr_db(sums.gains);
    if (facts.alone_sqnr_db) facts.alone_sqnr_db = sqnr_db(sums.gains_alone);
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

  at::QEngine engine_;
  ComparisonOptions options_;
  detail::LayerPairs layers_{};
  detail::OperatorPairs pairs_{};
  std::vector<std::string> float_layers_{};  ///< that compute something
  std::set<std::string> computed_{};         ///< layers of the float model that are part of a row
  /// Rows without a weight, and the rows whose values they read.
  std::set<std::pair<std::size_t, std::size_t>> read_as_they_are_{};
  std::vector<Sums> rows_{};
  std::vector<detail::ColumnGains> columns_{};  ///< of each row, once all are known
  /// The rows that are scaled, with the columns that take it back; none: all values have one factor, for
  /// which float has an operator.
  std::map<std::size_t, std::optional<detail::ColumnGains>> taken_back_{};
  bool is_repeated_{false};
};

std::vector<Captured> captured(Module& module, at::QEngine engine, const Sample& sample, const char* which,
                               std::size_t number) {
  try {
    // Each run has the same operators: LibTorch's optimizer would change a graph after its first run.
    const torch::jit::GraphOptimizerEnabledGuard as_saved(false);
    const kernels::EnginePacking packing(engine);
    return detail::capture(module, sample);
  } catch (const std::exception& error) {
    throw run_error(fmt::format("the {} model", which), number, error);
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
  return reason == NoRow::WithinAnother ? "the kernel of another row computes it"
                                        : "no operator of the int8 model returns a value like its own";
}

ComparedLayers compare_layers(const Module& float_model, const Module& int8_model,
                              std::span<const Sample> samples, const ComparisonOptions& options) {
  const c10::InferenceMode no_gradients;
  Module exact = copy_in_eval(float_model);
  Module got = copy_in_eval(int8_model);
  const at::QEngine engine = engine_in_use();
  Comparison comparison(engine, options);
  const torchscript::KeptState exact_state(exact);
  const torchscript::KeptState got_state(got);
  const auto add_all = [&] {
    exact_state.begin();
    got_state.begin();
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
