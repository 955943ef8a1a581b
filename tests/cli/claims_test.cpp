// No output takes the place of an input or of another output: every command with every two of its options, as
// the help shows them, so that a new option is tried as well.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <iostream>
#include <regex>
#include <set>
#include <sstream>

#include "cli/command_line.h"
#include "cli/model_folder.h"

namespace tsq::testing {
namespace claims_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

/// What a stream gets, in place of the place where it goes else.
class Caught {
 public:
  explicit Caught(std::ostream& stream) : stream_(stream), before_(stream.rdbuf(text_.rdbuf())) {}
  ~Caught() { stream_.rdbuf(before_); }
  Caught(const Caught&) = delete;
  Caught& operator=(const Caught&) = delete;
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* before_;
};

/// The command in this process: a refusal before the work takes no time to speak of.
Outcome run_here(const Words& words) {
  std::vector<const char*> arguments{"tsq"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const Caught out(std::cout);
  const Caught err(std::cerr);
  const int code = cli::run(static_cast<int>(arguments.size()), arguments.data());
  return {.exit_code = code, .out = out.text(), .err = err.text()};
}

/// An option or an argument of a command.
struct Option {
  std::string name{};  ///< "--output", or "MODEL.pt" of an argument
  std::string type{};  ///< "OUT.pt"
  bool is_required{false};

  [[nodiscard]] bool is_argument() const { return !name.starts_with("--"); }
  [[nodiscard]] bool is_program() const { return type == "CMD"; }
  [[nodiscard]] bool is_list() const { return type.find(',') != std::string::npos; }
  /// Whether the help shows that its value is a file, or a command that may name one.
  [[nodiscard]] bool is_path() const {
    static const std::regex kFile(R"((FILE|PATH|FOLDER|DIRECTORY)|.*\w\.[a-z]+[^/]*)");
    return is_program() || std::regex_match(type, kFile);
  }
  [[nodiscard]] bool is_output() const {
    static const std::set<std::string> kOutputs{"--output",         "--reference",           "--report",
                                                "--qconfig-output", "--data-output",         "--trace",
                                                "--advice-qconfig", "--advice-equalization", "--plan-output",
                                                "--frontier"};
    return kOutputs.contains(name);
  }
};

struct HelpOfCommand {
  Words words{};  ///< "qconfig", "check"
  std::vector<Option> options{};

  [[nodiscard]] std::vector<Option> paths() const {
    std::vector<Option> chosen;
    std::ranges::copy_if(options, std::back_inserter(chosen), &Option::is_path);
    return chosen;
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The lines under a title, to the next empty one.
std::vector<std::string> section(const std::vector<std::string>& lines, const std::string& title) {
  const auto begin = std::ranges::find(lines, title);
  if (begin == lines.end()) return {};
  return {std::next(begin), std::find(begin, lines.end(), "")};
}

std::vector<Option> options_in(const std::vector<std::string>& help) {
  static const std::regex kArgument(R"(^  (\S+).*)");
  static const std::regex kOption(R"(^  (?:-\w,)?(--[a-z-]+) (\S+).*)");
  std::vector<Option> options;
  std::smatch parts;
  for (const std::string& line : section(help, "Positionals:")) {
    if (std::regex_match(line, parts, kArgument))
      options.push_back({parts[1], parts[1], line.find("REQUIRED") != std::string::npos});
  }
  for (const std::string& line : help) {
    if (std::regex_match(line, parts, kOption))
      options.push_back({parts[1], parts[2], line.find("REQUIRED") != std::string::npos});
  }
  return options;
}

/// The commands under some words, the innermost alone.
void add_commands(const Words& words, std::vector<HelpOfCommand>& commands) {
  Words asked = words;
  asked.emplace_back("--help");
  const std::vector<std::string> help = lines_of(run_here(asked).out);
  const std::vector<std::string> inner = section(help, "Subcommands:");
  if (inner.empty()) commands.push_back({.words = words, .options = options_in(help)});
  for (const std::string& line : inner) {
    static const std::regex kName(R"(^  (\S+).*)");
    std::smatch parts;
    if (!std::regex_match(line, parts, kName)) continue;
    Words longer = words;
    longer.push_back(parts[1]);
    add_commands(longer, commands);
  }
}

const std::vector<HelpOfCommand>& all_commands() {
  static const std::vector<HelpOfCommand> kCommands = [] {
    std::vector<HelpOfCommand> commands;
    add_commands({}, commands);
    return commands;
  }();
  return kCommands;
}

using Values = std::vector<std::pair<std::string, std::string>>;

class Claims : public ModelFolder {
 protected:
  /// A command line that gives these values, and to what else is required files that do not exist: whoever
  /// begins to work says so.
  [[nodiscard]] Words line_of(const HelpOfCommand& command, const Values& values) const {
    Words line = command.words;
    for (const Option& option : command.options) {
      const auto given = std::ranges::find(values, option.name, &Values::value_type::first);
      if (given == values.end() && !option.is_required) continue;
      if (!option.is_argument()) line.push_back(option.name);
      if (given != values.end()) {
        line.push_back(given->second);
      } else {
        line.push_back(option.is_path() ? path((option.is_output() ? "out" : "in") + option.name) : "x86");
      }
    }
    return line;
  }

  /// How an option names a file.
  [[nodiscard]] std::string value_of(const Option& option, const std::string& file) const {
    if (option.is_program()) return fmt::format("sh -c \"'{}' --fast {{}}\"", file);
    return option.is_list() ? path("first.json") + "," + file : file;
  }

  /// The file as another name of it.
  [[nodiscard]] std::vector<std::string> names_of(const std::string& file) const {
    const std::string symbolic = file + ".symbolic";
    const std::string hard = file + ".hard";
    fs::create_symlink(file, symbolic);
    fs::create_hard_link(file, hard);
    return {file, path("./.") + "/" + fs::path(file).filename().string(), symbolic, hard};
  }

  void expect_refusal(const Words& line, const std::string& words) {
    const Outcome outcome = run_here(line);
    EXPECT_EQ(outcome.exit_code, 1) << fmt::format("{}", fmt::join(line, " ")) << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words)) << fmt::format("{}", fmt::join(line, " "));
  }
};

TEST_F(Claims, TheHelpNamesAllCommandsAndTheirFiles) {
  EXPECT_GE(all_commands().size(), 19U);
  std::size_t paths = 0;
  for (const HelpOfCommand& command : all_commands()) paths += command.paths().size();
  EXPECT_GE(paths, 80U);
}

TEST_F(Claims, EveryOptionForAFileRefusesAnEmptyName) {
  for (const HelpOfCommand& command : all_commands()) {
    for (const Option& option : command.paths()) {
      const Outcome outcome = run_here(line_of(command, {{option.name, ""}}));
      EXPECT_EQ(outcome.exit_code, 2) << command.words.front() << ' ' << option.name;
      EXPECT_THAT(outcome.err, HasSubstr(fmt::format("the value of {} is empty", option.name)))
          << command.words.front();
    }
  }
}

TEST_F(Claims, NoOutputIsAnInputOrAnotherOutput) {
  const std::string file = path("file.pt");
  write_file(file, "precious");
  const std::vector<std::string> names = names_of(file);
  const std::vector<std::string> before = entries();
  std::size_t pairs = 0;
  for (const HelpOfCommand& command : all_commands()) {
    const std::vector<Option> paths = command.paths();
    for (const Option& output : paths) {
      if (!output.is_output()) continue;
      for (const Option& other : paths) {
        if (other.name == output.name) continue;
        for (const std::string& name : names) {
          if (other.is_output() && name == file + ".hard") continue;  // each gets a file of its own
          expect_refusal(
              line_of(command, {{output.name, name}, {other.name, value_of(other, file)}}),
              other.is_output() ? "two outputs are one file" : fmt::format("({}) is the input", output.name));
        }
        ++pairs;
      }
    }
  }
  EXPECT_GE(pairs, 110U);
  EXPECT_EQ(read_file(file), "precious");
  EXPECT_EQ(entries(), before);
}

TEST_F(Claims, TheRefusalNamesBothOptions) {
  write_file(path("score.sh"), "echo 1\n");
  const Outcome outcome = run_here({"quantize", path("model.pt"), "--calib", path("data.pt"), "--eval",
                                    path("score.sh") + " {}", "--output", path("score.sh")});
  EXPECT_EQ(outcome.err, fmt::format("tsq: error: output '{0}' (--output) is the input '{0}' (--eval); name "
                                     "another file: inputs are never replaced\n",
                                     path("score.sh")));
}

TEST_F(Claims, WordsOfAProgramAreReadAsAShellDoes) {
  write_file(path("a score.sh"), "echo 1\n");
  const auto refusal = [&](const std::string& program) {
    return run_here({"quantize", path("model.pt"), "--calib", path("data.pt"), "--eval", program, "--output",
                     path("a score.sh")})
        .err;
  };
  for (const std::string program : {"'{}' {{}}", "\"{}\"", "python3 --labels='{}' {{}}", "cat <'{}'|tail -1",
                                    "cd / && sh \"{}\" {{}}", "sh -c \"sh '{}' {{}}\""})
    EXPECT_THAT(refusal(fmt::format(fmt::runtime(program), path("a score.sh"))), HasSubstr("is the input"))
        << program;
  EXPECT_THAT(refusal("sh " + path("a\\ score.sh")), HasSubstr("is the input"));
}

TEST_F(Claims, AModelWithSettingsIsAnInput) {
  expect_refusal(
      {"bench", path("model.pt") + "@x86,threads=1", "--data", path("data.pt"), "--output", path("model.pt")},
      "(--output) is the input");
}

TEST_F(Claims, FilesThatAConfigurationNamesAreInputs) {
  fs::create_directory(path("sub"));
  write_file(path("sub/part.pt"), "module");
  write_file(path("sub/p.json"), R"({"deep": [{"file": "part.pt"}]})");
  Words line = quantize_arguments();
  line.back() = path("sub/part.pt");
  line.insert(line.end(), {"--prepare-custom-config", path("sub/p.json")});
  expect_refusal(line, "(--prepare-custom-config)");
}

TEST_F(Claims, ALinkIsWrittenThroughAndADanglingOneRefused) {
  fs::create_symlink("nowhere.pt", path("dangling.pt"));
  Words line = quantize_arguments();
  line.back() = path("dangling.pt");
  expect_refusal(line, "dangling.pt' is a link to 'nowhere.pt', which does not exist; remove the link");
  EXPECT_TRUE(fs::is_symlink(path("dangling.pt")));
  fs::create_symlink(path("loop.pt"), path("loop.pt"));
  line.back() = path("loop.pt");
  expect_refusal(line, "cannot be written: Too many levels of symbolic links");
  write_file(path("old.pt"), "old");
  fs::create_symlink("old.pt", path("link.pt"));
  line = {"prepare", path("model.pt"), "--output", path("link.pt")};
  succeed(line);
  EXPECT_TRUE(fs::is_symlink(path("link.pt")));
  EXPECT_GT(fs::file_size(path("old.pt")), 1000U);
}

/// Before the work: the model, which does not exist, is not looked at.
TEST_F(Claims, DirectoriesThatTakeNoFilesAreRefusedFirst) {
  expect_refusal({"prepare", path("none.pt"), "--output", "/proc/out.pt"},
                 "nothing can be written in directory '/proc'");
}

TEST_F(Claims, NamesAsLongAsTheyCanBe) {
  for (const std::size_t length : {239U, 240U, 255U}) {
    const std::string name = std::string(length - 3, 'n') + ".pt";
    succeed({"prepare", path("model.pt"), "--output", path(name)});
    EXPECT_TRUE(fs::exists(path(name)));
    EXPECT_EQ(entries().size(), 3U) << "nothing else is left";
    fs::remove(path(name));
  }
  expect_refusal({"prepare", path("model.pt"), "--output", path(std::string(256, 'n'))},
                 "cannot be written: File name too long");
}

TEST_F(Claims, NamesOfAnyBytes) {
  const std::string model = path("\xff\xfe.pt");
  fs::copy_file(path("model.pt"), model);
  succeed({"quantize", model, "--calib", path("data.pt"), "--output", path("\xff.out.pt"), "--report",
           path("\xff.json")});
  succeed({"report", model, path("\xff.out.pt"), "--data", path("data.pt"), "--no-times", "--output",
           path("r.html"), "--data-output", path("r.json")});
  EXPECT_TRUE(nlohmann::json::accept(read_file(path("r.json"))));
  const Outcome bench = tsq({"bench", model, "--data", path("data.pt"), "--rounds", "1", "--launches", "1"});
  EXPECT_EQ(bench.exit_code, 1);
  EXPECT_THAT(bench.err, HasSubstr("not valid UTF-8; rename the file"));
}

TEST_F(Claims, ARefusalIsOneLineWhateverTheNames) {
  for (const Words& line : {Words{"prepare", path("model.pt"), "--output", path("no\nfolder/o.pt")},
                            Words{"inspect", path("no\nfile.pt")}, Words{"in\nspect"},
                            Words{"inspect", path("model.pt"), "--no\noption"}}) {
    const Outcome outcome = run_here(line);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

/// The parser would take the next word for the value, and write into a file that is an input.
TEST_F(Claims, AnEqualSignNeedsAValue) {
  const Outcome outcome = run_here({"inspect", "--output=", path("model.pt"), "--json"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("'--output=' has no value: write it after the '='"));
  EXPECT_TRUE(nlohmann::json::accept(outcome.out));
}

TEST_F(Claims, ResultsHaveNoControlCharacters) {
  const Outcome outcome = run_here({"prepare", path("model.pt"), "--output", path("o\x1b.pt")});
  EXPECT_THAT(outcome.out, HasSubstr("o .pt"));
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
}

TEST_F(Claims, AnOptionThatIsGivenTwiceOrWithoutAValue) {
  Words line = quantize_arguments();
  line.insert(line.end(), {"--output", path("other.pt")});
  EXPECT_THAT(run_here(line).err, HasSubstr("'--output' is given 2 times: give it once"));
  EXPECT_THAT(run_here({"prepare", path("model.pt"), "--output"}).err,
              HasSubstr("'--output' has no value: write --output PREPARED.pt"));
}

}  // namespace claims_test
}  // namespace tsq::testing
