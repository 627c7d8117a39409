#include "support/paths.h"

namespace transformer::test {

std::filesystem::path source_folder() { return TRANSFORMER_SOURCE_DIR; }
std::filesystem::path command_path() { return TRANSFORMER_COMMAND; }

}  // namespace transformer::test
