#include "observers/learnable_fake_quantize.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <limits>

namespace tsq {
namespace {

constexpr const char* kLearningSwitches = R"(
def enable_observer(self, enabled: bool = True) -> None:
    self.static_enabled.fill_(int(enabled))

def disable_observer(self) -> None:
    self.static_enabled.fill_(0)

def enable_fake_quant(self, enabled: bool = True) -> None:
    self.fake_quant_enabled.fill_(int(enabled))

def disable_fake_quant(self) -> None:
    self.fake_quant_enabled.fill_(0)

def toggle_observer_update(self, enabled: bool = True) -> None:
    self.static_enabled.fill_(int(enabled))

def toggle_fake_quant(self, enabled: bool = True) -> None:
    self.fake_quant_enabled.fill_(int(enabled))

def toggle_qparam_learning(self, enabled: bool = True) -> None:
    self.learning_enabled.fill_(int(enabled))
    self.scale.requires_grad_(enabled)
    self.zero_point.requires_grad_(enabled)

def enable_param_learning(self) -> None:
    self.toggle_qparam_learning(True)
    self.toggle_fake_quant(True)
    self.toggle_observer_update(False)

def enable_static_estimate(self) -> None:
    self.toggle_qparam_learning(False)
    self.toggle_fake_quant(True)
    self.toggle_observer_update(True)

def enable_static_observation(self) -> None:
    self.toggle_qparam_learning(False)
    self.toggle_fake_quant(False)
    self.toggle_observer_update(True)

def calculate_qparams(self) -> Tuple[Tensor, Tensor]:
    self.scale.data.clamp_(min=self.eps.item())
    zero_point = self.zero_point.detach().round().clamp(self.quant_min, self.quant_max).long()
    return self.scale.detach(), zero_point
)";

}  // namespace

std::string learnable_source(bool is_per_channel, bool is_symmetric, bool scales_gradients) {
  return fmt::format(R"({}
def forward(self, X: Tensor) -> Tensor:
    if bool(self.static_enabled[0] == 1):
        self.activation_post_process.forward(X.detach())
        scale, zero_point = self.observed_qparams()
        self.scale.data.copy_(scale)
        self.zero_point.data.copy_(zero_point)
    else:
        self.scale.data.clamp_(min=self.eps.item())
    if bool(self.fake_quant_enabled[0] == 1):
{}        X = torch._fake_quantize_learnable_per_{}(X, self.scale, self.zero_point, {}self.quant_min,
                                                  self.quant_max, {})
    return X
)",
                     kLearningSwitches, is_symmetric ? "        self.zero_point.data.zero_()\n" : "",
                     is_per_channel ? "channel_affine" : "tensor_affine",
                     is_per_channel ? "self.ch_axis, " : "",
                     scales_gradients ? "1.0 / float(X.numel() * self.quant_max) ** 0.5" : "1.0");
}

ObserverState learnable_state(int64_t channels) {
  const auto switched = [](int64_t value) { return at::full({1}, value, at::kByte); };
  return {{.name = "scale", .value = at::ones({channels}).requires_grad_(), .is_parameter = true},
          {.name = "zero_point", .value = at::zeros({channels}).requires_grad_(), .is_parameter = true},
          {.name = "fake_quant_enabled", .value = switched(1)},
          {.name = "observer_enabled", .value = switched(1)},
          {.name = "static_enabled", .value = switched(1)},
          {.name = "learning_enabled", .value = switched(0)},
          {.name = "eps", .value = at::full({1}, std::numeric_limits<float>::epsilon(), at::kFloat)}};
}

}  // namespace tsq
