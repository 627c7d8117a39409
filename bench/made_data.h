#pragma once
// Files to train on where none are given: made up, always the same, with something in them that can be learned.

#include <filesystem>

namespace transformer::bench {

void make_text(const std::filesystem::path& file);       // 64 different characters, about 300,000 in all
void make_sentences(const std::filesystem::path& file);  // a text of 6 to 62 words a line
void make_labelled(const std::filesystem::path& file);   // the same with a class behind a tab
void make_images(const std::filesystem::path& folder);   // IDX files: grey, 28 × 28, ten classes
void make_series(const std::filesystem::path& file);     // CSV: seven channels, row by row

}  // namespace transformer::bench
