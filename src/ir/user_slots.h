#pragma once

#include <map>
#include <string>

namespace tsq::ir {

/// Where an attribute of the flat graph module is in the user's model: the path of a module and a name there.
struct UserSlot {
  std::string module{};
  std::string name{};
};
using UserSlots = std::map<std::string, UserSlot>;

}  // namespace tsq::ir
