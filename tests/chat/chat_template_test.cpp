#include "transformer/chat/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/shared/json.h"
#include "support/golden.h"
#include "support/op_check.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace transformer::test {
namespace {

using Json = nlohmann::ordered_json;

// What Jinja gives, from golden/chat-template/make_cases.py; our own cases where the folder of the others has none.
Json golden_cases_of_templates() {
  const std::filesystem::path there = golden_root() / "chat-template/cases.json",
                              here = test::source_folder() / "tests/golden/chat-template/cases.json";
  std::ifstream file(std::filesystem::exists(there) ? there : here);
  return Json::parse(file);
}

// The time of make_cases.py: 2024-07-26 09:05:07, a Friday.
std::tm golden_time() {
  std::tm t{};
  t.tm_year = 124, t.tm_mon = 6, t.tm_mday = 26, t.tm_hour = 9, t.tm_min = 5, t.tm_sec = 7, t.tm_wday = 5, t.tm_yday = 207;
  return t;
}

std::string render(const std::string& source, const Json& variables = Json::object()) {
  return ChatTemplate(source).render_json(Json::array(), {.variables = variables});
}

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST(ChatTemplate, GivesWhatJinjaGives) {
  for (const Json& c : golden_cases_of_templates()) {
    const std::string name = c["name"];
    const ChatOptions options{.add_generation_prompt = c["add_generation_prompt"],
                              .tools = c["tools"],
                              .documents = c["documents"],
                              .variables = c["variables"],
                              .now = golden_time()};
    auto run = [&] { return ChatTemplate(c["template"]).render_json(c["messages"], options); };
    if (c.contains("error")) {
      EXPECT_THROW(run(), Error) << name;
      continue;
    }
    try {
      EXPECT_EQ(run(), c["expected"].get<std::string>()) << name;
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

TEST(ChatTemplate, ErrorsNameTheConstructAndTheLine) {
  auto refused = [](const std::string& source, const std::vector<std::string>& parts) { expect_error([&] { render(source); }, parts); };
  refused("a\n\n{% include 'x' %}", {"line 3", "'include' is not supported"});
  refused("a\n{{ 1 | wordwrap }}", {"line 2", "filter 'wordwrap' is not supported"});
  refused("{{ 1\n is\n filter }}", {"line 3", "test 'filter' is not supported"});
  refused("{{ 'a'.zfill(3) }}", {"line 1", "method 'zfill' of str is not supported"});
  refused("\n{% call f() %}{% endcall %}", {"line 2", "'call' is not supported"});
  refused("{% for x in y recursive %}{% endfor %}", {"'recursive' loop is not supported"});
  refused("{{ f(*a) }}", {"'*' before an argument is not supported"});
  refused("{{ '%s' % 1 }}", {"formatting a text with % is not supported"});
  refused("{% for x in [1] %}\n\n{{ x.y.z }}{% endfor %}", {"line 3", "has no attribute 'y'"});
  refused("{{ nothing.x }}", {"'nothing' is undefined"});
  refused("\n{{ raise_exception('Bad order of roles') }}", {"line 2", "refuses", "Bad order of roles"});
  refused("{% if a %}\n", {"template ends", "endif"});
  refused("{{ a b }}", {"expected the end of the expression", "'b'"});
  refused("{{ 99999999999999999999 }}", {"too large"});
  refused("{% break %}", {"'break' outside a loop"});
  refused("{{ 'x' | tojson(style=1) }}", {"tojson has no argument 'style'"});
  expect_error([] { ChatTemplate("{{", "model/chat_template.jinja"); }, {"model/chat_template.jinja", "line 1"});
}

// Whatever a template does, it ends soon and with an Error.
TEST(ChatTemplate, HostileTemplatesAreBounded) {
  const std::vector<std::string> hostile{
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}",
      "{% set ns = namespace(l={}) %}{% for i in range(9999) %}{% set ns.l = {'a': ns.l, 'b': ns.l} %}{% endfor %}{{ ns.l }}",
      "{% set l = [1, 1] %}{% set ns = namespace(l=l) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      "{% set ns = namespace() %}{% set ns.me = ns %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{{ f(n) ~ f(n) }}{% endmacro %}{{ f(1) }}",
      "{{ 'abc' * 999999999999 }}",
      "{{ [1] * 999999999999 }}",
      "{{ ('x' * 60000000) | replace('x', 'xxxxxxxxxx') }}",
      "{{ ['x' * 9000000] * 100 | join('y' * 9000000) }}",
      "{{ 2 ** 9999 }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ -9223372036854775807 - 2 }}",
      "{{ strftime_now('%c' * 90) }}{{ strftime_now('%c' * 9000) }}",
      "{{ 'x' * 60000000 ~ 'x' * 60000000 }}",
      "{% for i in range(90000) %}{{ 'x' * 90000 }}{% endfor %}"};
  for (const std::string& source : hostile) EXPECT_THROW(render(source), Error) << source;
  std::string deep = "{{ ", block, plus = "{{ 1", dots = "{{ a";
  for (int i = 0; i < 100000; ++i) deep += "(", block += "{% if 1 %}", plus += "+1", dots += ".a";
  for (const std::string& source : {deep, block, plus + " }}", dots + " }}", deep + "1"}) EXPECT_THROW(render(source), Error);
  std::string brackets = "{{ ", minus = "{{ ", nots = "{{ ";
  for (int i = 0; i < 100000; ++i) brackets += "[", minus += "-", nots += "not ";
  for (const std::string& source : {brackets, minus + "1 }}", nots + "1 }}"}) EXPECT_THROW(render(source), Error);
  expect_error([] { ChatTemplate(std::string(std::size_t{2} << 20, 'x')); }, {"bytes"});
  Json nested = 1;
  for (int i = 0; i < 1000; ++i) nested = Json::array({nested});
  expect_error([&] { render("{{ x }}", {{"x", nested}}); }, {"levels deep"});
}

TEST(ChatTemplate, AnyBytesAreNoMoreThanAnError) {
  const std::string source = golden_cases_of_templates()[1]["template"];
  std::uint32_t state = 1;
  auto next = [&] { return state = state * 1664525U + 1013904223U, state >> 8U; };
  for (int i = 0; i < 3000; ++i) {
    std::string broken = source;
    for (std::uint32_t n = 1 + next() % 4; n > 0; --n) {
      const std::size_t at = next() % broken.size();
      if (next() % 3 == 0) broken.erase(at, 1 + next() % 20);
      else if (next() % 2 == 0) broken[at] = static_cast<char>(next());
      else broken.insert(at, broken.substr(next() % broken.size(), next() % 30));
      if (broken.empty()) broken = "x";
    }
    try {
      ChatTemplate(broken).render({{"user", "a"}, {"assistant", "b"}}, {.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}});
    } catch (const Error&) {
    }
  }
}

TEST(ChatTemplate, ConversationsOfPlainMessages) {
  const ChatTemplate chat("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}>{% endif %}");
  EXPECT_EQ(chat.render({{"user", "Hi"}, {"assistant", "Ho"}}), "user: Hi\nassistant: Ho\n");
  EXPECT_EQ(chat.render({{"user", "나는"}}, {.add_generation_prompt = true}), "user: 나는\n>");
  EXPECT_EQ(chat.render({}), "");
}

// Texts and dicts have items only while a filter runs over them.
TEST(ChatTemplate, FiltersOverTheItemsOfTextsAndDicts) {
  const auto render = [](const char* source) { return ChatTemplate(source).render({}); };
  EXPECT_EQ(render("{{ 'abca' | unique | list }}"), "['a', 'b', 'c']");
  EXPECT_EQ(render("{{ 'abc' | map('upper') | list }}{{ 'abc' | select('equalto', 'b') | list }}"), "['A', 'B', 'C']['b']");
  EXPECT_EQ(render("{{ {1: 'a', 2: 'b'} | sum }}{{ {'k': 1} | map('upper') | list }}"), "3['K']");
}

TEST(ChatTemplate, FromAFolder) {
  const TemporaryFolder folder;
  EXPECT_FALSE(ChatTemplate::load(folder.path()).has_value());
  write_json(folder / "tokenizer_config.json", {{"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}, {"lstrip", false}}}});
  EXPECT_FALSE(ChatTemplate::load(folder.path()).has_value());
  write_json(folder / "tokenizer_config.json",
             {{"bos_token", "<s>"},
              {"eos_token", {{"content", "</s>"}, {"lstrip", false}}},
              {"pad_token", nullptr},
              {"chat_template", "{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ unk_token }}"}});
  write_json(folder / "special_tokens_map.json", {{"bos_token", "other"}, {"unk_token", "<unk>"}});
  EXPECT_EQ(ChatTemplate::load(folder.path())->render_json(Json::array()), "<s></s><unk>");
  // The caller's variables win.
  EXPECT_EQ(ChatTemplate::load(folder.path())->render_json(Json::array(), {.variables = {{"bos_token", "B"}}}), "B</s><unk>");
  write(folder / "chat_template.jinja", "file {{ bos_token }}\n");
  EXPECT_EQ(ChatTemplate::load(folder.path())->render_json(Json::array()), "file <s>");
  std::filesystem::remove(folder / "chat_template.jinja");
  write_json(folder / "tokenizer_config.json",
             {{"chat_template", {{{"name", "default"}, {"template", "one"}}, {{"name", "tool_use"}, {"template", "two"}}}}});
  EXPECT_EQ(ChatTemplate::load(folder.path())->render_json(Json::array()), "one");
  EXPECT_EQ(ChatTemplate::load(folder.path(), "tool_use")->render_json(Json::array()), "two");
  expect_error([&] { ChatTemplate::load(folder.path(), "rag"); }, {"no template 'rag'", "default, tool_use"});
  write_json(folder / "tokenizer_config.json", {{"chat_template", 3}});
  expect_error([&] { ChatTemplate::load(folder.path()); }, {"tokenizer_config.json", "neither a text nor a list"});
  write_json(folder / "tokenizer_config.json", {{"chat_template", "\n{{ x y }}"}});
  expect_error([&] { ChatTemplate::load(folder.path()); }, {"tokenizer_config.json", "line 2", "'y'"});
}

}  // namespace transformer::test
