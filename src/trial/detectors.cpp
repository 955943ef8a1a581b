// PyTorch's model report: what a float model's weights and values ask of a QConfig.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/detectors.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_number.h"
#include "base/libtorch_error.h"
#include "pipeline/stage.h"
#include "torchscript/kept_state.h"
#include "trial/captured.h"

namespace tsq {
namespace {

using detail::Captured;

/// The least and the greatest value of each channel so far.
struct Ranges {
  at::Tensor low{};
  at::Tensor high{};

  void add(const at::Tensor& rows) {
    const auto [least, greatest] = rows.aminmax(1);
    low = low.defined() ? at::minimum(low, least) : least;
    high = high.defined() ? at::maximum(high, greatest) : greatest;
  }
  /// Of each channel, as a share of that of all together.
  [[nodiscard]] at::Tensor shares() const { return (high - low) / (high.max() - low.min()); }
};

/// What the samples show of one layer.
struct Seen {
  std::string layer{};
  std::string kernel{};
  at::Tensor weight{};
  Ranges input{};
  double low{INFINITY};    ///< of the output
  double high{-INFINITY};  ///< of the output
  double widths{0};        ///< sum over samples of the output's width
  int64_t samples{0};
  at::Tensor outlier_sum{};  ///< of each input channel: ratios, summed over the samples that have one
  at::Tensor outlier_count{};
};

bool is_linear(const Captured& op) { return op.kind == "aten::linear"; }

/// Convolutions and linear layers with a weight. Those of transposed convolutions have other axes.
bool is_looked_at(const Captured& op) {
  if (op.path.empty() || !op.output.defined() || op.inputs.size() < 2 || !op.inputs[1].isTensor())
    return false;
  const at::Tensor& weight = op.inputs[1].toTensor();
  if (!weight.defined() || weight.dim() < 2 || !at::isFloatingType(weight.scalar_type())) return false;
  constexpr std::size_t kTransposed = 6;
  if (op.kind == "aten::_convolution")  // of traced files
    return op.inputs.size() > kTransposed && op.inputs[kTransposed].isBool() &&
           !op.inputs[kTransposed].toBool();
  return is_linear(op) || op.kind == "aten::conv1d" || op.kind == "aten::conv2d" || op.kind == "aten::conv3d";
}

/// [channels, values]: linear layers have their channels last, convolutions, with a batch or without, before
/// the axes of the kernel.
at::Tensor rows_of(const at::Tensor& values, const Captured& op) {
  const int64_t spatial = is_linear(op) ? 0 : op.inputs[1].toTensor().dim() - 2;
  return values.movedim(values.dim() - 1 - spatial, 0).flatten(1).to(at::kFloat);
}

/// The size that 97.5 % of the sizes in each row do not exceed.
at::Tensor usual_size(const at::Tensor& rows) {
  constexpr double kUsual = 0.975;
  const auto rank = 1 + static_cast<int64_t>(kUsual * static_cast<double>(rows.size(1) - 1));
  return std::get<0>(rows.kthvalue(rank, 1));
}

void add_outliers(Seen& seen, const at::Tensor& rows) {
  const at::Tensor sizes = rows.abs();
  const at::Tensor usual = usual_size(sizes);
  const at::Tensor counts = usual.gt(0);
  const at::Tensor ratios = at::where(counts, sizes.amax(1) / usual, 0.0);
  seen.outlier_sum = seen.outlier_sum.defined() ? seen.outlier_sum + ratios : ratios;
  seen.outlier_count = seen.outlier_count.defined() ? seen.outlier_count + counts : counts.to(at::kFloat);
}

void add(Seen& seen, const Captured& op) {
  const at::Tensor rows = rows_of(op.input, op);
  if (rows.numel() == 0 || !at::isfinite(rows).all().item<bool>() ||
      !at::isfinite(op.output).all().item<bool>())
    return;
  seen.input.add(rows);
  add_outliers(seen, rows);
  const double low = op.output.min().item<double>();
  const double high = op.output.max().item<double>();
  seen.low = std::min(seen.low, low);
  seen.high = std::max(seen.high, high);
  seen.widths += high - low;
  ++seen.samples;
}

/// The layers in the order of the flow. One that is called several times counts as one.
std::vector<Seen> seen_layers(const torch::jit::Module& model, std::span<const Sample> samples) {
  torch::jit::Module copy = model.copy();
  copy.eval();
  const torchscript::KeptState state(copy);
  std::vector<Seen> layers;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::vector<Captured> operators;
    try {
      operators = detail::capture(copy, samples[i]);
    } catch (const std::exception& error) {
      throw run_error("the model", i, error);
    }
    for (const Captured& op : operators) {
      if (!is_looked_at(op)) continue;
      const auto [place, is_new] = places.try_emplace(op.path, layers.size());
      if (is_new) layers.push_back({.layer = op.path, .kernel = op.kind, .weight = op.inputs[1].toTensor()});
      add(layers[place->second], op);
    }
  }
  return layers;
}

/// The QConfig of each layer that a mapping quantizes, by the layer's path.
std::map<std::string, QConfig> qconfigs_of(const torch::jit::Module& model, const QConfigMapping& mapping,
                                           const BackendConfig& backend) {
  const Prepared prepared = prepare(model, mapping, backend, {.recipe = Recipe::Fx});
  std::map<std::string, QConfig> found;
  for (const ir::NodeRecord& record : detail::stage_of(prepared).model.records) {
    if (record.lookup.qconfig && record.decision.reason.empty())
      found.emplace(record.decision.layer, *record.lookup.qconfig);
  }
  return found;
}

std::vector<int64_t> places_in(const at::Tensor& chosen) {
  const at::Tensor places = chosen.nonzero().flatten().contiguous();
  return {places.data_ptr<int64_t>(), places.data_ptr<int64_t>() + places.numel()};
}

std::optional<Finding> per_channel(const Seen& seen, const QConfig& qconfig) {
  const ResolvedObserver weight = resolve(qconfig.weight);
  const bool has_scale_for_each = weight.qscheme == c10::kPerChannelAffine ||
                                  weight.qscheme == c10::kPerChannelSymmetric ||
                                  weight.qscheme == c10::kPerChannelAffineFloatQParams;
  if (has_scale_for_each || weight.dtype != c10::ScalarType::QInt8) return std::nullopt;
  const at::Tensor widths = seen.weight.flatten(1).abs().amax(1);
  const double least = widths.min().item<double>();
  QConfig advised = qconfig;
  advised.weight = tsq::qconfig("default_per_channel_qconfig").weight;
  return Finding{.detector = Detector::PerChannel,
                 .figure = least > 0 ? widths.max().item<double>() / least : INFINITY,
                 .limit = 1,
                 .advises_qconfig = true,
                 .qconfig = advised};
}

std::optional<Finding> dynamic(const Seen& seen, const QConfig& qconfig, const DetectorLimits& limits) {
  const double width = seen.high - seen.low;
  if (seen.kernel != "aten::linear" || width <= 0 || resolve(qconfig.activation).is_dynamic)
    return std::nullopt;
  const double figure = seen.widths / static_cast<double>(seen.samples) / width;
  if (figure > limits.stationary) return std::nullopt;
  QConfig advised = qconfig;
  advised.activation = tsq::qconfig("default_dynamic_qconfig").activation;
  return Finding{.detector = Detector::Dynamic,
                 .figure = figure,
                 .limit = limits.stationary,
                 .advises_qconfig = true,
                 .qconfig = advised};
}

std::optional<Finding> equalization(const Seen& seen, const DetectorLimits& limits) {
  Ranges columns;
  columns.add(seen.weight.transpose(0, 1).flatten(1).to(at::kFloat));
  at::Tensor of_weight = columns.shares();
  const at::Tensor of_input = seen.input.shares();
  of_weight = of_weight.repeat({of_input.size(0) / of_weight.size(0)});  // of groups
  const at::Tensor ratios = (of_weight / of_input).sqrt();
  const at::Tensor unequal = at::maximum(ratios, 1 / ratios);
  const at::Tensor gains = unequal.ge(limits.equalizes) & unequal.isfinite();
  if (!gains.any().item<bool>()) return std::nullopt;
  return Finding{.detector = Detector::Equalization,
                 .figure = unequal.masked_select(gains).max().item<double>(),
                 .limit = limits.equalizes,
                 .channels = places_in(gains)};
}

std::optional<Finding> outliers(const Seen& seen, const DetectorLimits& limits) {
  const at::Tensor means = seen.outlier_sum / seen.outlier_count;
  const double fewest = limits.of_samples * static_cast<double>(seen.samples);
  const at::Tensor in_channel = at::where(seen.outlier_count.ge(fewest), means, 0.0);
  const at::Tensor sizes = at::maximum(seen.input.low.abs(), seen.input.high.abs());
  const double usual = usual_size(sizes.unsqueeze(0)).item<double>();
  const at::Tensor ratios = usual > 0 ? at::maximum(in_channel, sizes / usual) : in_channel;
  const at::Tensor found = ratios.gt(limits.outlier);
  if (!found.any().item<bool>()) return std::nullopt;
  return Finding{.detector = Detector::Outliers,
                 .figure = ratios.max().item<double>(),
                 .limit = limits.outlier,
                 .channels = places_in(found),
                 .advises_qconfig = true};
}

}  // namespace

std::string_view to_string(Detector detector) {
  switch (detector) {
    case Detector::PerChannel:
      return "per channel";
    case Detector::Dynamic:
      return "dynamic";
    case Detector::Equalization:
      return "equalization";
    case Detector::Outliers:
      return "outliers";
  }
  return "";
}

std::string Finding::to_text() const {
  switch (detector) {
    case Detector::PerChannel:
      return fmt::format("the weight has one scale, and its channels differ {:.1f} times in size", figure);
    case Detector::Dynamic:
      return fmt::format("the output of a sample fills {:.0f} % of the range of all, {:.0f} % or less",
                         100 * figure, 100 * limit);
    case Detector::Equalization:
      return fmt::format("{} of the input and of the weight unequally, by up to {:.1f} ({:.1f} or more)",
                         channels.size() == 1 ? "1 channel fills the ranges"
                                              : fmt::format("{} channels fill the ranges", channels.size()),
                         figure, limit);
    case Detector::Outliers:
      return fmt::format(
          "{} values up to {:.1f} times what 97.5 % of theirs, or of the channels, do not exceed",
          channels.size() == 1 ? "1 channel of the input has"
                               : fmt::format("{} channels of the input have", channels.size()),
          figure);
  }
  return {};
}

std::string Finding::advice() const {
  if (!advises_qconfig) return "equalize its input with its weight";
  if (!qconfig) return "leave it float; recipe best, where it can, moves outliers to the weights";
  return detector == Detector::Dynamic ? "find the range of its input when it runs"
                                       : "one scale for each channel of its weight";
}

nlohmann::json Finding::to_json() const {
  nlohmann::json json{{"layer", layer},       {"kernel", kernel}, {"detector", to_string(detector)},
                      {"finding", to_text()}, {"limit", limit},   {"channels", channels},
                      {"advice", advice()}};
  json["figure"] = detail::finite_or_null(figure);
  if (advises_qconfig) json["qconfig"] = qconfig ? qconfig->to_dict() : nlohmann::json(nullptr);
  return json;
}

std::vector<Finding> detect(const torch::jit::Module& model, std::span<const Sample> samples,
                            const QConfigMapping& mapping, const BackendConfig& backend,
                            const DetectorLimits& limits) {
  const c10::InferenceMode no_gradients;
  const std::map<std::string, QConfig> qconfigs = qconfigs_of(model, mapping, backend);
  std::vector<Finding> findings;
  for (const Seen& seen : seen_layers(model, samples)) {
    const auto qconfig = qconfigs.find(seen.layer);
    if (qconfig == qconfigs.end() || seen.samples == 0) continue;
    for (std::optional<Finding> found :
         {per_channel(seen, qconfig->second), dynamic(seen, qconfig->second, limits),
          equalization(seen, limits), outliers(seen, limits)}) {
      if (!found) continue;
      found->layer = seen.layer;
      found->kernel = seen.kernel;
      findings.push_back(*std::move(found));
    }
  }
  return findings;
}

QConfigMapping advised_qconfigs(QConfigMapping mapping, std::span<const Finding> findings) {
  std::map<std::string, MaybeQConfig> advised;
  for (const Finding& finding : findings) {
    if (!finding.advises_qconfig) continue;
    const auto [known, is_new] = advised.try_emplace(finding.layer, finding.qconfig);
    if (is_new || !known->second) continue;
    if (!finding.qconfig) {
      known->second.reset();
    } else {
      (finding.detector == Detector::Dynamic ? known->second->activation : known->second->weight) =
          finding.detector == Detector::Dynamic ? finding.qconfig->activation : finding.qconfig->weight;
    }
  }
  for (const auto& [layer, qconfig] : advised) mapping.set_module_name(layer, qconfig);
  return mapping;
}

EqualizationMapping advised_equalization(std::span<const Finding> findings) {
  EqualizationMapping mapping;
  for (const Finding& finding : findings) {
    if (finding.detector == Detector::Equalization)
      mapping.set_module_name(finding.layer, default_equalization_qconfig());
  }
  return mapping;
}

}  // namespace tsq
