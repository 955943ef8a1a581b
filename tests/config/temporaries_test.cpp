// What an accessor of a temporary returns outlives the temporary: `for (const auto& row :
// backend_config("x86").configs())` is what everybody writes.
#include <gtest/gtest.h>
#include <tsq/tsq.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <type_traits>
#include <utility>

namespace tsq {
namespace temporaries_test {

template <typename Result>
constexpr bool is_value = !std::is_reference_v<Result>;

static_assert(is_value<decltype(std::declval<BackendConfig>().configs())>);
static_assert(is_value<decltype(std::declval<BackendConfig>().name())>);
static_assert(is_value<decltype(std::declval<BackendPatternConfig>().key())>);
static_assert(is_value<decltype(std::declval<QConfigMapping>().object_type_qconfigs())>);
static_assert(is_value<decltype(std::declval<EqualizationMapping>().as_qconfigs())>);
static_assert(is_value<decltype(std::declval<PrepareCustomConfig>().preserved_attributes())>);
static_assert(is_value<decltype(std::declval<Error>().problem())>);
static_assert(is_value<decltype(std::declval<Prepared>().module())>);
static_assert(is_value<decltype(std::declval<Prepared>().report())>);
static_assert(is_value<decltype(std::declval<Reference>().report())>);
static_assert(is_value<decltype(std::declval<Lowered>().module())>);
static_assert(is_value<decltype(std::declval<Lowered>().report())>);
static_assert(std::is_reference_v<decltype(std::declval<const BackendConfig&>().configs())>);

TEST(Temporaries, TheRowsOfATableCanBeGoneThrough) {
  std::size_t rows = 0;
  for (const BackendPatternConfig& row : backend_config("x86").configs())
    rows += row.dtype_configs.empty() ? 0 : 1;
  EXPECT_GT(rows, 50U);
  std::size_t entries = 0;
  for (const auto& [type, qconfig] : default_qconfig_mapping("x86").object_type_qconfigs())
    entries += type.name.empty() ? 0 : 1;
  EXPECT_GT(entries, 10U);
}

/// Accessors that return a reference, and are not limited to what has a name.
std::vector<std::string> dangling_accessors(const std::string& header) {
  static const std::regex kAccessor(R"(const [^;{}()]*& (\w+)\(\)\s*const(\s+noexcept)?\s*[;{])");
  std::vector<std::string> names;
  for (auto it = std::sregex_iterator(header.begin(), header.end(), kAccessor); it != std::sregex_iterator();
       ++it)
    names.push_back((*it)[1].str());
  return names;
}

TEST(Temporaries, NoAccessorOfThePublicHeadersGivesAReferenceIntoATemporary) {
  ASSERT_EQ(dangling_accessors("[[nodiscard]] const std::string& name() const noexcept { return name_; }"),
            (std::vector<std::string>{"name"}));
  for (const auto& entry : std::filesystem::directory_iterator(TSQ_DOCS "/../include/tsq")) {
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    EXPECT_EQ(dangling_accessors(text.str()), std::vector<std::string>()) << entry.path();
  }
}

}  // namespace temporaries_test
}  // namespace tsq
