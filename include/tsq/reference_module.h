#pragma once

#include <tsq/observer.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// Makes the module that stands for a float module in the reference model: a TorchScript module whose forward
/// takes the float module's arguments. tsq fills what the function leaves: attributes that both modules have,
/// by name and of one type, are copied from the float one; `weight_scale`, `weight_zero_point` (tensors),
/// `weight_axis` and `weight_dtype` (numbers) are set where the module has them.
using ReferenceFunction =
    std::function<torch::jit::Module(const torch::jit::Module& float_module, const QParams& weight)>;

/// Makes `name` ("my_package.ReferenceLinear") a reference module that rows of a table may name beside their
/// root module. The root must have an attribute `weight`, unless it is a layer of torch.nn. Throws
/// Error(BadConfig) for a name of PyTorch's; a name that is registered again gets the new function. Whoever
/// loads a prepared file of such a table must have registered the name before.
void register_reference_module(std::string_view name, ReferenceFunction make);

/// PyTorch's and the registered ones.
std::vector<std::string> reference_module_names();

}  // namespace tsq
