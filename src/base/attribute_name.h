#pragma once

#include <string>

namespace tsq {

/// The name of an attribute for what has this path: "encoder_fc1" of "encoder.fc1", "_0" of "0".
std::string attribute_name(std::string path);

}  // namespace tsq
