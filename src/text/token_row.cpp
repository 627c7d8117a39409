#include "transformer/text/token_row.h"

#include <array>
#include <bit>
#include <cstring>

#include "core/shared/hash.h"
#include "io/shared/atomic_file.h"
#include "io/shared/mapping.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and mapped as they are");

constexpr std::array<char, 8> magic{'T', 'R', 'T', 'O', 'K', 'E', 'N', 'S'}, end_magic{'T', 'O', 'K', 'E', 'N', 'E', 'N', 'D'};

struct TokenFileHeader {
  std::array<char, 8> name = magic;
  std::uint32_t version = 1, width = 0;
  std::uint64_t vocabulary = 0, vocabulary_fingerprint = 0;
  std::array<std::uint64_t, 4> zeros = {};
};
struct TokenFileFooter {
  std::uint64_t tokens = 0, text_bytes = 0, fingerprint = 0;
  std::array<char, 8> name = end_magic;
};
static_assert(sizeof(TokenFileHeader) == 64 && sizeof(TokenFileFooter) == 32);

namespace {

std::uint64_t hash_of(std::span<const std::int32_t> ids) {
  Hash hash;
  for (const std::int32_t id : ids) hash.word(static_cast<std::uint64_t>(id));
  return hash.finish();
}

template <class Id>
void copy_ids(const std::byte* from, std::span<std::int32_t> out, std::int64_t vocabulary, const std::string& name, std::int64_t first) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Id id = 0;
    std::memcpy(&id, from + i * sizeof(Id), sizeof(Id));
    if (vocabulary > 0 && std::int64_t{id} >= vocabulary)
      fail(name, "token {} is {}, but the vocabulary has {}: the file is damaged", first + static_cast<std::int64_t>(i), id, vocabulary);
    out[i] = static_cast<std::int32_t>(id);
  }
}

}  // namespace

TokenRow::TokenRow(std::vector<std::int32_t> ids, std::int64_t text_bytes)
    : end_(std::ssize(ids)), text_bytes_(text_bytes), fingerprint_(hash_of(ids)) {
  const auto kept = std::make_shared<const std::vector<std::int32_t>>(std::move(ids));
  ids_ = {kept, reinterpret_cast<const std::byte*>(kept->data())};
}

TokenRow TokenRow::open(const std::filesystem::path& path, const Tokenizer& tokenizer) {
  TokenRow row;
  row.name_ = path.string();
  const auto file = std::make_shared<const Mapping>(row.name_);
  TokenFileHeader header;
  TokenFileFooter footer;
  if (file->size >= sizeof header) std::memcpy(&header, file->data, sizeof header);
  if (file->size < sizeof header || header.name != magic)
    fail(row.name_, "is not a file of tokens: make one with 'transformer tokenize TOKENIZER --to-bin FILE < TEXT'");
  if (header.version != 1 || (header.width != 2 && header.width != 4))
    fail(row.name_, "is a file of tokens of version {} with ids of {} bytes: expected version 1 and 2 or 4 bytes", header.version,
         header.width);
  const std::size_t rest = file->size - sizeof header;
  if (rest >= sizeof footer) std::memcpy(&footer, file->data + file->size - sizeof footer, sizeof footer);
  if (rest < sizeof footer || footer.name != end_magic || (rest - sizeof footer) % header.width != 0 ||
      footer.tokens != (rest - sizeof footer) / header.width)
    fail(row.name_, "is cut off or damaged: it does not end as a file of tokens does; make it again");
  if (header.vocabulary != static_cast<std::uint64_t>(tokenizer.size()) ||
      header.vocabulary_fingerprint != transformer::fingerprint(tokenizer))
    fail(row.name_, "was made with another vocabulary (of {} tokens, fingerprint {:016x}) than this one (of {}, {:016x})",
         header.vocabulary, header.vocabulary_fingerprint, tokenizer.size(), transformer::fingerprint(tokenizer));
  row.ids_ = {file, file->data + sizeof header};
  row.width_ = static_cast<int>(header.width);
  row.end_ = static_cast<std::int64_t>(footer.tokens);
  row.text_bytes_ = static_cast<std::int64_t>(footer.text_bytes);
  row.vocabulary_ = tokenizer.size();
  row.fingerprint_ = footer.fingerprint;
  return row;
}

void TokenRow::read(std::int64_t begin, std::span<std::int32_t> out) const {
  if (begin < 0 || std::ssize(out) > size() - begin)
    fail(name_, "tokens {} to {} were asked for, but there are {}", begin, begin + std::ssize(out), size());
  const std::byte* from = ids_.get() + (begin_ + begin) * width_;
  if (width_ == 2) copy_ids<std::uint16_t>(from, out, vocabulary_, name_, begin_ + begin);
  else copy_ids<std::uint32_t>(from, out, vocabulary_, name_, begin_ + begin);
}

TokenRow TokenRow::part(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || end < begin || end > size()) fail(name_, "tokens {} to {} were asked for, but there are {}", begin, end, size());
  TokenRow out = *this;
  out.begin_ = begin_ + begin;
  out.end_ = begin_ + end;
  const double share = size() > 0 ? static_cast<double>(end - begin) / static_cast<double>(size()) : 0.0;
  out.text_bytes_ = static_cast<std::int64_t>(static_cast<double>(text_bytes_) * share + 0.5);
  Hash hash{fingerprint_};
  hash.word(static_cast<std::uint64_t>(begin)), hash.word(static_cast<std::uint64_t>(end));
  out.fingerprint_ = hash.finish();
  return out;
}

struct TokenFileWriter::State {
  AtomicFile file;
  std::string name;
  TokenFileHeader header;
  TokenFileFooter footer;
  Hash hash = {};
  std::vector<std::byte> buffer = {};
};

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, const Tokenizer& tokenizer)
    : state_(new State{.file = AtomicFile(path),
                       .name = path.string(),
                       .header = {.width = tokenizer.size() <= 0x10000 ? 2U : 4U,
                                  .vocabulary = static_cast<std::uint64_t>(tokenizer.size()),
                                  .vocabulary_fingerprint = fingerprint(tokenizer)},
                       .footer = {}}) {
  state_->file.write(&state_->header, sizeof(TokenFileHeader));
}
TokenFileWriter::~TokenFileWriter() = default;

std::int64_t TokenFileWriter::size() const { return static_cast<std::int64_t>(state_->footer.tokens); }

void TokenFileWriter::add(std::span<const std::int32_t> ids, std::int64_t text_bytes) {
  State& s = *state_;
  s.buffer.resize(ids.size() * s.header.width);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::uint32_t>(ids[i]);
    if (id >= s.header.vocabulary) fail(s.name, "token {} does not fit the vocabulary of {}", ids[i], s.header.vocabulary);
    std::memcpy(s.buffer.data() + i * s.header.width, &id, s.header.width);
    s.hash.word(id);
  }
  s.file.write(s.buffer.data(), s.buffer.size());
  s.footer.tokens += ids.size();
  s.footer.text_bytes += static_cast<std::uint64_t>(text_bytes);
}

void TokenFileWriter::finish() {
  State& s = *state_;
  s.footer.fingerprint = s.hash.finish();
  s.file.write(&s.footer, sizeof(TokenFileFooter));
  s.file.commit();
}

}  // namespace transformer
