#include "observers/observer_class.h"

#include <fmt/format.h>
#include <tsq/error.h>

namespace tsq {
namespace {

/// Only float tensors can be quantized: an observer that meets others leaves a mark.
constexpr const char* kForward = R"(
def forward(self, x: Tensor) -> Tensor:
    if not (x.is_floating_point() or x.is_quantized):
        self.saw_integers = True
    return self.observe(x)
)";

constexpr std::size_t kCommonAttributes = 3;

}  // namespace

ObserverAttribute buffer(std::string name) { return {std::move(name), c10::TensorType::get(), true}; }
ObserverAttribute integer(std::string name) { return {std::move(name), c10::IntType::get()}; }
ObserverAttribute optional_integer(std::string name) {
  return {std::move(name), c10::OptionalType::create(c10::IntType::get())};
}
ObserverAttribute real(std::string name) { return {std::move(name), c10::FloatType::get()}; }
ObserverAttribute boolean(std::string name) { return {std::move(name), c10::BoolType::get()}; }

ObserverClass::ObserverClass(std::string_view name, std::vector<ObserverAttribute> attributes,
                             const std::string& source)
    : unit_(std::make_shared<torch::jit::CompilationUnit>()) {
  torch::jit::Module prototype(
      c10::QualifiedName(fmt::format("__torch__.torch.ao.quantization.observer.{}", name)), unit_);
  type_ = prototype.type();
  attributes.push_back(boolean("training"));
  attributes.push_back(boolean("is_dynamic"));
  attributes.push_back(boolean("saw_integers"));
  for (const ObserverAttribute& attribute : attributes) {
    type_->addAttribute(attribute.name, attribute.type, /*is_parameter=*/false, attribute.is_buffer);
  }
  prototype.define(source + kForward);
}

torch::jit::Module ObserverClass::instance(const ObserverValues& values, bool is_dynamic) const {
  if (values.size() + kCommonAttributes != type_->numAttributes()) {
    throw Error(ErrorCode::Internal, fmt::format("{} has {} attributes, {} were given", type_->name()->name(),
                                                 type_->numAttributes() - kCommonAttributes, values.size()));
  }
  torch::jit::Module module(unit_, type_);
  for (const auto& [name, value] : values) {
    module.setattr(name, value);
  }
  module.setattr("training", false);
  module.setattr("is_dynamic", is_dynamic);
  module.setattr("saw_integers", false);
  return module;
}

std::string observer_class_name(const torch::jit::Module& observer) {
  const auto& name = observer.type()->name();
  return name.has_value() ? name->name() : std::string();
}

}  // namespace tsq
