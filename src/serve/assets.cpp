#include "serve/assets.h"

#include <array>

namespace transformer {
namespace {

constexpr std::array files = {
    Asset{"/", "text/html; charset=utf-8",
          "<!doctype html><meta charset=utf-8><title>transformer</title><p>The models of this server: "
          "<a href=/v1/models>/v1/models</a>. All that can be asked for: <a href=/openapi.json>/openapi.json</a>.\n"}};

}  // namespace

std::span<const Asset> assets() { return files; }

const Asset* find_asset(std::string_view path) {
  for (const Asset& asset : files)
    if (asset.path == path) return &asset;
  return nullptr;
}

}  // namespace transformer
