#include "base/attribute_name.h"

#include <algorithm>
#include <cctype>

namespace tsq {

std::string attribute_name(std::string path) {
  std::ranges::replace_if(
      path, [](unsigned char letter) { return std::isalnum(letter) == 0; }, '_');
  if (!path.empty() && std::isdigit(static_cast<unsigned char>(path.front())) != 0) path.insert(0, 1, '_');
  return path;
}

}  // namespace tsq
