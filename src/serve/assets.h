#pragma once
// The files of web/, which are part of the program: cmake/embed.cmake makes their table.

#include <span>
#include <string_view>

namespace transformer {

struct Asset {
  std::string_view path;  // "/main.js"
  std::string_view type;  // of its content
  std::string_view bytes;
};

std::span<const Asset> assets();
// The file at this path of a URL, where "/" is the page itself; null: there is none.
const Asset* find_asset(std::string_view path);

}  // namespace transformer
