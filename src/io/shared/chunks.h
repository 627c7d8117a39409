#pragma once
// Lines in portions that are worth computing together, without making anybody wait who types them.

#include <functional>

#include "transformer/io/lines.h"

namespace transformer {

// Up to `most` lines, and about 16 MB, of `next`: after the first one no more than are there when ready() says that the next one
// is not. False when there is none left.
bool read_chunk(const LineSource& next, const std::function<bool()>& ready, std::int64_t most, std::vector<std::string>& lines);

// The same lines, but it is not asked again when it has said that there is none: somebody may sit there and type.
LineSource until_end(LineSource next);

// These texts, one after the other.
LineSource lines_of(std::vector<std::string> texts);

}  // namespace transformer
