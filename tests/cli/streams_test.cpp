// Standard output that takes nothing, is closed or has lost its reader.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "cli/model_folder.h"

namespace tsq::testing {
namespace streams_test {

using ::testing::HasSubstr;

/// `tsq` under a shell, which `words` redirect. The program is "$0".
Outcome in_shell(const std::string& words) {
  return Program({"-c", words, TSQ_PROGRAM}, 0, "/bin/sh").wait();
}

class Streams : public ModelFolder {
 protected:
  [[nodiscard]] std::string quantize(const std::string& more) const {
    return fmt::format("\"$0\" quantize '{}' --calib '{}' --no-check --force --output '{}' {}",
                       path("model.pt"), path("data.pt"), path("out.pt"), more);
  }

  static void expect_refusal(const std::string& words, const std::string& reason) {
    const Outcome outcome = in_shell(words);
    EXPECT_EQ(outcome.exit_code, 1) << words;
    EXPECT_EQ(outcome.err, fmt::format("tsq: error: standard output cannot be written: {}\n", reason))
        << words;
  }
};

constexpr std::string_view kFull = "No space left on device; send it to a file where there is room for it";
constexpr std::string_view kClosed = "it is closed; send it to a file";

TEST_F(Streams, StandardOutputThatTakesNothingIsAFault) {
  for (const std::string& command :
       {fmt::format("inspect '{}'", path("model.pt")), fmt::format("inspect '{}' --json", path("model.pt")),
        std::string("qconfig show best_x86"), std::string("backend-config show x86"),
        std::string("backend-config list"), std::string("--help"), std::string("quantize --help"),
        std::string("--version")}) {
    expect_refusal("\"$0\" " + command + " > /dev/full", std::string(kFull));
    expect_refusal("\"$0\" " + command + " >&-", std::string(kClosed));
  }
}

TEST_F(Streams, ACurrentDirectoryThatWasDeletedIsAFault) {
  const Outcome outcome =
      in_shell(fmt::format("mkdir '{0}' && cd '{0}' && rmdir '{0}' && \"$0\" --version", path("gone")));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "tsq: error: the current directory does not exist any more; go to another, as with 'cd'\n");
}

TEST_F(Streams, TooFewFilesForAPipeAreNoFaultOfTsq) {
  const Outcome outcome = in_shell(fmt::format("ulimit -n 6 && \"$0\" bench '{}' --data '{}' --rounds 1",
                                               path("model.pt"), path("data.pt")));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("Too many open files; raise the limits"));
}

TEST_F(Streams, AFaultIsSaidOnceAndTheLostJsonInANote) {
  const Outcome outcome = in_shell("\"$0\" inspect none.pt --json > /dev/full");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, fmt::format("tsq: error: model file 'none.pt' does not exist; check the path\n"
                                     "tsq: note: standard output cannot be written: {}\n",
                                     kFull));
}

TEST_F(Streams, FilesStayWhereTheResultCannotBePrinted) {
  for (const std::string redirected : {"> /dev/full", ">&-"}) {
    const Outcome outcome = in_shell(quantize(redirected));
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(tsq({"inspect", path("out.pt")}).exit_code, 0) << "nothing was printed into it";
    std::filesystem::remove(path("out.pt"));
  }
}

TEST_F(Streams, WhatPrintsNothingNeedsNoStandardOutput) {
  for (const std::string redirected : {"--quiet > /dev/full", "--quiet >&-", "--quiet <&- >&- 2>&-"}) {
    EXPECT_EQ(in_shell(quantize(redirected)).exit_code, 0);
    EXPECT_EQ(tsq({"inspect", path("out.pt")}).exit_code, 0);
  }
}

TEST_F(Streams, AReaderThatHasGoneIsNoFault) {
  const Outcome outcome = in_shell(
      fmt::format("{{ sleep 0.3; \"$0\" inspect '{}'; echo \"exit $?\" >&2; }} | true", path("model.pt")));
  EXPECT_EQ(outcome.err, "exit 0\n");
  const Outcome head = in_shell("\"$0\" qconfig show best_x86 | head -n 1");
  EXPECT_EQ(head.out, "{\n");
  EXPECT_EQ(head.err, "");
}

TEST_F(Streams, AnOutputIsNotTheFileThatIsPrintedTo) {
  for (const auto& [redirected, name] :
       {std::pair{"> ", "standard output"}, std::pair{"2> ", "standard error"}}) {
    const Outcome outcome = in_shell(quantize(redirected + fmt::format("'{}'", path("out.pt"))));
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err + read_file(path("out.pt")),
                HasSubstr(fmt::format("(--output) is the file that {} goes to", name)));
  }
}

}  // namespace streams_test
}  // namespace tsq::testing
