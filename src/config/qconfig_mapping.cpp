#include <tsq/qconfig_mapping.h>

#include "base/entries.h"
#include "config/python_regex.h"

namespace tsq {

QConfigMapping& QConfigMapping::set_global(MaybeQConfig qconfig) {
  global_ = std::move(qconfig);
  return *this;
}

QConfigMapping& QConfigMapping::set_object_type(Symbol type, MaybeQConfig qconfig) {
  set_entry(object_type_, type, std::move(qconfig));
  return *this;
}

QConfigMapping& QConfigMapping::set_module_name_regex(std::string regex, MaybeQConfig qconfig) {
  check_python_regex(regex);
  set_entry(regex_, std::move(regex), std::move(qconfig));
  return *this;
}

QConfigMapping& QConfigMapping::set_module_name(std::string name, MaybeQConfig qconfig) {
  set_entry(module_name_, std::move(name), std::move(qconfig));
  return *this;
}

QConfigMapping& QConfigMapping::set_module_name_object_type_order(std::string name, Symbol type, int index,
                                                                  MaybeQConfig qconfig) {
  for (ModuleNameObjectTypeOrder& known : order_) {
    if (known.module_name == name && known.object_type == type && known.index == index) {
      known.qconfig = std::move(qconfig);
      return *this;
    }
  }
  order_.push_back({std::move(name), type, index, std::move(qconfig)});
  return *this;
}

}  // namespace tsq
