#pragma once

#include <ATen/core/ivalue.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/program.h"

namespace tsq::testing {

/// A folder of its own for each test, with `model.pt` (convolution, batch norm, ReLU; takes n x 3 x h x w)
/// and `data.pt` (4 samples of 2 x 3 x 8 x 8). Removed at the end.
class ModelFolder : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// A path in the folder.
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// Writes a value as torch::pickle_save does.
  void write_data(const std::string& name, const at::IValue& value) const;
  /// Names of the folder's entries, hidden ones too, sorted.
  [[nodiscard]] std::vector<std::string> entries() const;

  /// The JSON that a successful run prints with --json, and nothing else.
  static nlohmann::json answer(std::vector<std::string> arguments);
  static void succeed(const std::vector<std::string>& arguments);

  /// `tsq quantize model.pt --calib data.pt --output out.pt` with one option's value replaced or added.
  [[nodiscard]] std::vector<std::string> quantize_arguments() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace tsq::testing
