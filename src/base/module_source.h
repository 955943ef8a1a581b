#pragma once

#include <string>
#include <string_view>

namespace c10 {
struct IValue;
}
namespace torch::jit {
struct Module;
}

/// Modules of classes in TorchScript source, as archives hold them: "class Name(Module):\n  weight : Tensor\n
/// def …". `kind` is the module's in messages: "reference module".
namespace tsq {

/// The name of the class in a source. Throws Error(BadConfig) where there is none.
std::string class_in_source(std::string_view source, std::string_view kind);

/// A module of the class, which is named within `package` ("__torch__.mine."). Its tensors are empty, numbers
/// 0, what is optional None. Throws Error(BadConfig) for what does not compile.
torch::jit::Module module_of_source(const std::string& package, const std::string& source,
                                    std::string_view kind);

/// Leaves a module alone that has no attribute of this name and type.
void set_where_there(torch::jit::Module& module, const std::string& name, const c10::IValue& value);

}  // namespace tsq
