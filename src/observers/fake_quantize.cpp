// Fake quantize modules (torch/ao/quantization/fake_quantize.py) as TorchScript classes.

#include "observers/fake_quantize.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <limits>
#include <string>

#include "config/qscheme.h"
#include "observers/learnable_fake_quantize.h"
#include "observers/observer_class.h"
#include "observers/observer_module.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

using torch::jit::Module;

constexpr const char* kObserver = "activation_post_process";
constexpr const char* kNamespace = "torch.ao.quantization.fake_quantize.";
constexpr const char* kLearnableNamespace = "torch.ao.quantization._learnable_fake_quantize.";
constexpr const char* kFused = "FusedMovingAvgObsFakeQuantize";
constexpr const char* kFixed = "FixedQParamsFakeQuantize";

/// The setters return nothing, so that `enable_observer(False)` works in Python as in C++.
constexpr const char* kSwitches = R"(
def enable_fake_quant(self, enabled: bool = True) -> None:
    self.fake_quant_enabled.fill_(int(enabled))

def disable_fake_quant(self) -> None:
    self.fake_quant_enabled.fill_(0)

def enable_observer(self, enabled: bool = True) -> None:
    self.observer_enabled.fill_(int(enabled))

def disable_observer(self) -> None:
    self.observer_enabled.fill_(0)
)";

constexpr const char* kForward = R"(
def forward(self, X: Tensor) -> Tensor:
    observer = self.activation_post_process
)";

/// A weight that the model computes has no size yet. The buffers are replaced, because the memory of a tensor
/// out of a file cannot grow.
constexpr const char* kSizeBuffers = R"(
    if observer.min_val.numel() == 0:
        channels = [X.size(self.ch_axis)]
        observer.min_val = torch.full(channels, float("inf"))
        observer.max_val = torch.full(channels, -float("inf"))
        self.scale = torch.ones(channels)
        self.zero_point = torch.zeros(channels, dtype=self.zero_point.dtype)
)";

constexpr const char* kFusedForward = R"(
    return torch.fused_moving_avg_obs_fake_quant(
        X, self.observer_enabled, self.fake_quant_enabled, observer.min_val, observer.max_val, self.scale,
        self.zero_point, observer.averaging_constant, observer.quant_min, observer.quant_max, self.ch_axis,
        self.is_per_channel, self.is_symmetric_quant)
)";

/// FakeQuantize.forward (QT-51). Scale and zero point have their final size: nothing is resized.
constexpr const char* kObserve = R"(
    if bool(self.observer_enabled[0] == 1):
        observer.forward(X.detach())
        scale, zero_point = self.calculate_qparams()
        self.scale.copy_(scale)
        self.zero_point.copy_(zero_point)
    if bool(self.fake_quant_enabled[0] == 1):
)";
constexpr const char* kRoundTensor = R"(
        X = torch.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, observer.quant_min,
                                                  observer.quant_max)
    return X
)";
constexpr const char* kRoundChannels = R"(
        X = torch.fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis,
                                                   observer.quant_min, observer.quant_max)
    return X
)";

constexpr const char* kFixedQParams = R"(
def calculate_qparams(self) -> Tuple[Tensor, Tensor]:
    return self.scale, self.zero_point
)";

/// UniformQuantizationObserverBase._calculate_qparams: the tensor operations of qparams_of_range(), in the
/// same order (M-01 to M-06). An observer that saw nothing has its minimum above its maximum. torch.minimum
/// is torch.min of two tensors, of which TorchScript's executor would make graphs of derivatives.
constexpr const char* kReadRange = R"(
def {}(self) -> Tuple[Tensor, Tensor]:
    observer = self.activation_post_process
    min_val = observer.min_val
    max_val = observer.max_val
    if min_val.numel() == 0 or bool((min_val > max_val).all()):
        return torch.ones([1]), torch.zeros([1], dtype=4)
)";
constexpr const char* kSymmetric = R"(
    min_val_neg = torch.minimum(min_val, torch.zeros_like(min_val))
    max_val_pos = torch.maximum(max_val, torch.zeros_like(max_val))
    max_val_pos = torch.maximum(-min_val_neg, max_val_pos)
    scale = max_val_pos / (float(observer.quant_max - observer.quant_min) / 2)
    scale = torch.maximum(scale, observer.eps)
    return scale, torch.full_like(scale, {}).to(4)
)";
constexpr const char* kAffine = R"(
    min_val_neg = torch.min(min_val, torch.zeros_like(min_val))
    max_val_pos = torch.max(max_val, torch.zeros_like(max_val))
    scale = (max_val_pos - min_val_neg) / float(observer.quant_max - observer.quant_min)
    scale = torch.max(scale, observer.eps)
    zero_point = observer.quant_min - torch.round(min_val_neg / scale).to(3)
    return scale, torch.clamp(zero_point, observer.quant_min, observer.quant_max)
)";
constexpr const char* kFloatQParams = R"(
    scale = (max_val - min_val) / float(observer.quant_max - observer.quant_min)
    scale = torch.where(scale > observer.eps, scale, torch.ones_like(scale))
    return scale, -1 * min_val / scale
)";

std::string calculate_source(const ObserverSpec& spec, const ResolvedObserver& config) {
  if (config.observer == "FixedQParamsObserver") return kFixedQParams;
  const bool has_range = config.observer == "MinMaxObserver" ||
                         config.observer == "PerChannelMinMaxObserver" ||
                         config.observer.starts_with("MovingAverage");
  if (!has_range) {
    throw Error(ErrorCode::BadConfig,
                fmt::format("{} cannot have the observer {}", spec.fake_quantize, config.observer),
                "use a MinMax or MovingAverage observer");
  }
  const bool learns = spec.fake_quantize == kLearnableFakeQuantize;
  const std::string read_range =
      fmt::format(fmt::runtime(kReadRange), learns ? "observed_qparams" : "calculate_qparams");
  if (config.qscheme == c10::kPerChannelAffineFloatQParams) return read_range + kFloatQParams;
  if (!is_symmetric(config.qscheme)) return read_range + kAffine;
  return read_range + fmt::format(fmt::runtime(kSymmetric), symmetric_zero_point(uniform_config(config)));
}

std::string source_of(const ObserverSpec& spec, const ResolvedObserver& config, int64_t channels) {
  if (spec.fake_quantize == kLearnableFakeQuantize) {
    return calculate_source(spec, config) + learnable_source(is_per_channel(config.qscheme),
                                                             is_symmetric(config.qscheme),
                                                             spec.use_grad_scaling.value_or(false));
  }
  std::string source = kSwitches + calculate_source(spec, config) + kForward;
  if (is_per_channel(config.qscheme) && channels == 0) source += kSizeBuffers;
  if (spec.fake_quantize == kFused) return source + kFusedForward;
  return source + kObserve + (is_per_channel(config.qscheme) ? kRoundChannels : kRoundTensor);
}

/// "Nothing seen" of as many channels: what the fused operator takes for it (QT-90), and moving averages.
void size_ranges(Module& observer, int64_t channels) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  observer.setattr("min_val", at::full({channels}, kInfinity, at::kFloat));
  observer.setattr("max_val", at::full({channels}, -kInfinity, at::kFloat));
}

/// A channel has a scale of its own, and how many there are must be known: a parameter does not grow.
Module make_learnable(const ObserverSpec& spec, const ResolvedObserver& config, const Module& observer,
                      int64_t channels) {
  const bool per_channel = is_per_channel(config.qscheme);
  if (per_channel && channels == 0) {
    throw Error(ErrorCode::Unsupported, "the scales of a weight that the model computes cannot be learned",
                "use FakeQuantize for it, or a qscheme of the whole tensor");
  }
  ObserverState state{{"training", true},
                      {"ch_axis", per_channel ? config.ch_axis : int64_t{-1}},
                      {"quant_min", config.quant_min.value()},
                      {"quant_max", config.quant_max.value()}};
  for (const ObserverAttribute& each : learnable_state(per_channel ? channels : 1)) state.push_back(each);
  state.push_back({kObserver, observer._ivalue()});
  return shared_class(fmt::format("__torch__.{}{}", kLearnableNamespace, spec.fake_quantize), state,
                      source_of(spec, config, channels), /*variant=*/observer_class_name(observer))
      .instance(state);
}

/// The buffers of the fused operator, found anew of its range on copies of them.
void refresh_buffers(const Module& fused, at::Tensor& scale, at::Tensor& zero_point) {
  const Module observer = observer_of_fake_quantize(fused);
  const auto copy = [&](const char* name) { return observer.attr(name).toTensor().detach().clone(); };
  at::Tensor min_val = copy("min_val");
  at::Tensor max_val = copy("max_val");
  const bool per_channel = fused.attr("is_per_channel").toBool();
  const int64_t axis = fused.attr("ch_axis").toInt();
  std::vector<int64_t> shape(static_cast<std::size_t>(per_channel ? axis + 1 : 1), 1);
  if (per_channel) shape.back() = min_val.numel();
  at::fused_moving_avg_obs_fake_quant(
      at::zeros(shape), at::zeros({1}, at::kLong), at::ones({1}, at::kLong), min_val, max_val, scale,
      zero_point, observer.attr("averaging_constant").toDouble(), observer.attr("quant_min").toInt(),
      observer.attr("quant_max").toInt(), per_channel ? axis : 0, per_channel,
      fused.attr("is_symmetric_quant").toBool());
}

}  // namespace

Module make_fake_quantize(const ObserverSpec& spec, int64_t channels) {
  const ResolvedObserver config = resolve(spec);
  if (spec.fake_quantize.empty())
    throw Error(ErrorCode::BadConfig, fmt::format("{} is no fake quantize class", spec.observer));
  const std::string source = source_of(spec, config, channels);
  ObserverSpec plain = spec;
  plain.fake_quantize.clear();
  plain.use_grad_scaling.reset();
  if (config.quant_min && config.has_custom_range) {
    // Some classes have a range where none is given.
    plain.quant_min = spec.quant_min.value_or(0);
    plain.quant_max = spec.quant_max.value_or(255);
  }
  Module observer = make_observer(plain);
  const bool per_channel = is_per_channel(config.qscheme);
  if (per_channel) size_ranges(observer, channels);
  const auto enabled_dtype = spec.fake_quantize == kFused ? at::kLong : at::kByte;
  if (spec.fake_quantize == kLearnableFakeQuantize) return make_learnable(spec, config, observer, channels);
  const bool is_fixed = spec.fake_quantize == kFixed;
  const auto zero_point_dtype = config.qscheme == c10::kPerChannelAffineFloatQParams ? at::kFloat : at::kInt;
  const int64_t size = per_channel ? channels : 1;
  const ObserverState state{
      {"training", true},
      {"ch_axis", per_channel ? config.ch_axis : int64_t{-1}},
      {"is_per_channel", per_channel},
      {"is_symmetric_quant", is_symmetric(config.qscheme)},
      {"fake_quant_enabled", at::ones({1}, enabled_dtype)},
      {"observer_enabled", at::ones({1}, enabled_dtype)},
      {"scale", is_fixed ? observer.attr("scale").toTensor() : at::ones({size}, at::kFloat)},
      {"zero_point", is_fixed ? observer.attr("zero_point").toTensor() : at::zeros({size}, zero_point_dtype)},
      {kObserver, observer._ivalue()}};
  return shared_class(fmt::format("__torch__.{}{}", kNamespace, spec.fake_quantize), state, source,
                      /*variant=*/observer_class_name(observer))
      .instance(state);
}

bool is_fake_quantize(const Module& module) {
  const auto& name = module.type()->name();
  return name && (name->qualifiedName().find(kNamespace) != std::string::npos ||
                  name->qualifiedName().find(kLearnableNamespace) != std::string::npos);
}

Module observer_of_fake_quantize(const Module& fake_quantize) {
  return fake_quantize.attr(kObserver).toModule();
}

QParams qparams_of_fake_quantize(const Module& fake_quantize) {
  const c10::NoGradGuard no_grad;
  QParams qparams = calculate_qparams(observer_of_fake_quantize(fake_quantize));
  if (observer_class_name(fake_quantize) != kLearnableFakeQuantize) return qparams;
  const float eps = fake_quantize.attr("eps").toTensor().item<float>();
  qparams.scale = fake_quantize.attr("scale").toTensor().detach().clamp_min(eps);
  qparams.zero_point =
      fake_quantize.attr("zero_point")
          .toTensor()
          .detach()
          .round()
          .clamp(fake_quantize.attr("quant_min").toInt(), fake_quantize.attr("quant_max").toInt())
          .to(at::kLong);
  return qparams;
}

QParams trained_qparams(const Module& fake_quantize) {
  const c10::NoGradGuard no_grad;
  QParams qparams = qparams_of_fake_quantize(fake_quantize);
  const std::string name = observer_class_name(fake_quantize);
  if (name == kLearnableFakeQuantize || name == kFixed || !saw_data(fake_quantize)) return qparams;
  at::Tensor scale = fake_quantize.attr("scale").toTensor().detach().clone();
  at::Tensor zero_point = fake_quantize.attr("zero_point").toTensor().detach().clone();
  if (name == kFused) refresh_buffers(fake_quantize, scale, zero_point);
  qparams.scale = scale.to(qparams.scale.scalar_type());
  qparams.zero_point = zero_point.to(qparams.zero_point.scalar_type());
  return qparams;
}

}  // namespace tsq
