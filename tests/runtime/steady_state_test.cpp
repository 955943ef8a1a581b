// What oneDNN's own log shows of calls after the first.
#include <dnnl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "runtime/networks.h"

namespace tsq::runtime::test {
namespace steady_state_test {

/// The kinds of the primitives that the second call executes, as oneDNN's log names them.
std::vector<std::string> executed(const Model& model, const Shape& sizes) {
  Random random(1);
  LoadedProgram program(model);
  const std::vector<Tensor> inputs{random_tensor(random, Dtype::F32, sizes)};
  (void)run(program, inputs);
  testing::internal::CaptureStdout();
  dnnl_set_verbose(1);
  (void)run(program, inputs);
  dnnl_set_verbose(0);
  std::fflush(stdout);
  std::istringstream log(testing::internal::GetCapturedStdout());
  std::vector<std::string> kinds;
  for (std::string line; std::getline(log, line);) {
    // onednn_verbose,exec,cpu,convolution,…: newer ones have more in front of it.
    const auto begin = line.find(",exec,cpu,");
    if (begin == std::string::npos) continue;
    const auto kind = line.substr(begin + 10);
    kinds.push_back(kind.substr(0, kind.find(',')));
  }
  return kinds;
}

TEST(SteadyState, HasNoReorderOfOneDnn) {
  for (const Model& model : {mobilenet_like(), resnet_like(), transformer_like()}) {
    for (const std::int64_t rows : {1, 4}) {
      const auto kinds = executed(model, {rows, 3, 32, 32});
      EXPECT_GT(kinds.size(), 5U);
      EXPECT_EQ(std::ranges::count(kinds, "reorder"), 0);
    }
  }
}

/// The copies and conversions that are steps of a program.
std::vector<std::string> copies_of(const Model& model, const Shape& sizes) {
  Random random(1);
  LoadedProgram program(model);
  std::vector<std::string> names;
  const auto compiled = compile(program, {random_tensor(random, Dtype::F32, sizes)});
  for (const auto& step : compiled->steps()) {
    if (step.implementation.starts_with("tsq:co")) names.push_back(step.implementation + " " + step.shape);
  }
  return names;
}

TEST(SteadyState, ConvertsImagesAtTheBorderAlone) {
  for (const Model& model : {mobilenet_like(), resnet_like()}) {
    const auto copies = copies_of(model, {1, 3, 32, 32});
    ASSERT_EQ(copies.size(), 1U);
    EXPECT_NE(copies.front().find("convert"), std::string::npos);
    EXPECT_NE(copies.front().find("[1, 3, 32, 32]"), std::string::npos);
  }
}

}  // namespace steady_state_test
}  // namespace tsq::runtime::test
