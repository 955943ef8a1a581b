#include "config/names/registered_names.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include "base/text.h"

namespace tsq {

void check_new_name(std::string_view what, std::string_view name, bool is_shipped) {
  if (name.empty()) throw Error(ErrorCode::BadConfig, fmt::format("a {} is registered without a name", what));
  if (is_shipped || name.starts_with('<'))
    throw Error(ErrorCode::BadConfig, fmt::format("the name '{}' of a {} is taken", name, what),
                "choose one of your own, as 'my.name'");
}

void fail_unknown(std::string_view what, std::string_view name, std::string_view bare,
                  std::vector<std::string_view> shipped, const std::vector<std::string>& own) {
  shipped.insert(shipped.end(), own.begin(), own.end());
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not {}", name, what),
              suggestion(bare, shipped) + ", or register one under this name");
}

}  // namespace tsq
