// Writes fake quantize modules as TorchScript files: `write_fake_quantize SPECS.json FOLDER`. SPECS is a list
// of
// {"name", "spec", "channels"}.

#include <torch/csrc/jit/api/module.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "observers/fake_quantize.h"

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: write_fake_quantize SPECS.json FOLDER\n";
    return 2;
  }
  std::ifstream file(argv[1]);
  for (const nlohmann::json& each : nlohmann::json::parse(file)) {
    tsq::make_fake_quantize(tsq::ObserverSpec::from_dict(each.at("spec")), each.at("channels").get<int64_t>())
        .save(std::string(argv[2]) + "/" + each.at("name").get<std::string>() + ".pt");
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "write_fake_quantize: " << error.what() << '\n';
  return 1;
}
