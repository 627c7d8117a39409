#pragma once
// Where the sources and the built command lie. Only paths.cpp is compiled with these paths, so that clones share a compiler cache.

#include <filesystem>

namespace transformer::test {

std::filesystem::path source_folder();
std::filesystem::path command_path();

}  // namespace transformer::test
