#pragma once

#include <functional>
#include <nlohmann/json.hpp>

namespace tsq::benchmarks {

/// Does work in a process of its own, which begins with this one's memory, and returns what it returned. The
/// caller must not have used LibTorch's threads before: they do not live on in a new process. Throws
/// std::runtime_error with the message of what the work threw.
nlohmann::json in_new_process(const std::function<nlohmann::json()>& work);

}  // namespace tsq::benchmarks
