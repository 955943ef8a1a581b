// What check_table finds in tables that mean nothing where the documents say that they would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tsq/backends.h>
#include <tsq/check_table.h>

#include <string>
#include <utility>
#include <vector>

namespace tsq {
namespace table_findings_test {

using c10::ScalarType;
using ::testing::HasSubstr;

const DTypeConfig kWeighted{.input_dtype = {.dtype = ScalarType::QUInt8},
                            .output_dtype = {.dtype = ScalarType::QUInt8},
                            .weight_dtype = {.dtype = ScalarType::QInt8},
                            .bias_dtype = ScalarType::Float};

std::vector<std::pair<std::size_t, TableFinding::Kind>> findings(const BackendConfig& backend) {
  std::vector<std::pair<std::size_t, TableFinding::Kind>> found;
  for (const TableFinding& finding : check_table(backend)) found.emplace_back(finding.row, finding.kind);
  return found;
}

TEST(SpecTable, RowsThatDoNothingAreFound) {
  using Kind = TableFinding::Kind;
  BackendConfig backend("mine");
  const auto add = [&](Pattern pattern) {
    backend.set_backend_pattern_config(
        BackendPatternConfig{}.set_pattern_complex_format(std::move(pattern)).add_dtype_config(kWeighted));
  };
  const Symbol conv = symbol("torch.nn.Conv2d");
  add(conv);
  add(symbol("torch.ao.nn.intrinsic.ConvReLU2d"));
  add(symbol("torch.add")(match_all, match_all));
  add(symbol("torch.add")(match_all, conv));
  add(symbol("torch.nn.GELU"));
  add(symbol("operator.truediv"));
  EXPECT_EQ(findings(backend),
            (std::vector<std::pair<std::size_t, Kind>>{
                {1, Kind::NeverMatches}, {3, Kind::Shadowed}, {4, Kind::NoKernel}, {5, Kind::NoKernel}}));
}

TEST(SpecTable, DtypesThatNoKernelTakesAreFound) {
  BackendConfig backend("mine");
  DTypeConfig wide = kWeighted;
  wide.input_dtype.dtype = ScalarType::QInt32;
  backend.set_backend_pattern_config(BackendPatternConfig{symbol("torch.nn.Linear")}.add_dtype_config(wide));
  backend.set_backend_pattern_config(
      BackendPatternConfig{symbol("torch.nn.Conv2d")}.add_dtype_config(wide).add_dtype_config(kWeighted));
  const std::vector<TableFinding> found = check_table(backend);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, TableFinding::Kind::NoKernel);
  EXPECT_EQ(
      found[0].sentence,
      "'configs[0]' (torch.nn.Linear) has no kernel for input qint32 with weight qint8: what it quantizes "
      "stays in reference form");
}

TEST(SpecTable, ReferenceModulesOfOtherLayersAndOfNobodyAreFound) {
  BackendConfig backend("mine");
  const auto add = [&](const char* root, const char* reference) {
    backend.set_backend_pattern_config(BackendPatternConfig{symbol(root)}
                                           .set_root_module(symbol(root))
                                           .set_reference_quantized_module(symbol(reference))
                                           .add_dtype_config(kWeighted));
  };
  add("torch.nn.Conv2d", "torch.ao.nn.quantized.reference.Linear");
  add("torch.nn.Linear", "mine.Nobody");
  add("torch.nn.Conv1d", "torch.ao.nn.quantized.reference.Conv1d");
  const std::vector<TableFinding> found = check_table(backend);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0].sentence, HasSubstr("the reference module of another layer than torch.nn.Conv2d"));
  EXPECT_THAT(found[1].sentence, HasSubstr("'mine.Nobody', which nobody has registered"));
  for (const TableFinding& each : found) EXPECT_EQ(each.kind, TableFinding::Kind::WrongReference);
}

TEST(SpecTable, PyTorchsTablesHaveNoRowInVain) {
  for (const char* name : {"x86", "fbgemm", "qnnpack", "onednn"}) {
    // `x.shape` is no call in Python either: the row "shape" matches nothing there.
    for (const TableFinding& finding : check_table(backend_config(name)))
      EXPECT_THAT(finding.sentence, HasSubstr("(shape) never matches")) << name;
  }
}

}  // namespace table_findings_test
}  // namespace tsq
