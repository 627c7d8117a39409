#pragma once

#include "transformer/io/config.h"

namespace transformer {

// Of a picture: as the reader's system is, or fixed.
enum class Theme : std::uint8_t { automatic, light, dark };
inline EnumNames<Theme> names(Theme) { return {{Theme::automatic, "auto"}, {Theme::light, "light"}, {Theme::dark, "dark"}}; }

}  // namespace transformer
