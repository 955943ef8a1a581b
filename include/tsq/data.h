#pragma once

#include <tsq/quantize.h>

#include <string>
#include <vector>

namespace tsq {

/// Reads calibration or test data. What the file is, is seen from its content, not from its name:
///
/// - a file of `torch.save` or `torch::pickle_save`: a list of samples, each a tensor (the one argument of
/// forward) or a tuple or list
///   of the arguments in order. A bare tensor is one sample, and so is a bare tuple. Tensors come to the CPU,
///   without gradients;
/// - `.npy`: the first axis counts samples, each a batch of one: (64, 3, 224, 224) is 64 samples of (1, 3,
/// 224, 224);
/// - `.npz`: each array is one argument, cut along its first axis likewise; arrays named arr_0, arr_1 … are
/// positional.
///
/// Throws Error(BadData), with the file, the sample and the argument, when the file cannot be read or holds
/// something else than tensors, numbers, strings, None and containers of these, no sample at all, a sample of
/// empty tensors only, or a tensor with NaN or infinite values. A sample that names its arguments (a dict, or
/// other array names in `.npz`) needs the second form.
std::vector<Sample> load_samples(const std::string& path);

/// The same, bound to the forward of `model`: named arguments find their place, defaults are filled in, lists
/// get their element type; a wrong number, name or type of arguments is an Error(BadData) that shows the
/// signature.
std::vector<Sample> load_samples(const std::string& path, const torch::jit::Module& model);

}  // namespace tsq
