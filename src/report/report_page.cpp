#include <tsq/report_page.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "report/page_template.h"

namespace tsq {
namespace {

/// JSON inside of a script element: without "<", no text of it can end that element.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '<') {
      result += "\\u003c";
    } else {
      result += letter;
    }
  }
  return result;
}

}  // namespace

std::string report_page(const nlohmann::json& data) {
  constexpr std::string_view kPlace = "<!--tsq:data-->";
  const std::string_view page = report::page_template();
  const std::size_t place = page.find(kPlace);
  const std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return std::string(page.substr(0, place)) + R"(<script type="application/json" id="tsq-data">)" +
         escaped(text) + "</script>" + std::string(page.substr(place + kPlace.size()));
}

}  // namespace tsq
