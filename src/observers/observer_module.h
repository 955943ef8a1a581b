#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
#include <tsq/qconfig.h>

#include <string_view>
#include <vector>

namespace tsq {

/// A fresh observer: a TorchScript module `forward(x: Tensor) -> Tensor` that returns x and records its
/// statistics in buffers with PyTorch's names. Its class is TorchScript source only, so any stock LibTorch
/// loads it and calibrates with it. Safe to call from several threads. A spec with a fake quantize class
/// makes that, with room for as many channels (make_fake_quantize). Throws Error(BadConfig) when resolve()
/// refuses the spec.
torch::jit::Module make_observer(const ObserverSpec& spec, int64_t channels = 1);

/// Scale and zero point of what `observer` has seen, equal bit for bit to PyTorch's calculate_qparams (M-01 …
/// M-06, M-14, M-15). Reads attributes only: the observer may come from a file. The scale is 1 and the zero
/// point 0 when it saw nothing (M-05). Pure, so that many observers can be asked at once from several
/// threads. Throws Error(BadConfig) for a class without qparams (M-19) and Error(BadModel) when the module is
/// no observer or its state is damaged (M-06).
QParams calculate_qparams(const torch::jit::Module& observer);

/// Whether observers of the spec's class find a scale and a zero point (M-19).
bool finds_qparams(const ObserverSpec& spec);

/// Whether the observer was shown a value. True for kinds whose qparams need no data (FixedQParams) and for
/// those without qparams.
bool saw_data(const torch::jit::Module& observer);

/// Whether observers of a specification know nothing until they were shown a value. Makes one to ask it.
bool needs_data(const ObserverSpec& spec);

/// Whether the observer was shown a tensor that is not float32. No operator quantizes such a tensor.
bool saw_other_dtype(const torch::jit::Module& observer);

/// The number of tensors with NaN or infinity that the observer was shown. It left those values out.
int64_t tensors_not_finite(const torch::jit::Module& observer);

/// The smallest and the largest value of each channel.
struct ChannelRanges {
  at::Tensor min_val{};
  at::Tensor max_val{};
};
/// What an observer of channels for equalization has seen: 0 of a channel without a finite value, empty
/// tensors where it saw nothing.
ChannelRanges channel_ranges(const torch::jit::Module& observer);

/// Adds to `into` what `from`, an observer of the same kind and configuration, saw on another part of the
/// data. Minima and maxima become exactly those of one run over all data; moving averages become the average
/// weighted by the number of batches; a histogram is brought to the union of both ranges as PyTorch does for
/// a batch that widens the range, then both are added. Throws Error(BadModel) when the two do not fit.
void merge_observer(torch::jit::Module& into, const torch::jit::Module& from);

/// PyTorch's class names of all observers.
std::vector<std::string_view> observer_names();

}  // namespace tsq
