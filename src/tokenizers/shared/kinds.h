#pragma once
// What load_tokenizer chooses from: one reader per kind.

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/token_model.h"
#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

inline constexpr std::array<std::string_view, 4> whitespace_specials = {"<pad>", "<unk>", "<s>", "</s>"};

std::string listed(std::span<const std::string_view> words);  // "a, b, c", for messages

TokenizerPtr load_sentencepiece(const std::filesystem::path& path);
TokenizerPtr load_whitespace(const std::filesystem::path& path);
bool is_whitespace(const std::filesystem::path& path);  // told by its first line. Error when it cannot be read, or is empty

struct ScoredPiece {
  std::string piece;
  float score = 0.0F;
};
// As train_sentencepiece, for a vocabulary of which SentencePiece makes a part: `others` tokens more than its own (or fewer, where not
// all of its special ones are taken) are the user's vocab_size, which errors speak of. `required`: characters that get a piece.
TokenizerPtr train_sentencepiece(const LineSource& lines, const SentencePieceOptions& options, std::int64_t others,
                                 const std::string& required = "");
// What a tokenizer of train_sentencepiece has learned, in the order of its ids: neither special tokens nor bytes.
std::vector<ScoredPiece> sentencepiece_pieces(const Tokenizer& tokenizer);

// How a SentencePiece model reads a text, beside its pieces.
struct SentencePieceHabits {
  std::string charsmap = {};  // the compiled rules of its normalisation, may be empty
  bool unigram = true;        // otherwise BPE
  bool space_first = true;    // a space is put before a text
  bool single_spaces = true;  // rows of spaces become one, and those at the ends go
};
SentencePieceHabits sentencepiece_habits(const Tokenizer& tokenizer);  // of a tokenizer of train_sentencepiece or load_sentencepiece
bool has_bytes(const Tokenizer& tokenizer);                            // does it spell unknown characters in bytes?

// A SentencePiece model as a part of a pipeline (tokenizers/pipeline.h). Its ids are its own, or those of a vocabulary; there, with
// `target_marks`, a text may begin with the language to translate to: >>fra<< (Marian).
TokenModelPtr sentencepiece_model(std::string_view source, std::string_view bytes);
TokenModelPtr sentencepiece_model(std::string_view source, std::string_view bytes, Vocabulary vocabulary, std::string_view unknown,
                                  bool target_marks);

// A folder of Hugging Face, or one of the files such a folder has (tokenizers/huggingface.cpp).
TokenizerPtr load_huggingface_folder(const std::filesystem::path& folder);  // null when it holds no tokenizer
TokenizerPtr load_huggingface_json(const std::filesystem::path& file);
TokenizerPtr load_word_piece(const std::filesystem::path& vocabulary);
// The bytes of the file of a SentencePiece tokenizer.
std::string sentencepiece_bytes(const Tokenizer& tokenizer);
// Of a Marian folder: "source" or "target".
TokenizerPtr load_marian(const std::filesystem::path& folder, const std::string& side);
bool is_marian(const std::filesystem::path& folder);
bool is_joint_marian(const std::filesystem::path& folder);  // its two sides are the same
// One side of a Marian model that is in no folder yet, and the files that it will have there.
TokenizerPtr marian_tokenizer(std::string_view bytes, const std::string& side, Vocabulary vocabulary,
                              std::map<std::string, std::string> files);

}  // namespace transformer
