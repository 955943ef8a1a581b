#pragma once

#include <tsq/sample.h>

#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// Reads calibration or test data. The content decides what the file is, not its name:
///
/// - a file of `torch.save` or `torch::pickle_save`: a list of samples, each a tensor (the one argument of
///   forward) or a tuple or list of the arguments in order. A bare tensor or tuple is one sample. Tensors are
///   moved to the CPU, without gradients;
/// - `.npy`: the first axis counts samples, each a batch of one: (64, 3, 224, 224) is 64 samples of
///   (1, 3, 224, 224);
/// - `.npz`: each array is one argument, cut along its first axis in the same way; arrays named arr_0,
///   arr_1 … are positional.
///
/// Throws Error(BadData), with the file, the sample and the argument, when the file cannot be read or holds
/// anything but tensors, numbers, strings, None and containers of these, no sample at all, a sample of
/// empty tensors only, or a tensor with NaN or infinite values. A sample that names its arguments (a dict, or
/// other array names in `.npz`) needs the second form.
std::vector<Sample> load_samples(const std::string& path);

/// The same, bound to forward, or another method, of `model`: named arguments are put in order, defaults are
/// filled in, and lists get their element type. A wrong number, name or type of arguments is an
/// Error(BadData) that shows the signature. Throws Error(BadModel) where the model has no such method.
std::vector<Sample> load_samples(const std::string& path, const torch::jit::Module& model,
                                 const std::string& method = "forward");

}  // namespace tsq
