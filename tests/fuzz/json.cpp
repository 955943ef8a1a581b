// Every JSON that people write. The first byte says which; what is read is written and read again, and says
// the same then.
#include <tsq/backend_config.h>
#include <tsq/bench/result.h>
#include <tsq/custom_config.h>
#include <tsq/equalization.h>
#include <tsq/error.h>
#include <tsq/parse_json.h>
#include <tsq/qconfig.h>
#include <tsq/qconfig_mapping.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "fuzz/input.h"

namespace {

using nlohmann::json;

template <typename Config>
void read_twice(const json& dict) {
  const json written = Config::from_dict(dict).to_dict();
  json again;
  try {
    again = Config::from_dict(written).to_dict();
  } catch (const tsq::Error&) {
    std::abort();
  }
  if (again.dump() != written.dump()) std::abort();
}

void read_result(const json& dict) { (void)to_json(tsq::bench::result_from(dict, "old.json")); }

constexpr std::array kReaders{read_twice<tsq::QConfigMapping>,
                              read_twice<tsq::BackendConfig>,
                              read_twice<tsq::EqualizationMapping>,
                              read_twice<tsq::PrepareCustomConfig>,
                              read_twice<tsq::ConvertCustomConfig>,
                              read_twice<tsq::FuseCustomConfig>,
                              read_twice<tsq::QConfig>,
                              read_twice<tsq::BackendPatternConfig>,
                              read_result};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tsq::fuzz::Input input(data, size);
  const auto reader = kReaders[static_cast<std::size_t>(input.integer(0, kReaders.size() - 1))];
  try {
    reader(tsq::parse_json(input.rest(), "a file"));
  } catch (const tsq::Error&) {
  }
  return 0;
}
