// The table of passes is what it says: rooms in the order of the flow, each pass in a file of its room.

#include "passes/flow.h"

#include <gtest/gtest.h>
#include <tsq/quantize_model.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace tsq {
namespace flow_test {

using passes::FlowRow;

/// The files of a room.
std::string code_of(passes::Room room) {
  std::string code;
  const std::filesystem::path folder =
      std::filesystem::path(TSQ_SOURCE_DIR) / "passes" / passes::to_string(room);
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".cpp") continue;
    std::ifstream stream(file.path());
    code.append(std::istreambuf_iterator<char>(stream), {});
  }
  return code;
}

TEST(Flow, GoesThroughTheRoomsAndStepsInTheirOrder) {
  const FlowRow* before = nullptr;
  for (const FlowRow& row : passes::flow()) {
    if (before != nullptr) {
      EXPECT_LE(before->room, row.room) << before->name << " comes before " << row.name;
      EXPECT_LE(before->step, row.step) << before->name << " comes before " << row.name;
    }
    before = &row;
  }
}

TEST(Flow, FindsEachPassInTheFolderOfItsRoom) {
  for (const FlowRow& row : passes::flow()) {
    const std::regex definition("\nbool " + std::string(row.name) + "\\(");
    EXPECT_TRUE(std::regex_search(code_of(row.room), definition))
        << "passes/" << passes::to_string(row.room) << " does not define " << row.name;
  }
}

TEST(Flow, NamesEachPassOnce) {
  std::set<std::string_view> names;
  for (const FlowRow& row : passes::flow()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.sentence.empty()) << row.name;
  }
}

TEST(Flow, ReadsFilesThatAModelNamesOnlyWhereThatIsAskedFor) {
  const auto row = std::ranges::find(passes::flow(), "read_python_source", &FlowRow::name);
  ASSERT_NE(row, passes::flow().end());
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    EXPECT_FALSE(passes::is_taken(*row, ir::Model(), {.options = {.recipe = recipe}}));
    EXPECT_TRUE(passes::is_taken(*row, ir::Model(), {.options = {.recipe = recipe, .python_source = true}}));
  }
  EXPECT_FALSE(PrepareOptions().python_source);
  EXPECT_FALSE(QuantizeOptions().python_source);
}

TEST(Flow, OfATrainedModelTakesOfRecipeBestWhatKeepsTheTrainedGrid) {
  const passes::PassContext context{.options = {.recipe = Recipe::Best}, .trains = true};
  ir::Model model;
  model.is_quantized = true;
  for (const FlowRow& row : passes::flow()) {
    if (row.takes == passes::Takes::Best) {
      EXPECT_FALSE(passes::is_taken(row, model, context)) << row.name;
    }
    if (row.takes == passes::Takes::EachBest && row.when == nullptr) {
      EXPECT_TRUE(passes::is_taken(row, model, context)) << row.name;
    }
  }
}

}  // namespace flow_test
}  // namespace tsq
