// What ends the process that does the work is one sentence of the process that waits for it.
#include <gmock/gmock.h>
#include <torch/script.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/model_folder.h"
#include "io/archive_file.h"

namespace tsq::testing {
namespace supervisor_test {

using ::testing::HasSubstr;

class Supervisor : public ModelFolder {
 protected:
  /// `quantize` with so much data that it takes seconds.
  std::vector<std::string> long_work() const {
    write_data("much.pt", c10::List<at::Tensor>(std::vector<at::Tensor>(1000, torch::randn({8, 3, 64, 64}))));
    std::vector<std::string> arguments = quantize_arguments();
    arguments[3] = path("much.pt");
    return arguments;
  }

  /// The process that does the work, once its scratch folder shows that it is in the midst of it.
  pid_t worker_at_work(const Program& program) const {
    for (int i = 0; i < 600; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::string id = std::to_string(program.process());
      std::ifstream children("/proc/" + id + "/task/" + id + "/children");
      pid_t child = 0;
      if (children >> child && i > 20) return child;
    }
    return -1;
  }
};

TEST_F(Supervisor, CodeThatEndsLibTorchIsOneSentence) {
  save_changed(path("deep.pt"), [](Records& records) {
    for (auto& [name, bytes] : records) {
      if (name.ends_with(".py")) replace(bytes, "return ", "return " + std::string(200000, '('));
    }
  });
  const Outcome outcome = tsq({"inspect", path("deep.pt")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "tsq: error: LibTorch ends by signal 11 (Segmentation fault) when it loads '" +
                             path("deep.pt") +
                             "'; the file is damaged, or has code that LibTorch does not survive: "
                             "export the model again\n");
  const nlohmann::json error = nlohmann::json::parse(tsq({"inspect", path("deep.pt"), "--json"}).out);
  EXPECT_EQ(error.at("error").at("code"), "bad_model");
}

TEST_F(Supervisor, AModelThatEndsLibTorchWhenItRunsIsNoFaultOfTsq) {
  torch::jit::Module module("M");
  module.define(
      "def forward(self, x):\n"
      "  index = torch.tensor([[1000000000000]])\n"
      "  return x + torch._sparse_coo_tensor_unsafe(index, torch.ones([1]), [8]).to_dense()\n");
  module.save(path("dies.pt"));
  write_data("eight.pt", c10::List<at::Tensor>({torch::ones({1, 8})}));
  const Outcome outcome = tsq({"run", path("dies.pt"), "--data", path("eight.pt")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("LibTorch ends by signal 11 (Segmentation fault) when it runs '" + path("dies.pt") +
                        "' on the first sample of '" + path("eight.pt") + "'"));
}

TEST_F(Supervisor, WorkThatIsKilledIsSaidToLackMemory) {
  Program program(long_work());
  const pid_t worker = worker_at_work(program);
  ASSERT_GT(worker, 0);
  kill(worker, SIGKILL);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the work was killed, probably for lack of memory"));
}

TEST_F(Supervisor, AWorkerDoesNotOutliveIt) {
  Program program(long_work());
  const pid_t worker = worker_at_work(program);
  ASSERT_GT(worker, 0);
  program.send(SIGKILL);
  EXPECT_EQ(program.wait().signal, SIGKILL);
  for (int i = 0; i < 100 && kill(worker, 0) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_NE(kill(worker, 0), 0);
  EXPECT_EQ(entries(), (std::vector<std::string>{"data.pt", "model.pt", "much.pt"}));
}

}  // namespace supervisor_test
}  // namespace tsq::testing
