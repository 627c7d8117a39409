#include "io/shared/read_file.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "transformer/core/error.h"

namespace transformer {

std::string read_file(const std::filesystem::path& path) {
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) fail(path.string(), "cannot read: it is a folder");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) fail(path.string(), "cannot read: {}", std::generic_category().message(errno));
  return text;
}

}  // namespace transformer
