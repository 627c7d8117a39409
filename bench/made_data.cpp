#include "made_data.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>

#include "transformer/core/error.h"
#include "transformer/core/random.h"

namespace transformer::bench {
namespace {

constexpr RandomStream random{.seed = 7};

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  if (!(out << bytes).flush()) fail(path.string(), "cannot be written");
}

std::string sentence(std::uint64_t i) {
  const std::uint64_t words = 6 + random.bits(100 * i) % 57;
  std::string text;
  for (std::uint64_t w = 0; w < words; ++w) text += fmt::format("{}w{}", w == 0 ? "" : " ", random.bits(100 * i + 1 + w) % 7000);
  return text;
}

constexpr std::uint64_t sentences = 4000;

void append_big_endian(std::string& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFFU);
}

}  // namespace

void make_text(const std::filesystem::path& file) {
  const std::string letters = "\n abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,;:!?-'&$";
  std::string text;
  for (std::uint64_t i = 0; i < 300000; ++i) {
    const bool word_ends = random.bits(2 * i) % 6 == 0;
    text += word_ends ? letters[random.bits(2 * i + 1) % 2] : letters[2 + random.bits(2 * i + 1) % (letters.size() - 2)];
  }
  write(file, text);
}

void make_sentences(const std::filesystem::path& file) {
  std::string text;
  for (std::uint64_t i = 0; i < sentences; ++i) text += sentence(i) + '\n';
  write(file, text);
}

void make_labelled(const std::filesystem::path& file) {
  std::string text;
  for (std::uint64_t i = 0; i < sentences; ++i) {
    const std::string words = sentence(i);
    text += fmt::format("{}\t{}\n", words, words.back() % 2 == 0 ? "even" : "odd");
  }
  write(file, text);
}

void make_images(const std::filesystem::path& folder) {
  constexpr std::uint32_t count = 4000, side = 28;
  std::string pixels, labels;
  for (const std::uint32_t number : {0x803U, count, side, side}) append_big_endian(pixels, number);
  for (const std::uint32_t number : {0x801U, count}) append_big_endian(labels, number);
  for (std::uint32_t i = 0; i < count; ++i) {
    labels += static_cast<char>(i % 10);
    for (std::uint32_t p = 0; p < side * side; ++p)  // noise, brighter in the rows of the class
      pixels += static_cast<char>(random.bits(std::uint64_t{i} * side * side + p) % 128 + (p / side % 10 == i % 10 ? 127 : 0));
  }
  write(folder / "train-images-idx3-ubyte", pixels);
  write(folder / "train-labels-idx1-ubyte", labels);
}

void make_series(const std::filesystem::path& file) {
  std::string text = "date,a,b,c,d,e,f,g\n";
  for (std::uint64_t row = 0; row < 4320; ++row) {
    text += fmt::format("{}", row);
    for (std::uint64_t c = 0; c < 7; ++c)
      text += fmt::format(
          ",{:.4f}",
          std::sin(static_cast<double>(row) * 0.2618 + static_cast<double>(c)) + 0.3 * static_cast<double>(random.uniform(7 * row + c)));
    text += '\n';
  }
  write(file, text);
}

}  // namespace transformer::bench
