// Whenever the program is ended, the output is what it was before or the whole new file, and nothing else is
// left.
#include <gmock/gmock.h>
#include <torch/script.h>

#include <csignal>
#include <thread>

#include "cli/model_folder.h"

namespace tsq::testing {
namespace interruption_test {

class Interruption : public ModelFolder {
 protected:
  /// Time of one undisturbed run.
  std::chrono::duration<double> whole_run() {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tsq(quantize_arguments()).exit_code, 0);
    return std::chrono::steady_clock::now() - begin;
  }

  /// Ends a run after a share of its time; the output must be the old text or a model that loads.
  Outcome end_after(std::chrono::duration<double> delay, int signal) {
    write_file(path("out.pt"), "old");
    Program program(quantize_arguments());
    std::this_thread::sleep_for(delay);
    program.send(signal);
    Outcome outcome = program.wait();
    if (read_file(path("out.pt")) != "old") {
      EXPECT_NO_THROW(torch::jit::load(path("out.pt")));
    }
    return outcome;
  }
};

TEST_F(Interruption, TerminatedAtAnyMomentLeavesNoTemporaryFile) {
  const std::vector<std::string> all{"data.pt", "model.pt", "out.pt"};
  const auto time = whole_run();
  for (int i = 1; i <= 12; ++i) {
    const Outcome outcome = end_after(time * (i / 12.0), i % 2 == 0 ? SIGTERM : SIGINT);
    EXPECT_TRUE(outcome.signal != 0 || outcome.exit_code == 0) << outcome.exit_code << " " << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(entries(), all);
  }
}

TEST_F(Interruption, KilledAtAnyMomentLeavesAWholeOutputOrTheOldOne) {
  const auto time = whole_run();
  for (int i = 1; i <= 12; ++i) end_after(time * (i / 12.0), SIGKILL);
}

TEST_F(Interruption, SignalEndsTheProgramBySignal) {
  write_data("much.pt", c10::List<at::Tensor>(std::vector<at::Tensor>(2000, torch::randn({8, 3, 64, 64}))));
  std::vector<std::string> arguments = quantize_arguments();
  arguments[3] = path("much.pt");
  Program program(arguments);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ASSERT_TRUE(program.running());
  program.send(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.signal, SIGTERM);
  EXPECT_EQ(outcome.err, "");
}

}  // namespace interruption_test
}  // namespace tsq::testing
