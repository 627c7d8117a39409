#include "serve/assets.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>

#include "support/paths.h"

namespace transformer::test {

TEST(Assets, AreTheFilesOfThePage) {
  std::size_t files = 0;
  const std::filesystem::path web = source_folder() / "web";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(web)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    const std::string path = "/" + std::filesystem::relative(entry.path(), web).generic_string();
    const Asset* asset = find_asset(path);
    ASSERT_NE(asset, nullptr) << path;
    std::ifstream in(entry.path(), std::ios::binary);
    EXPECT_EQ(asset->bytes, std::string(std::istreambuf_iterator<char>(in), {})) << path;
  }
  EXPECT_EQ(assets().size(), files);
  ASSERT_NE(find_asset("/"), nullptr);
  EXPECT_EQ(find_asset("/")->path, "/index.html");
  EXPECT_EQ(find_asset("/")->type, "text/html; charset=utf-8");
  EXPECT_EQ(find_asset("/nothing"), nullptr);
}

// The page loads nothing from other hosts; what its modules import is there.
TEST(Assets, NeedNoOtherHost) {
  static const std::regex elsewhere(R"re((src|href|from|import|url)\s*[=(]?\s*["']?(https?:)?//)re"),
      import(R"re((?:from|import)\s+"\./([^"]+)")re");
  for (const Asset& asset : assets()) {
    const std::string text(asset.bytes);
    EXPECT_FALSE(std::regex_search(text, elsewhere)) << asset.path;
    for (std::sregex_iterator it(text.begin(), text.end(), import), end; it != end; ++it) {
      const std::string folder(asset.path.substr(0, asset.path.rfind('/') + 1));
      EXPECT_NE(find_asset(folder + (*it)[1].str()), nullptr) << asset.path << " imports " << (*it)[1];
    }
  }
}

}  // namespace transformer::test
