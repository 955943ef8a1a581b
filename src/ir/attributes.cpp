#include "ir/attributes.h"

#include <stdexcept>
#include <utility>

namespace tsq::ir {

void Attributes::setattr(const std::string& name, c10::IValue value) {
  all_[slots_.at(name)].value = std::move(value);
}

void Attributes::add(Attribute attribute) {
  if (!slots_.emplace(attribute.name, all_.size()).second)
    throw std::logic_error("the attribute '" + attribute.name + "' is there already");
  all_.push_back(std::move(attribute));
}

Attribute attribute_at(const c10::ivalue::Object& object, std::size_t slot) {
  const auto type = object.type();
  return {.name = type->getAttributeName(slot),
          .type = type->getAttribute(slot),
          .value = object.getSlot(slot),
          .is_parameter = type->is_parameter(slot),
          .is_buffer = type->is_buffer(slot)};
}

Attribute submodule(const std::string& name, const torch::jit::Module& module) {
  return {.name = name, .type = module.type(), .value = module._ivalue()};
}

void add_attribute(torch::jit::Module& module, const Attribute& attribute) {
  const std::size_t slot = module.type()->addAttribute(attribute.name, attribute.type, attribute.is_parameter,
                                                       attribute.is_buffer);
  module._ivalue()->setSlot(slot, attribute.value);
}

}  // namespace tsq::ir
