#include "targets.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <tuple>

#include "generate/json_machine.h"
#include "io/shared/json.h"
#include "io/shared/utf8.h"
#include "seeds.h"
#include "serve/requests.h"
#include "text/shared/entities.h"
#include "text/shared/words.h"
#include "transformer/chat/chat_template.h"
#include "transformer/generate/generation_config.h"
#include "transformer/io/checkpoint.h"
#include "transformer/io/delimited.h"
#include "transformer/io/toml.h"
#include "transformer/models/lora.h"
#include "transformer/models/model.h"
#include "transformer/series/table.h"
#include "transformer/text/labelled.h"
#include "transformer/text/tagged.h"
#include "transformer/text/token_row.h"
#include "transformer/tokenizers/tokenizer_pair.h"
#include "transformer/tokenizers/vocabulary.h"
#include "transformer/vision/dataset.h"
#include "transformer/vision/processor.h"

namespace transformer::fuzz {
namespace {

namespace fs = std::filesystem;

std::string message;

// Runs `body`; only an Error is caught.
template <class Body>
int guarded(Body&& body) {
  message.clear();
  try {
    body();
  } catch (const Error& e) {
    message = e.what();
  }
  return 0;
}

std::string_view text_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

[[noreturn]] void broken(const std::string& what) { throw std::logic_error(what); }

// A folder of this process, in memory where the system has that.
class Scratch {
 public:
  Scratch() {
    const fs::path memory = "/dev/shm";
    std::string name = ((fs::is_directory(memory) ? memory : fs::temp_directory_path()) / "transformer-fuzz-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) broken("cannot make " + name);
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const fs::path& path() const { return path_; }
  fs::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  fs::path path_;
};

// Reads every byte, so that one outside the file is noticed.
void touch(const Tensor& t) {
  const auto bytes = static_cast<std::size_t>(t.numel() * size_of(t.dtype()));
  std::uint8_t sum = 0;
  for (std::size_t i = 0; i < bytes; ++i) sum ^= std::to_integer<std::uint8_t>(t.raw()[i]);
  volatile std::uint8_t kept = sum;
  static_cast<void>(kept);
}

const std::vector<std::string>& texts() {
  static const std::vector<std::string> list{"", "Hello, world!  It's 3.14 <s>[MASK]</s>\n",
                                             "나는 학교에 간다\u00a0\u2581x\U0001F600e\u0301\r\n\t\x01",
                                             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa the the"};
  return list;
}

void use(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  for (const std::string& text : texts()) {
    const Encoding encoding = tokenizer.tokenize(text);
    for (const TokenPlace& place : encoding.places)
      if (place.begin < 0 || place.begin > place.end || place.end > static_cast<std::int64_t>(text.size()))
        broken("a place outside the text");
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    tokenizer.encode(text);
  }
  tokenizer.tokenize_pair(texts()[1], texts()[2]);
  for (const std::int32_t id : ids)
    if (id < 0 || id >= tokenizer.size()) broken("an id outside the vocabulary");
  for (std::int32_t id = 0; id < std::min<std::int64_t>(tokenizer.size(), 50); ++id) ids.push_back(id);
  tokenizer.decode(ids, true);
  const std::string all = tokenizer.decode(ids, false);
  if (!is_valid_utf8(all)) broken("decoded text is not UTF-8");
  for (const std::int32_t id : ids) tokenizer.piece(id);
}

}  // namespace

const std::string& outcome() { return message; }

int fuzz_safetensors(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  return guarded([&] {
    const SafetensorsFile file(scratch.write("model.safetensors", text_of(data, size)));
    const Checkpoint files(file);
    std::string refused;
    for (const std::string& name : files.names()) {
      static_cast<void>(files.shape(name));
      try {
        touch(files.tensor(name));
      } catch (const Error& e) {  // a type that is known, but not computed with
        refused = e.what();
      }
    }
    message = refused;
  });
}

int fuzz_index(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  static const bool made = [] {
    scratch.write("model-00001-of-00002.safetensors", small_safetensors({"a.weight", "a.bias"}));
    scratch.write("model-00002-of-00002.safetensors", small_safetensors({"b.weight"}));
    return true;
  }();
  static_cast<void>(made);
  return guarded([&] {
    scratch.write("model.safetensors.index.json", text_of(data, size));
    const Checkpoint files(scratch.path());
    for (const std::string& name : files.names()) touch(files.tensor(name));
  });
}

int fuzz_config(const std::uint8_t* data, std::size_t size) {
  return guarded([&] {
    const nlohmann::json config = parse_json(text_of(data, size), "config.json");
    const std::unique_ptr<Model> model = make_model(config);
    for (const NamedParameter& p : model->parameters())
      if (p.parameter->tensor.defined()) broken(p.name + " has memory");
    for (const Binding& b : model->bindings())
      if (b.shape().numel() < 0) broken(b.theirs + " has a negative size");
    static_cast<void>(model->load_rules());
    static_cast<void>(generation_config_of_model(config));
  });
}

int fuzz_adapter(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  static Context ctx({.threads = 1});
  static const fs::path base = golden_folder("llama");
  static const bool made = [] {
    fs::copy(golden_folder("adapters/llama") / adapter_weights_file, scratch.path());
    return true;
  }();
  static_cast<void>(made);
  return guarded([&] {
    scratch.write("adapter_config.json", text_of(data, size));
    try {
      static_cast<void>(model_folder(scratch.path()).config());  // of the base that it names, which is hardly ever there
    } catch (const Error&) {
    }
    const std::unique_ptr<Model> model = make_model(ModelFolder{base, scratch.path()}.config());
    open_adapter(ctx, *model, scratch.path());
    if (trained_parameters(*model).empty()) broken("an adapter without a weight");
  });
}

int fuzz_generation(const std::uint8_t* data, std::size_t size) {
  return guarded([&] {
    const GenerationConfig config = read_generation_config(parse_json(text_of(data, size), "generation_config.json"));
    if (to_json(read_generation_config(generation_json(config))) != to_json(config)) broken("written and read again it differs");
    check(config);
  });
}

int fuzz_toml(const std::uint8_t* data, std::size_t size) {
  return guarded([&] {
    const nlohmann::json value = parse_toml(text_of(data, size), "settings.toml");
    if (parse_toml(to_toml(value), "written.toml") != value) broken("written and read again it differs");
  });
}

int fuzz_tokenizer(const std::uint8_t* data, std::size_t size) {
  return guarded([&] { use(*parse_tokenizer(text_of(data, size))); });
}

int fuzz_vocabulary(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  return guarded([&] {
    // The files' contents, with a line of "=== NAME" before each.
    std::error_code ignored;
    for (const char* name : vocabulary_files) fs::remove(scratch.path() / name, ignored);
    for (const auto& [name, bytes] : split_files(text_of(data, size))) scratch.write(name, bytes);
    use(*load_tokenizer(scratch.path()));
    // Of a model for many languages, in two of them.
    Languages languages;
    for (const auto& [family, source, target] :
         {std::tuple{"m2m_100", "ko", "en"}, {"mbart", "ko_KR", "en_XX"}, {"MBart", "ko_KR", "en_XX"}, {"Nllb", "kor_Hang", "eng_Latn"}})
      if (text_of(data, size).find(family) != std::string_view::npos) languages = {.source_lang = source, .target_lang = target};
    const TokenizerPair pair = load_tokenizers(scratch.path(), languages);
    use(*pair.source), use(*pair.target);
  });
}

int fuzz_chat(const std::uint8_t* data, std::size_t size) {
  static const nlohmann::ordered_json messages = nlohmann::ordered_json::parse(R"([
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "Hi <b>"}]},
      {"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
      {"role": "tool", "content": "2.5", "name": "f"}, {"role": "user", "content": "나는"}])");
  static const nlohmann::ordered_json tools = nlohmann::ordered_json::parse(
      R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}])");
  return guarded([&] {
    ChatTemplate chat{std::string(text_of(data, size))};
    chat.set_special_tokens({{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    const std::tm now{.tm_mday = 1, .tm_mon = 1, .tm_year = 124};
    static_cast<void>(chat.render({{"user", "Hello"}, {"assistant", "Hi"}, {"user", "?"}}, {.add_generation_prompt = true, .now = now}));
    static_cast<void>(chat.render_json(messages, {.tools = tools, .now = now}));
  });
}

int fuzz_processor(const std::uint8_t* data, std::size_t size) {
  return guarded([&] {
    const ImageProcessor processor = ImageProcessor::from_json(parse_json(text_of(data, size), "preprocessor_config.json"));
    const ImageProcessorConfig& c = processor.config();
    const auto sides = [](const ImageProcessorConfig::Size& s) { return std::max({s.height, s.width, s.shortest_edge}); };
    if ((c.resize && sides(*c.resize) > 64) || (c.crop && sides(*c.crop) > 64)) return;  // such sizes are no fault, but slow
    Image image{.height = 5, .width = 7};
    image.pixels.resize(5 * 7 * 3);
    static_cast<void>(processor.shape(image));
  });
}

constexpr std::int64_t most_pixels = std::int64_t{1} << 20;  // larger pictures are no fault, but slow

int fuzz_image(const std::uint8_t* data, std::size_t size) {
  return guarded([&] {
    const Image image = decode_image(text_of(data, size), "image", most_pixels);
    if (image.pixels.size() != static_cast<std::size_t>(image.height * image.width * image.channels)) broken("pixels are missing");
  });
}

int fuzz_idx(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  static const fs::path labels = scratch.write("train-labels-idx1-ubyte", std::string_view("\0\0\x08\x01\0\0\0\x03\0\x01\x02", 11));
  return guarded([&] {
    scratch.write("train-images-idx3-ubyte", text_of(data, size));
    const auto images = open_images({.idx = scratch.path().string()}, ImageSplit::train);
    const ImageDataset::Extent extent = images->extent();
    for (std::int64_t i = 0; i < images->size(); ++i)
      if (std::ssize(images->image(i).pixels) != extent.height * extent.width) broken("pixels are missing");
  });
}

// The lines of a text, as a reader of files gives them.
std::function<bool(std::string& line)> lines_in(std::string_view text) {
  return [text](std::string& line) mutable {
    if (text.empty()) return false;
    line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return true;
  };
}

// A first line that begins with % is the form of the dates.
int fuzz_table(const std::uint8_t* data, std::size_t size) {
  return guarded([&] {
    std::string_view text = text_of(data, size);
    TableOptions options{.missing = Missing::interpolate};
    if (text.starts_with('%')) {
      options.date_format = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(options.date_format.size() + 1, text.size()));
    }
    for (const Header header : {Header::yes, Header::no}) {
      try {
        options.header = header;
        read_table(lines_in(text), "table.csv", options).step();
      } catch (const Error&) {  // it may have a header or none; below it is told apart
      }
    }
    options.header = Header::automatic;
    const SeriesTable table = read_table(lines_in(text), "table.csv", options);
    const std::string written = write_table(table);
    const SeriesTable again = read_table(lines_in(written), "table.csv", options);
    if (again.values != table.values || again.dates != table.dates || again.channels != table.channels)
      broken("written and read again it differs");
    table.step();
  });
}

// Read as JSON lines, CSV or TSV, by how it begins.
int fuzz_labelled(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  return guarded([&] {
    const std::string_view text = text_of(data, size), first = text.substr(0, text.find('\n'));
    const bool tabs = first.find('\t') != std::string_view::npos && !first.starts_with("\xFF\xFE") && !first.starts_with("\xFE\xFF");
    const std::string path = scratch.write(text.starts_with('{') ? "texts.jsonl" : tabs ? "texts.tsv" : "texts.csv", text).string();
    DelimitedReader records(lines_in(text), path, {.delimiter = delimiter_of(path)});
    try {
      std::int64_t line = 0;
      for (std::vector<std::string> cells; records.next(cells); line = records.line())
        if (cells.empty() || records.line() <= line) broken("a record without cells, or twice");
    } catch (const Error&) {  // of a JSON file, say
    }
    LabelledReader reader(path);
    while (const auto row = reader.next())
      if (row->label.empty() || row->line < 1) broken("a text without a class");
  });
}

int fuzz_tagged(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  return guarded([&] {
    const std::string_view text = text_of(data, size);
    TaggedReader reader(scratch.write(text.starts_with('{') ? "words.jsonl" : "words.conll", text).string());
    while (const auto row = reader.next()) {
      if (row->words.empty() || row->tags.size() != row->words.size() || row->lines.size() != row->words.size())
        broken("words without tags");
      for (const Entity& e : entities_of(row->tags))
        if (e.begin >= e.end || e.end > row->words.size()) broken("an entity outside of its text");
      std::int64_t replaced = 0;
      for (const std::string& word : row->words) {
        const std::string valid = sanitize_utf8(word, replaced);
        std::int64_t end = 0;
        for (const TokenPlace& place : split_words(valid)) {
          if (place.begin < end || place.end <= place.begin || place.end > std::ssize(valid)) broken("a word outside of its text");
          end = place.end;
        }
      }
    }
  });
}

int fuzz_tokens(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  static const TokenizerPtr bytes = make_vocabulary({}, {.kind = VocabularyKind::bytes});
  return guarded([&] {
    const TokenRow row = TokenRow::open(scratch.write("tokens.bin", text_of(data, size)), *bytes);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(row.size()));
    row.read(0, ids);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= bytes->size()) broken("a token that is none");
  });
}

// Any body at all endpoints, and the schema in it as a machine that then reads the body.
int fuzz_request(const std::uint8_t* data, std::size_t size) {
  using namespace serve;
  return guarded([&] {
    const std::string_view body = text_of(data, size);
    const auto refused = [](const ApiError& e) {
      if (e.status != 400 || dump(error_json(e)).empty()) broken("a refusal that is none");
    };
    for (const char* type : {"application/x-www-form-urlencoded", "multipart/form-data; boundary=xyz"}) {
      try {
        strings_of(read_form<TranslateRequest>(form_of(type, body).value_or(Form())).q, "q");
      } catch (const ApiError& e) {
        refused(e);
      }
    }
    nlohmann::ordered_json json;
    try {
      json = json_of_body(body);
    } catch (const ApiError& e) {
      return refused(e);
    }
    const auto asked = [&]<class T>(const std::function<void(const T&)>& use) {
      try {
        use(read_request<T>(json));
      } catch (const ApiError& e) {
        refused(e);
      }
    };
    asked.operator()<ChatRequest>([](const ChatRequest& r) { strings_of(r.stop, "stop"); });
    asked.operator()<EmbeddingRequest>([](const EmbeddingRequest& r) { strings_of(r.input, "input"); });
    asked.operator()<TranslateRequest>([](const TranslateRequest& r) { strings_of(r.q, "q"); });
    asked.operator()<ClassifyRequest>([](const ClassifyRequest& r) { strings_of(r.text, "text"); });
    asked.operator()<ForecastRequest>([](const ForecastRequest&) {});
    asked.operator()<TokenizeRequest>([](const TokenizeRequest&) {});
    asked.operator()<DetokenizeRequest>([](const DetokenizeRequest&) {});
    asked.operator()<SampleRequest>([](const SampleRequest&) {});
    asked.operator()<CompletionRequest>([&](const CompletionRequest& r) {
      for (const PromptText& prompt : prompts_of(r))
        for (const std::int32_t id : prompt.ids)
          if (id < 0) broken("a token that is none");
      const JsonMachine machine(r.response_format.value);
      JsonMachine::States states = machine.begin();
      for (const char c : body.substr(0, 200)) states = machine.next(states, static_cast<std::uint8_t>(c));
    });
  });
}

const std::vector<Target>& targets() {
  constexpr std::size_t image_memory = 48 * most_pixels;
  static const std::vector<Target> all{
      {"safetensors", fuzz_safetensors, safetensors_seeds, Format::safetensors},
      {"index", fuzz_index, index_seeds},
      {"config", fuzz_config, config_seeds, Format::text, std::size_t{128} << 20},
      {"adapter", fuzz_adapter, adapter_seeds, Format::text, std::size_t{128} << 20},
      {"generation", fuzz_generation, generation_seeds},
      {"toml", fuzz_toml, toml_seeds},
      {"tokenizer", fuzz_tokenizer, tokenizer_seeds},
      {"vocabulary", fuzz_vocabulary, vocabulary_seeds},
      {"chat", fuzz_chat, chat_seeds, Format::text, std::size_t{384} << 20},  // as many steps as a template may take
      {"processor", fuzz_processor, processor_seeds},
      {"png", fuzz_image, [] { return image_seeds(".png"); }, Format::binary, image_memory, 2'000},  // texts may be packed
      {"jpeg", fuzz_image, [] { return image_seeds(".jpg"); }, Format::binary, image_memory},
      {"webp", fuzz_image, [] { return image_seeds(".webp"); }, Format::binary, image_memory},
      {"bmp", fuzz_image, [] { return image_seeds(".bmp"); }, Format::binary, image_memory},
      {"gif", fuzz_image, [] { return image_seeds(".gif"); }, Format::binary, image_memory},
      {"table", fuzz_table, table_seeds},
      {"labelled", fuzz_labelled, labelled_seeds},
      {"tagged", fuzz_tagged, tagged_seeds},
      {"tokens", fuzz_tokens, tokens_seeds, Format::binary},
      {"request", fuzz_request, request_seeds, Format::text, std::size_t{64} << 20},
      {"idx", fuzz_idx, idx_seeds, Format::binary, std::size_t{16} << 20, 4'000},
  };
  return all;
}

const Target* find_target(std::string_view name) {
  const auto it = std::find_if(targets().begin(), targets().end(), [&](const Target& t) { return t.name == name; });
  return it == targets().end() ? nullptr : &*it;
}

}  // namespace transformer::fuzz
