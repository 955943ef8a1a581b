#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/QScheme.h>
#include <tsq/qconfig.h>

#include <cstdint>
#include <string>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// Quantization parameters: q = clamp(round(x / scale) + zero_point, quant_min, quant_max).
/// Per tensor: `scale` float32 and `zero_point` int64 of shape [1]. Per channel: shape [channels] along
/// `axis`. per_channel_affine_float_qparams alone has a float32 zero point (M-04).
struct QParams {
  at::Tensor scale{};
  at::Tensor zero_point{};
  c10::ScalarType dtype{c10::ScalarType::QUInt8};
  /// Symmetric schemes have become their affine ones here (K-13).
  c10::QScheme qscheme{c10::QScheme::PER_TENSOR_AFFINE};
  int64_t axis{0};
};

/// The qparams that a fresh observer of this kind finds on one tensor, as FX finds those of weights at
/// convert (K-09). Throws Error(BadConfig) when the class has no qparams (Placeholder, Noop, Recording,
/// ReuseInput: M-19).
QParams observe_once(const ObserverSpec& spec, const at::Tensor& tensor);

/// Makes `name` ("my_package.MyObserver") an observer that QConfigs may speak of, in C++ and in JSON. Each
/// place in a model gets a copy of `observer`, a TorchScript module with two methods:
///   forward(x: Tensor) records what it sees, float32 and never empty, and leaves x alone;
///   calculate_qparams() -> Tuple[Tensor, Tensor] returns scale and zero point, one of each, or one for each
///   channel along `ch_axis` where the scheme is per channel.
/// Where it has attributes `dtype`, `qscheme` (numbers), `reduce_range`, `quant_min`, `quant_max`, `eps` and
/// `ch_axis`, they are set to those of the QConfig, `averaging_constant`, `bins` and `percentile` to what is
/// given there. Throws Error(BadConfig) for a module without these methods, and for a name without a package
/// or of PyTorch's. A name that is registered again gets the new module. A prepared file holds the observers
/// and the name: any LibTorch calibrates with it, and whoever loads it by tsq must have registered the name.
/// Safe to call from several threads. A copy is run by one thread at a time, copies by several.
void register_observer(std::string name, const torch::jit::Module& observer);
/// The same with a TorchScript class as archives hold it: "class MyObserver(Module):\n  largest : Tensor\n
/// def …". Its tensors are empty at first, its numbers 0.
void register_observer(std::string name, const std::string& source);

}  // namespace tsq
