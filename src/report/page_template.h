#pragma once

#include <string_view>

namespace tsq::report {

/// The page with its styles, scripts and licences in it, and the place "<!--tsq:data-->" for the data. The
/// build makes it of the folder page.
std::string_view page_template();

}  // namespace tsq::report
