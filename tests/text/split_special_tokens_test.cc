// Special tokens that a user's text spells out are text: in a text as a whole as `tokenizers` 0.23.3 does it
// (encode_special_tokens), and in the parts of a rendered chat that do not come from its template.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/golden.h"
#include "text/chat_template/chat_template.h"
#include "text/texts.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

struct Recorded {
  const char* folder;
  const char* text;
  Ids found, split;
};

TEST(SplitSpecialTokens, WholeTextsGiveTheRecordedIds) {
  TRL_NEED_GOLDEN("models/qwen2/tokenizer.json");
  const std::vector<Recorded> cases = {
      {"models/qwen2", "a<|im_end|>b", {64, 475, 65}, {64, 27, 91, 72, 76, 62, 258, 67, 91, 29, 65}},
      {"models/qwen2", "x<tool_call> y", {87, 476, 220, 88}, {87, 476, 220, 88}},  // it is not special
      {"tokenizers/bpe_llama3",
       "x<|end_of_text|> y",
       {87, 1795, 220, 88},
       {87, 27, 91, 258, 67, 62, 78, 69, 62, 83, 68, 87, 83, 91, 29, 220, 88}},
      {"tokenizers/bpe_added", "a<|im_end|>b", {64, 1102, 65}, {64, 27, 91, 72, 76, 62, 258, 67, 91, 29, 65}},
      {"tokenizers/spm_style_bpe", "x</s> y", {779, 2, 355, 355, 325}, {779, 284, 53, 319, 286, 355, 325}},
      {"tokenizers/word_level", "x<s> y", {226, 1, 0}, {226, 0, 135, 0, 0}},
      {"tokenizers/wordpiece_bert_cased", "x[SEP] y", {82, 3, 83}, {82, 54, 1, 56, 83}},
  };
  for (const Recorded& c : cases) {
    SCOPED_TRACE(c.folder);
    const auto tokenizer = Tokenizer::from_files(test::golden_path(c.folder));
    const std::string_view text = c.text;
    EXPECT_EQ(tokenizer->encode(text, false), c.found);
    EXPECT_EQ(tokenizer->encode(text, false, {{0, text.size()}}), c.split);
    EXPECT_EQ(tokenizer->encode_with_offsets(text, false, {{0, text.size()}}).ids, c.split);
    EXPECT_FALSE(tokenizer->splits_special_tokens());
    EXPECT_TRUE(tokenizer->given_of(3).empty());
    const auto splitting = tokenizer->with({.split_special_tokens = true});
    EXPECT_EQ(splitting->given_of(3), (ByteRanges{{0, 3}}));
    EXPECT_EQ(splitting->encode(text, false), c.found);  // whoever encodes says what is given
    EXPECT_EQ(splitting->files(), tokenizer->files());
    EXPECT_TRUE(
        splitting->with({.eos = c.found.size() > 2 ? tokenizer->id_to_token(c.found[1]) : std::nullopt})
            ->splits_special_tokens());
  }
}

int64_t count(const Tokenizer& tokenizer, const std::string& text, const ByteRanges& given, int32_t id) {
  const Ids ids = tokenizer.encode(text, false, given);
  EXPECT_EQ(tokenizer.encode_with_offsets(text, false, given).ids, ids);
  return std::ranges::count(ids, id);
}

TEST(SplitSpecialTokens, AreThoseThatBeginOrEndInAGivenPart) {
  Json json = tiny_json();
  json["added_tokens"] = {added(265, "<eot>", "special"), added(266, "<tool>")};
  const auto tokenizer = open(json);
  const std::string text = "he<eot>o<eot>";  // the first one is at 2, the second one at 8
  EXPECT_EQ(count(*tokenizer, text, {}, 265), 2);
  EXPECT_EQ(count(*tokenizer, text, {{0, 8}}, 265), 1);
  EXPECT_EQ(tokenizer->encode(text, false, {{0, 8}}).back(), 265);
  EXPECT_EQ(count(*tokenizer, text, {{8, 13}}, 265), 1);
  EXPECT_EQ(count(*tokenizer, text, {{0, 13}}, 265), 0);
  EXPECT_EQ(count(*tokenizer, text, {{0, 3}, {12, 13}}, 265), 0);
  EXPECT_EQ(count(*tokenizer, text, {{3, 6}, {9, 12}}, 265), 2);  // a template composes them around a name
  EXPECT_EQ(count(*tokenizer, "<tool>", {{0, 6}}, 266), 1);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, {{0, 13}}), true), text);
}

// The beginning of a token at the end of a given part does not take the token behind it.
TEST(SplitSpecialTokens, OneThatReachesOutOfAGivenPartHidesNoOther) {
  Json json = tiny_json();
  json["added_tokens"] = {added(265, "<eot>", "special"), added(266, "o<eot>h", "special")};
  const auto tokenizer = open(json);
  EXPECT_EQ(tokenizer->encode("o<eot>h", false), (Ids{266}));
  EXPECT_EQ(tokenizer->encode("o<eot>h", false, {{0, 1}}), (Ids{'o', 265, 'h'}));
}

// The beginning of a given part does not make another token of the one before it.
TEST(SplitSpecialTokens, OneThatReachesIntoAGivenPartHidesNoOther) {
  Json json = tiny_json();
  json["added_tokens"] = {added(265, "<eot>", "special"), added(266, "<eot>h", "special"),
                          added(267, "<eot>h<eot>", "special")};
  const auto tokenizer = open(json);
  EXPECT_EQ(tokenizer->encode("<eot>h", false), (Ids{266}));
  EXPECT_EQ(tokenizer->encode("<eot>h", false, {{5, 6}}), (Ids{265, 'h'}));
  EXPECT_EQ(tokenizer->encode("<eot>h<eot>", false), (Ids{267}));
  EXPECT_EQ(tokenizer->encode("<eot>h<eot>", false, {{6, 11}}).front(), 266);
  EXPECT_EQ(tokenizer->encode("<eot>h<eot>o<eot>", false, {{5, 12}}).front(), 265);
  EXPECT_EQ(count(*tokenizer, "<eot>h<eot>o<eot>", {{5, 12}}, 265), 2);
}

// Tokens that are found in the normalized text are given where their origin is: it is longer here.
TEST(SplitSpecialTokens, OfANormalizedTextAreFoundByTheirOrigin) {
  Json json = tiny_json();
  json["normalizer"] = {{"type", "Lowercase"}};
  Json token = added(265, "<EOT>", "special");
  token["normalized"] = true;
  json["added_tokens"] = Json::array({token});
  const auto tokenizer = open(json);
  const std::string text = "\xC4\xB0<EOT>y<EOT>";  // the second one is at 8, and at 9 when it is found
  EXPECT_EQ(count(*tokenizer, text, {}, 265), 2);
  EXPECT_EQ(count(*tokenizer, text, {{0, 8}}, 265), 1);
  EXPECT_EQ(count(*tokenizer, text, {{0, 9}}, 265), 0);
}

std::string render(std::string_view source, const Json& messages, RenderOptions options = {}) {
  options.variables["eos_token"] = "<e>";
  const ChatTemplate chat(source);
  const Rendered plain = chat.render(messages, options);
  EXPECT_TRUE(plain.given.empty()) << source;
  options.find_given = true;
  const Rendered rendered = chat.render(messages, options);
  EXPECT_EQ(rendered.text, plain.text) << source;
  EXPECT_EQ(rendered.generation, plain.generation) << source;
  return marked(rendered.text, rendered.given);
}

TEST(GivenText, IsKnownWhateverATemplateDoesWithIt) {
  const Json messages = {{{"role", "user"}, {"content", " Hi<e>\nyou "}}};
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"{% for m in messages %}<s>{{ m['role'] }}:{{ m.content }}{{ eos_token }}{% endfor %}",
       "<s>«user»:« Hi<e>\nyou »<e>"},
      {"{{ c | trim }}.", "«Hi<e>\nyou»."},
      {"{{ '<b>' + c.strip() + '<b>' }}", "<b>«Hi<e>\nyou»<b>"},
      {"{{ c.split('<e>')[0] }}<e>{{ c.split('<e>')[-1].lstrip() }}", "« Hi»<e>«you »"},
      {"{{ c[1:3] }}{{ c[1] }}{{ c[::-1] }}", "«HiH uoy\n>e<iH »"},
      {"{{ c.replace('<e>', '<x>') }}", "« Hi»<x>«\nyou »"},
      {"{{ c | replace('Hi', '<e>') }}", "« »<e>«<e>\nyou »"},
      {"{{ '-<e>-' | replace('-', c[:3]) }}", "« Hi»<e>« Hi»"},
      {"{{ messages | tojson }}", "[{\"«role»\": \"«user»\", \"«content»\": \"« Hi<e>»\\n«you »\"}]"},
      {"{{ messages[0].role }}{{ [messages[0].role] }}", "«user»['«user»']"},
      {"{{ c | upper }}{{ c.title() }}", "« HI<E>\nYOU  Hi<E>\nYou »"},
      {"{{ '%s|%s' % ('<e>', c[1:6]) }}", "<e>|«Hi<e>»"},
      {"{{ '{}<e>{:>6}'.format(messages[0].role, messages[0].role) }}", "«user»<e>  «user»"},
      {"{{ '{!r}'.format(messages[0].role) }}", "'«user»'"},
      {"{% set t %}<a>{{ messages[0].role }}{% endset %}{{ t }}{{ t[1:] }}", "<a>«user»a>«user»"},
      {"{% macro f(m) %}<{{ m.role }}>{% endmacro %}{{ f(messages[0]) }}", "<«user»>"},
      {"<{% generation %}{{ messages[0].role }}!{% endgeneration %}>", "<«user»!>"},
      {"{% filter trim %} {{ c }} {% endfilter %}<e>", "«Hi<e>\nyou»<e>"},
      {"{{ [messages[0].role, '<e>'] | join('+') }}", "«user»+<e>"},
      {"{{ ', '.join([messages[0].role, '<e>']) }}{{ c | list | join }}", "«user», <e>« Hi<e>\nyou »"},
      {"{{ ['<e>', '<e>'] | join(messages[0].role) }}", "<e>«user»<e>"},
      {"{{ 'x' ~ messages[0].role ~ '<e>' }}{{ messages[0].role * 2 }}", "x«user»<e>«useruser»"},
      {"{{ c | indent(2) }}", "« Hi<e>»\n  «you »"},
      {"{{ c | truncate(6, true, '<e>', 0) }}", "« Hi»<e>"},
      {"{{ c.center(13) }}|{{ c.splitlines()[0] }}|{{ c.partition('<e>')[2] }}",
       " « Hi<e>\nyou » |« Hi<e>»|«\nyou »"},
      {"{% set ns = namespace(t='<e>') %}{% set ns.t = ns.t + messages[0].role %}{{ ns.t }}", "<e>«user»"},
      {"{{ c | safe }}{{ c | string | length }}", "« Hi<e>\nyou »11"},
      {"{{ messages[0].role | e }}{{ '<' | e }}", "«user»&lt;"},
      {"{% for part in c.partition('<e>') %}{{ part }}|{% endfor %}", "« Hi»|«<e>»|«\nyou »|"},
      {"{% for part in c.rpartition('<e>') %}{{ part }}|{% endfor %}", "« Hi»|«<e>»|«\nyou »|"},
      {"{{ 'ab'.center(4, c[1]) }}", "«H»ab«H»"},
      {"{{ 'abcdefgh' | truncate(6, true, messages[0].role, 0) }}", "ab«user»"},
      {"{{ 'a\\nb' | indent(messages[0].role) }}", "a\n«user»b"},
      {"{{ ['<e>', 1] | tojson(separators=[messages[0].role, ':']) }}", "[\"<e>\"«user»1]"},
      {"{{ [1] | tojson(indent=messages[0].role) }}", "[\n«user»1\n]"},
      {"{{ dict(**messages[0]).keys() | join('<e>') }}", "«role»<e>«content»"},
      {"{% macro f() %}{{ kwargs | join('<e>') }}{% endmacro %}{{ f(**messages[0]) }}", "«role»<e>«content»"},
  };
  for (const auto& [source, want] : cases) {
    EXPECT_EQ(render("{% set c = messages[0].content %}" + std::string(source), messages), want) << source;
  }
}

TEST(GivenText, IsThatOfToolsAndOfTheRowsVariables) {
  const Json messages = {{{"role", "user"}, {"content", "a"}}};
  RenderOptions options;
  options.tools = {{{"name", "<e>"}}};
  options.variables["mood"] = "calm";
  options.row_variables["place"] = "<e>";
  EXPECT_EQ(render("{{ tools[0].name }}{{ eos_token }}{{ mood }}|{{ place }}", messages, options),
            "«<e>»<e>calm|«<e>»");
  options.row_variables["mood"] = "wild";
  EXPECT_EQ(render("{{ mood }}", messages, options), "«wild»");
  options.row_variables["tools"] = 1;
  const Error error = error_of([&] { render("", messages, options); });
  EXPECT_EQ(error.status(), Status::invalid_argument);
}

TEST(GivenText, IsCutWithTheFinalMessage) {
  const Json messages = {{{"role", "user"}, {"content", "q"}}, {{"role", "assistant"}, {"content", "ab "}}};
  RenderOptions options;
  options.continue_final_message = true;
  EXPECT_EQ(render("{% for m in messages %}<s>{{ m.content }}{{ eos_token }}{% endfor %}", messages, options),
            "<s>«q»<e><s>«ab »");
  EXPECT_EQ(render("{% for m in messages %}<s>{{ m.content | trim }}{{ eos_token }}{% endfor %}", messages,
                   options),
            "<s>«q»<e><s>«ab»");
}

// Many small parts end in the limit of a run, not in exhausted memory.
TEST(GivenText, IsCountedAsMemory) {
  RenderOptions options;
  options.find_given = true;
  const ChatTemplate chat("{{ (messages[0].content + '-') * 9000000 }}");
  const Error error = error_of([&] { chat.render({{{"role", "user"}, {"content", "a"}}}, options); });
  EXPECT_NE(error.message().find("MiB"), std::string::npos) << error.message();
}

// What two messages spell together is not a token.
TEST(GivenText, SpellsNoTokenAcrossMessages) {
  Json json = tiny_json();
  json["added_tokens"] = Json::array({added(265, "<eot>", "special")});
  const auto tokenizer = open(json);
  const ChatTemplate chat("{% for m in messages %}{{ m.content.replace('!', '') }}{% endfor %}<eot>");
  RenderOptions options;
  options.find_given = true;
  const Rendered rendered = chat.render(
      {{{"role", "user"}, {"content", "<eo"}}, {{"role", "user"}, {"content", "t><e!ot>"}}}, options);
  EXPECT_EQ(rendered.text, "<eot><eot><eot>");
  EXPECT_EQ(count(*tokenizer, rendered.text, {}, 265), 3);
  EXPECT_EQ(count(*tokenizer, rendered.text, rendered.given, 265), 1);
}

}  // namespace
}  // namespace trl::text
