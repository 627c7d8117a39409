// The house plan, checked: includes between the rooms of the source tree go downwards only, the kernels are reached
// only through the rooms that own them, and nothing above src/backend asks whether CUDA is there. Who may include a header is told by
// its place: include/transformer/ROOM/ is for everybody, src/ROOM/shared/ for all rooms above, src/ROOM/ for the room alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/paths.h"
#include "transformer/models/model.h"

namespace {
namespace fs = std::filesystem;

// From the ground up. Rooms of one level do not know each other.
struct Room {
  std::string_view name;
  int level;
};
constexpr std::array rooms = {
    Room{"core", 0},   Room{"processes", 1}, Room{"backend", 1},    Room{"autograd", 2}, Room{"ops", 3},
    Room{"nn", 4},     Room{"io", 5},        Room{"tokenizers", 6}, Room{"chat", 6},     Room{"vision", 6},
    Room{"series", 6}, Room{"text", 7},      Room{"models", 8},     Room{"generate", 9}, Room{"predict", 10},
    Room{"train", 11}, Room{"explain", 12},  Room{"toys", 13},      Room{"serve", 14},   Room{"cli", 15},
};
constexpr int roof = 16;  // headers of no room, such as transformer/transformer.h: they may include all, none may include them

// The kernels: autograd adds gradients up with them, ops run them, train has the fused optimizer's.
const std::set<std::string_view> users_of_backend = {"backend", "autograd", "ops", "train"};

int level_of(std::string_view room) {
  const auto* found = std::find_if(rooms.begin(), rooms.end(), [&](const Room& r) { return r.name == room; });
  return found == rooms.end() ? -1 : found->level;
}

std::vector<std::string> parts_of(const fs::path& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : path.lexically_normal()) parts.push_back(part.string());
  return parts;
}

// The room of a file given from the root of the repository: include/transformer/ROOM/… or src/ROOM/…; "" for the roof.
std::string room_of_file(const fs::path& file) {
  const std::vector<std::string> parts = parts_of(file);
  const std::size_t at = parts.front() == "include" ? 2 : 1;
  return parts.size() > at + 1 ? parts[at] : "";
}

// The room an include of `file` leads to: "transformer/ROOM/…", "ROOM/…", or relative to the file itself.
std::string room_of_include(const fs::path& file, const std::string& include) {
  const std::vector<std::string> parts = parts_of(include);
  if (parts.front() == "transformer") return parts.size() > 2 ? parts[1] : "";
  if (parts.size() > 1 && level_of(parts.front()) >= 0) return parts.front();
  return room_of_file(file.parent_path() / include);
}

// Is this include of `file` a header that another room keeps to itself? The kernels are not: who may use them is listed above.
bool is_private(const fs::path& file, const std::string& include) {
  if (include.starts_with("transformer/")) return false;
  std::vector<std::string> parts = parts_of(include);
  if (level_of(parts.front()) < 0) parts = parts_of(file.parent_path() / include), parts.erase(parts.begin());
  return parts.front() != "backend" && !(parts.size() > 2 && parts[1] == "shared");
}

// What is wrong with one source file, one line for each fault.
std::vector<std::string> faults(const fs::path& file, const std::string& text) {
  static const std::regex quoted(R"re(^\s*#\s*include\s*"([^"]+)".*)re"), ours(R"re(^\s*#\s*include\s*<(transformer/[^>]+)>.*)re"),
      asks_for_cuda(R"re(^\s*#\s*(if|ifdef|ifndef|elif)\b.*CUDA.*)re");
  const std::string from = room_of_file(file);
  const int level = from.empty() ? roof : level_of(from);
  std::vector<std::string> found;
  const auto fault = [&](int line, const std::string& what) { found.push_back(fmt::format("{}:{}: {}", file.string(), line, what)); };
  if (level < 0) fault(1, fmt::format("the room '{}' is not in the table of rooms", from));

  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (std::regex_match(line, match, quoted) || std::regex_match(line, match, ours)) {
      const std::string include = match[1], to = room_of_include(file, include);
      const int target = to.empty() ? roof : level_of(to);
      if (target < 0) fault(number, fmt::format("the room '{}' of {} is not in the table of rooms", to, include));
      else if (to != from && target >= level)
        fault(number, fmt::format("'{}' is not above '{}' and may not include {}", from, to, include));
      if (to != from && is_private(file, include)) fault(number, fmt::format("{} is a header of '{}' alone", include, to));
      if (file.begin()->string() == "include" && !include.starts_with("transformer/"))
        fault(number, fmt::format("users of the library do not have {}", include));
      if (to == "backend" && !users_of_backend.contains(from))
        fault(number, fmt::format("'{}' may not include the kernels, {}", from, include));
    } else if (from != "backend" && std::regex_match(line, asks_for_cuda)) {
      fault(number, fmt::format("asks for CUDA, which only src/backend may: {}", line));
    }
  }
  return found;
}

TEST(Layers, IncludesGoDownwards) {
  const fs::path root = transformer::test::source_folder();
  int files = 0;
  for (const char* tree : {"include/transformer", "src"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / tree)) {
      static const std::set<std::string> sources = {".h", ".hpp", ".cpp", ".cu", ".cuh"};
      if (!entry.is_regular_file() || !sources.contains(entry.path().extension().string())) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      ASSERT_TRUE(in) << entry.path();
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      for (const std::string& what : faults(fs::relative(entry.path(), root), text)) ADD_FAILURE() << what;
      ++files;
    }
  }
  EXPECT_GT(files, 30) << "the scan has not seen the source tree at " << root;
}

// What a family is called, and how its classes are, is for its file to know. Tokenizers have habits of their own by the same names, and
// layouts that users choose by name are lists of {layout, name}.
std::vector<std::string> names_of_families(const std::string& text) {
  static const std::string families = [] {
    std::string all;
    for (const std::string& name : transformer::family_names())
      if (name != "transformer") all += (all.empty() ? "" : "|") + name;  // that is the command's name too
    return all;
  }();
  static const std::regex named(fmt::format(R"re((::\w+, )?"({}|model_type|[A-Z]\w*[a-z0-9]For[A-Z]\w*)")re", families));
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find("//"));
    for (std::sregex_iterator it(line.begin(), line.end(), named), end; it != end; ++it)
      if (!(*it)[1].matched) found.push_back((*it)[2]);
  }
  return found;
}

TEST(Layers, ModelsAloneKnowTheNamesOfFamilies) {
  const fs::path root = transformer::test::source_folder();
  for (const char* tree : {"include/transformer", "src"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / tree)) {
      const fs::path file = fs::relative(entry.path(), root);
      const std::string room = entry.is_regular_file() ? room_of_file(file) : "models";
      if (room == "models" || room == "tokenizers") continue;
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      for (const std::string& name : names_of_families(text)) ADD_FAILURE() << file << " knows \"" << name << "\"";
    }
  }
  EXPECT_EQ(names_of_families("if (type == \"bert\") use(\"BertForMaskedLM\");\n").size(), 2u);
  EXPECT_EQ(names_of_families("{Arch::bert, \"bert\"}  // \"gpt2\"\n\"ForMaskedLM\"\n").size(), 0u);
}

// The check is worth something only if it can fail.
TEST(Layers, AnUpwardIncludeIsFound) {
  const auto count = [](const char* file, const char* text) { return faults(file, text).size(); };
  EXPECT_EQ(count("src/core/tensor.cpp", "#include \"transformer/ops/linear.h\"\n"), 1u);
  EXPECT_EQ(count("include/transformer/core/tensor.h", "#pragma once\n#  include <transformer/nn/stack.h>\n"), 1u);
  EXPECT_EQ(count("src/ops/linear.cpp", "#include \"nn/shared/sizes.h\"  // why\n"), 1u);
  EXPECT_EQ(count("src/ops/linear.cpp", "#include \"../models/shared/names.h\"\n"), 1u);
  EXPECT_EQ(count("src/train/trainer.cpp", "#include \"io/gzip.h\"\n"), 1u) << "a header of io alone";
  EXPECT_EQ(count("src/train/trainer.cpp", "#include \"../io/gzip.h\"\n"), 1u);
  EXPECT_EQ(count("include/transformer/io/lines.h", "#include \"io/shared/gzip.h\"\n"), 1u) << "it is not installed";
  EXPECT_EQ(count("src/tokenizers/bpe.cpp", "#include \"transformer/vision/image.h\"\n"), 1u)
      << "rooms of one level do not know each other";
  EXPECT_EQ(count("src/nn/stack.cpp", "#include \"transformer/transformer.h\"\n"), 1u) << "the header of everything is above all rooms";
  EXPECT_EQ(count("src/nn/stack.cpp", "#include \"backend/kernels.h\"\n"), 1u) << "downwards, but not for nn";
  EXPECT_EQ(count("src/core/context.cpp", "#include \"backend/kernels.h\"\n"), 2u) << "upwards, and not for core";
  EXPECT_EQ(count("src/attic/x.cpp", "int x;\n"), 1u) << "a room that is not in the table";
  EXPECT_EQ(count("src/nn/stack.cpp", "#include \"transformer/attic/x.h\"\n"), 1u);
  EXPECT_EQ(count("src/ops/linear.cpp", "#ifdef TRANSFORMER_CUDA\n#endif\n"), 1u);
  EXPECT_EQ(count("include/transformer/core/device.h", "# if defined(__CUDACC__)\n#endif\n"), 1u);
}

TEST(Layers, DownwardIncludesAreFine) {
  const auto none = [](const char* file, const char* text) { return faults(file, text).empty(); };
  EXPECT_TRUE(none("src/ops/linear.cpp", "#include \"backend/kernels.h\"\n#include \"transformer/core/tensor.h\"\n#include <vector>\n"));
  EXPECT_TRUE(none("src/train/optimizer.cpp", "#include \"backend/kernels.h\"\n"));
  EXPECT_TRUE(none("src/backend/cuda/kernels.cpp", "#if defined(__CUDACC__)\n#include \"backend/kernels.h\"\n#endif\n"));
  EXPECT_TRUE(none("src/cli/main.cpp", "#include \"cli/verbs.h\"\n#include \"verbs.h\"\n#include \"transformer/serve/server.h\"\n"));
  EXPECT_TRUE(none("include/transformer/transformer.h", "#include \"transformer/train/optimizer.h\"\n"));
  EXPECT_TRUE(none("src/cli/main.cpp", "#include \"transformer/models/names.h\"\n"));
  EXPECT_TRUE(none("src/train/trainer.cpp", "#include \"io/shared/gzip.h\"\n#include \"../io/shared/gzip.h\"\n#include \"train/own.h\"\n"));
  EXPECT_TRUE(none("src/core/tensor.cpp", "// #include \"transformer/nn/stack.h\" is only a comment\n"));
}

}  // namespace
