// The rules of preparation on rows made for them, with a tokenizer of one token a byte: what is trained, what
// is said of bad rows, and that neither threads nor blocks change anything.
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "data/prepare/sft.h"
#include "data/source/numpy_shuffle.h"
#include "support/error_of.h"
#include "support/interrupts.h"
#include "support/letter_tokenizer.h"
#include "support/warnings.h"

namespace trl::data::sft_prepare_test {
namespace {

using test::kBos;
using test::kEos;
using test::kMarkedTemplate;
using test::kPlainTemplate;
using test::LetterTokenizer;

struct Shop {
  explicit Shop(std::string chat_template = "", int threads = 2)
      : Shop(LetterTokenizer(std::move(chat_template)), threads) {}
  explicit Shop(LetterTokenizer given, int threads = 2) : tokenizer(std::move(given)), pool(threads) {
    context.tokenizer = &tokenizer;
    context.arguments = &arguments;
    context.log = &log;
    context.pool = &pool;
    context.memory = &memory;
  }
  std::unique_ptr<Examples> prepare(std::string jsonl) {
    return prepare_sft(*open_memory_source("jsonl", std::move(jsonl), "t.jsonl"), context);
  }
  Error error(std::string jsonl) {
    const int64_t before = memory.now();
    try {
      prepare(std::move(jsonl));
    } catch (const Error& error) {
      EXPECT_EQ(memory.now(), before);
      return error;
    }
    return Error(Status::ok, "no error");
  }
  LetterTokenizer tokenizer;
  config::DataArguments arguments;
  test::Warnings log;
  base::ThreadPool pool;
  base::MemoryCounter memory;
  PrepareContext context;
};

// A row as text: BOS '^', EOS '$', and '.' for each token that is not trained.
std::string shown(Examples& examples, int64_t row, bool labels) {
  const Example example = examples.read(row);
  std::string out;
  for (const int32_t id : labels ? example.labels : example.input_ids) {
    out.push_back(id == -100 ? '.' : id == kBos ? '^' : id == kEos ? '$' : static_cast<char>(id));
  }
  return out;
}

std::vector<std::string> trained(Examples& examples) {
  std::vector<std::string> out;
  for (int64_t row = 0; row < examples.size(); ++row) {
    EXPECT_EQ(shown(examples, row, false).size(), shown(examples, row, true).size());
    out.push_back(shown(examples, row, false) + " " + shown(examples, row, true));
  }
  return out;
}

using Rows = std::vector<std::string>;

TEST(Prepare, TextGetsEosUnlessItEndsWithIt) {
  Shop shop;
  EXPECT_EQ(
      trained(*shop.prepare("{\"text\":\"ab\"}\n{\"text\":\"c<e>\"}\n{\"text\":\"<e> \"}\n{\"text\":\"\"}")),
      (Rows{"^ab$ ^ab$", "^c$ ^c$", "^$ $ ^$ $", "^$ ^$"}));
  EXPECT_TRUE(shop.log.lines.empty());
}

TEST(Prepare, PromptAndCompletion) {
  Shop shop;
  const std::string rows =
      "{\"prompt\":\"ab\",\"completion\":\"cd\"}\n{\"prompt\":\"x\",\"completion\":\"<e>\"}";
  const auto examples = shop.prepare(rows);
  EXPECT_TRUE(examples->completion_only_loss());
  EXPECT_EQ(trained(*examples), (Rows{"^abcd$ ...cd$", "^x$ ..$"}));
  shop.arguments.completion_only_loss = false;
  EXPECT_EQ(trained(*shop.prepare(rows)), (Rows{"^abcd$ ^abcd$", "^x$ ^x$"}));
}

// TRL looks for the text field first; a completion gets its EOS only where there is none, or it has it
// already.
TEST(Prepare, EosGoesToTheTextFieldFirst) {
  Shop shop;
  EXPECT_EQ(trained(*shop.prepare("{\"prompt\":\"a\",\"completion\":\"b\",\"text\":\"t\"}\n"
                                  "{\"prompt\":\"a\",\"completion\":\"b\",\"text\":\"t<e>\"}")),
            (Rows{"^ab ..b", "^ab$ ..b$"}));
  EXPECT_EQ(trained(*shop.prepare("{\"completion\":\"b\",\"text\":\"t\"}")), (Rows{"^t$ ^t$"}));
}

// TRL 1.16 with transformers 5.23: a key whose value is null is not there for the template.
TEST(Prepare, ContentMayBeNull) {
  const std::string lines =
      "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}|{% if m.tool_calls %}{{ m.tool_calls | "
      "tojson "
      "}}{% endif %}{% endfor %}";
  const std::string there =
      "{% for m in messages %}{{ m.role }}:{% if 'content' in m %}IN{% endif %}{{ m.content | length if "
      "m.content "
      "is string }}|{% endfor %}";
  const std::string calls = R"([{"type":"function","function":{"name":"f","arguments":{"a":1}}}])";
  const std::string user = R"({"role":"user","content":"hi"})";
  const std::string called = R"({"role":"assistant","content":null,"tool_calls":)" + calls + "}";
  const std::string silent = R"({"role":"assistant","content":null})";
  const auto rendered = [](const std::string& chat_template, const std::string& row) {
    Shop shop(chat_template);
    return trained(*shop.prepare(row)).front();
  };
  const auto chat = [](const std::string& messages) { return "{\"messages\":[" + messages + "]}"; };
  const std::string call = R"([{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}])";
  const auto twice = [](const std::string& text) { return text + " " + text; };
  EXPECT_EQ(rendered(lines, chat(user + "," + called +
                                 R"(,{"role":"tool","content":"3"},{"role":"assistant","content":"ok"})")),
            twice("user:hi|assistant:|" + call + "tool:3|assistant:ok|"));
  EXPECT_EQ(rendered(lines, chat(user + "," + silent)), twice("user:hi|assistant:|"));
  EXPECT_EQ(rendered(lines, chat(user + R"(,{"role":"assistant"})")), twice("user:hi|assistant:|"));
  EXPECT_EQ(rendered(lines, R"({"prompt":[)" + user + R"(],"completion":[)" + called + "]}"),
            "user:hi|assistant:|" + call + " ........assistant:|" + call);
  EXPECT_EQ(rendered(there, chat(user + "," + silent)), twice("user:IN2|assistant:|"));
  EXPECT_EQ(
      Shop("{% for m in messages %}{{ m['role'] + m['content'] }}{% endfor %}").error(chat(silent)).status(),
      Status::format);
}

TEST(Prepare, ShortRowsOfCsvAreCounted) {
  Shop shop;
  const auto examples =
      prepare_sft(*open_memory_source("csv", "text,note\na,b\nc\nd,e\nf\n", "t.csv"), shop.context);
  EXPECT_EQ(trained(*examples), (Rows{"^a$ ^a$", "^c$ ^c$", "^d$ ^d$", "^f$ ^f$"}));
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_EQ(shop.log.lines[0],
            "t.csv: 2 of 4 rows have fewer cells than the header has names; the missing ones are null (the "
            "first: t.csv:3)");
  const auto lacking = [&] {
    prepare_sft(*open_memory_source("csv", "prompt,completion\na,b\nc\n", "t.csv"), shop.context);
  };
  EXPECT_EQ(
      test::error_of(lacking).second,
      "t.csv:3: column 'completion' is null, but what follows the prompt is expected; the row's columns: "
      "prompt, completion");
}

TEST(Prepare, BoundaryIsTheCommonPrefix) {
  Shop shop;
  EXPECT_EQ(trained(*shop.prepare("{\"prompt\":\"a<\",\"completion\":\"e>b\"}")), (Rows{"^a$b$ ..$b$"}));
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_NE(shop.log.lines[0].find("in 1 of 1 row"), std::string::npos);
  EXPECT_NE(shop.log.lines[0].find("(the first: t.jsonl:1: '<')"), std::string::npos);
}

TEST(Prepare, ColumnsAreRenamed) {
  Shop shop;
  shop.arguments.dataset_columns = {{"question", "prompt"}, {"answer", "completion"}};
  EXPECT_EQ(trained(*shop.prepare("{\"question\":\"a\",\"answer\":\"b\"}")), (Rows{"^ab$ ..b$"}));
  EXPECT_EQ(shop.error("{\"question\":\"a\",\"answer\":\"b\"}\n{\"question\":\"a\"}").message(),
            "t.jsonl:2: no column 'answer' to rename to 'completion' (dataset_columns); the row's columns: "
            "question");
  EXPECT_NE(shop.error("{\"question\":\"a\",\"answer\":\"b\",\"prompt\":1}")
                .message()
                .find("'question' cannot be renamed to 'prompt' (dataset_columns): there is such a column"),
            std::string::npos);
  shop.arguments.dataset_columns = {{"prompt", "completion"}, {"completion", "prompt"}};
  EXPECT_EQ(trained(*shop.prepare("{\"prompt\":\"b\",\"completion\":\"a\"}")), (Rows{"^ab$ ..b$"}));
}

TEST(Prepare, OnlySelectedColumnsAreRead) {
  Shop shop;
  const char* row = "{\"text\":\"b\",\"prompt\":\"a\",\"completion\":\"b\"}";
  shop.arguments.dataset_select_columns = {"text"};
  EXPECT_EQ(trained(*shop.prepare(row)), trained(*shop.prepare("{\"text\":\"b\"}")));
  shop.arguments.dataset_select_columns = {"prompt", "completion"};
  EXPECT_EQ(trained(*shop.prepare(row)), (Rows{"^ab$ ..b$"}));
  shop.arguments.dataset_select_columns = {"prompt", "answer"};
  EXPECT_NE(shop.error(row).message().find("t.jsonl:1: no column 'answer' (dataset_select_columns)"),
            std::string::npos);
}

// As Python's json.dumps writes them.
TEST(Prepare, NumbersThatAreNotFiniteMayStandInOtherColumns) {
  Shop shop;
  EXPECT_EQ(trained(*shop.prepare("{\"score\": NaN, \"text\":\"b\", \"range\": [-Infinity, Infinity]}")),
            trained(*shop.prepare("{\"text\":\"b\"}")));
  EXPECT_EQ(shop.error("{\"text\":\"a\"}\n{\"text\":NaN}").message(),
            "t.jsonl:2: column 'text' is a number, but text is expected; the row's columns: text");
  EXPECT_NE(
      shop.error("{\"text\":\"a\"}\n{\"a\":NaN, \"text\":}").message().find("t.jsonl:2:18: not valid JSON"),
      std::string::npos);
}

TEST(Prepare, Conversations) {
  Shop shop(kPlainTemplate);
  const Rows want = {"u:hi$a:yo$ u:hi$a:yo$"};
  EXPECT_EQ(trained(*shop.prepare(
                R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]})")),
            want);
  EXPECT_EQ(trained(*shop.prepare(
                R"({"conversations":[{"from":"user","value":"hi"},{"from":"assistant","value":"yo"}]})")),
            want);
  EXPECT_EQ(
      trained(*shop.prepare(
          R"({"prompt":[{"role":"user","content":"hi"}],"completion":[{"role":"assistant","content":"yo"}]})")),
      (Rows{"u:hi$a:yo$ .......yo$"}));
  // A prompt beside messages (as in some published datasets) is not read.
  EXPECT_EQ(
      trained(*shop.prepare(
          R"({"prompt":"hi","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]})")),
      want);
}

TEST(Prepare, AssistantOnly) {
  Shop shop(kMarkedTemplate);
  shop.arguments.assistant_only_loss = true;
  const std::string turns = R"([{"role":"user","content":"p"},{"role":"assistant","content":"q"},)"
                            R"({"role":"user","content":"r"},{"role":"assistant","content":"s"}])";
  EXPECT_EQ(trained(*shop.prepare("{\"messages\":" + turns + "}")),
            (Rows{"u:p$a:q$u:r$a:s$ ......q$......s$"}));
  // Both masks at once: the assistant's turns of the prompt are not trained.
  EXPECT_EQ(trained(*shop.prepare("{\"prompt\":" + turns +
                                  R"(,"completion":[{"role":"assistant","content":"t"}]})")),
            (Rows{"u:p$a:q$u:r$a:s$a:t$ ..................t$"}));
  EXPECT_TRUE(shop.log.lines.empty());
  const Error error = shop.error("{\"messages\":" + turns +
                                 R"(})"
                                 "\n"
                                 R"({"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(error.status(), Status::invalid_config);
  EXPECT_EQ(error.key(), "assistant_only_loss");
  EXPECT_NE(error.message().find("t.jsonl:2: no token of the row is the assistant's"), std::string::npos);
}

TEST(Prepare, AssistantOnlyWithoutTheStopToken) {
  Shop shop(
      "{% for m in messages %}{% generation %}{{ m['content'] }}{% endgeneration %}{{ eos_token }}{% endfor "
      "%}");
  shop.arguments.assistant_only_loss = true;
  EXPECT_EQ(trained(*shop.prepare(R"({"messages":[{"role":"assistant","content":"qr"}]})")), Rows{"qr$ qr."});
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_NE(shop.log.lines[0].find("may not learn to stop"), std::string::npos);
}

TEST(Prepare, TemplatesThatDoNotServe) {
  const std::string row = R"({"messages":[{"role":"user","content":"x"}]})";
  Shop none;
  none.arguments.template_keys = {"chat_template", "chat_template_path"};
  EXPECT_EQ(none.error(row).key(), "chat_template");
  Shop unmarked(kPlainTemplate);
  unmarked.arguments.assistant_only_loss = true;
  EXPECT_EQ(unmarked.error(row).status(), Status::unsupported);
  EXPECT_NE(unmarked.error(row).message().find("{% generation %}"), std::string::npos);
  Shop raising("{{ raise_exception('no such role') }}");
  EXPECT_NE(raising.error(row).message().find("t.jsonl:1: chat template"), std::string::npos);
  EXPECT_NE(raising.error(row).message().find("no such role"), std::string::npos);
}

TEST(Prepare, LossOptionsThatDoNotFitTheRows) {
  Shop shop;
  shop.arguments.completion_only_loss = true;
  EXPECT_EQ(shop.error("{\"text\":\"a\"}").key(), "completion_only_loss");
  shop.context.completion_only_loss = true;  // evaluation rows beside prompt-completion training rows
  EXPECT_EQ(trained(*shop.prepare("{\"text\":\"a\"}")), (Rows{"^a$ ^a$"}));
  shop.context.completion_only_loss = false;
  EXPECT_EQ(trained(*shop.prepare("{\"prompt\":\"a\",\"completion\":\"b\"}")), (Rows{"^ab$ ^ab$"}));
  Shop assistant;
  assistant.arguments.assistant_only_loss = true;
  EXPECT_EQ(assistant.error("{\"text\":\"a\"}").key(), "assistant_only_loss");
}

TEST(Prepare, IntegersBeyond64BitsReachTheTemplate) {
  Shop shop(
      "{% set big = '100000000000000000001' %}{{ 't' if tools[0].n | string == big else 'f' }}"
      "{{ 'k' if seed | string == big else 'f' }}{{ messages[0].tool_calls[0] | string == big }}");
  const std::string rest =
      R"("messages":[{"role":"user","content":"x","tool_calls":[100000000000000000001]}],)"
      R"("chat_template_kwargs":{"seed":100000000000000000001}})";
  for (const char* tools :
       {R"({"tools":[{"n":100000000000000000001}],)", R"({"tools":"[{\"n\":100000000000000000001}]",)"})
    EXPECT_EQ(trained(*shop.prepare(tools + rest)), (Rows{"tkTrue tkTrue"})) << tools;
}

TEST(Prepare, ToolsAndTemplateVariables) {
  Shop shop("{{ extra }}{% for t in tools %}{{ t['n'] }}{% endfor %}");
  const std::string messages = R"("messages":[{"role":"user","content":"x"}])";
  EXPECT_EQ(trained(*shop.prepare("{" + messages +
                                  R"(,"tools":"[{\"n\":\"T\"}]","chat_template_kwargs":{"extra":"E"}})")),
            (Rows{"ET ET"}));
  EXPECT_EQ(trained(*shop.prepare("{" + messages +
                                  R"(,"tools":[{"n":"a"},{"n":"b"}],"chat_template_kwargs":null})")),
            (Rows{"ab ab"}));
  EXPECT_NE(shop.error("{" + messages + R"(,"tools":{"n":1}})")
                .message()
                .find("t.jsonl:1: column 'tools' is an object"),
            std::string::npos);
  EXPECT_NE(shop.error("{" + messages + R"(,"tools":"[{"})").message().find("t.jsonl:1: column 'tools':1:"),
            std::string::npos);
  EXPECT_NE(
      shop.error("{" + messages + R"(,"tools":")" + std::string(5000, '[') + "\"}").message().find("'tools'"),
      std::string::npos);
  EXPECT_NE(
      shop.error("{" + messages + R"(,"chat_template_kwargs":[1]})").message().find("is a list of numbers"),
      std::string::npos);
  EXPECT_EQ(shop.error("{" + messages + R"(,"chat_template_kwargs":{"tokenize":false}})").status(),
            Status::unsupported);
}

TEST(Prepare, ToolsCallForTheTemplateOfTheirName) {
  const std::string row = R"({"messages":[{"role":"user","content":"x"}])";
  const std::string rows = row + R"(,"tools":[{"n":"a"}]})" + "\n" + row + "}\n" + row + R"(,"tools":null})" +
                           "\n" + row + R"(,"tools":[]})";
  Shop both(LetterTokenizer({{"default", "dd"}, {"tool_use", "tt"}, {"rag", "{%"}}));
  EXPECT_EQ(trained(*both.prepare(rows)), (Rows{"tt tt", "dd dd", "dd dd", "tt tt"}));
  Shop none(LetterTokenizer({{"rag", "rr"}, {"tool_use", "tt"}}));
  EXPECT_EQ(trained(*none.prepare(row + R"(,"tools":[{"n":"a"}]})")), (Rows{"tt tt"}));
  none.arguments.template_keys = {"chat_template", "chat_template_path"};
  EXPECT_EQ(none.error(row + "}").message(),
            "chat_template: t.jsonl:1 is conversational, and the tokenizer has the chat templates 'rag', "
            "'tool_use', but none named 'default'; give one through chat_template or chat_template_path, a "
            "template in the model's directory (chat_template.jinja or tokenizer_config.json), or rows of "
            "text");
  none.arguments.assistant_only_loss = true;
  EXPECT_EQ(none.error(row + R"(,"tools":[]})").key(), "assistant_only_loss");
}

TEST(Prepare, ColumnsThatContradictEachOtherAreAnError) {
  Shop shop(kPlainTemplate);
  EXPECT_EQ(
      shop.error(R"({"prompt":"a","completion":"b","messages":[{"role":"user","content":"c"}]})").message(),
      "t.jsonl:1: column 'prompt' is a string, but a list of messages (as in 'messages') is expected; the "
      "row's columns: prompt, completion, messages");
}

// TRL's order of formats stands, and is told once.
TEST(Prepare, ColumnsThatAreLeftAsideAreNamed) {
  Shop shop(kPlainTemplate);
  const std::string turns = R"([{"role":"user","content":"c"}])", said = R"([{"from":"user","value":"d"}])";
  const auto told = [&](const std::string& row) {
    shop.log.lines.clear();
    std::string shown = trained(*shop.prepare(row + "\n" + row)).at(0);
    shown = shown.substr(0, shown.find(' '));
    for (const std::string& line : shop.log.lines) shown += " | " + line.substr(0, line.find(" (dataset"));
    return shown;
  };
  EXPECT_EQ(told(R"({"text":"t","prompt":"a","completion":"b<e>"})"),
            "^ab$ | t.jsonl:1: completion and prompt are trained on; text could be too, and is ignored");
  EXPECT_EQ(told(R"({"text":"t","messages":)" + turns + "}"),
            "u:c$ | t.jsonl:1: messages is trained on; text could be too, and is ignored");
  EXPECT_EQ(told(R"({"conversations":)" + said + R"(,"messages":)" + turns + "}"),
            "u:d$ | t.jsonl:1: conversations is trained on; messages could be too, and is ignored");
  EXPECT_EQ(told(R"({"input_ids":[97,98],"text":"t"})"),
            "ab | t.jsonl:1: input_ids is trained on; text could be too, and is ignored");
  EXPECT_EQ(told(R"({"prompt":"c","messages":)" + turns + "}"), "u:c$");
  shop.context.completion_only_loss = false;  // evaluation rows: it has been told
  EXPECT_EQ(told(R"({"input_ids":[97,98],"text":"t"})"), "ab");
}

TEST(Prepare, ContentOfParts) {
  const std::string text = R"({"messages":[{"role":"user","content":[{"type":"text","text":"xy"}]}]})";
  Shop shop(kPlainTemplate);
  EXPECT_EQ(
      shop.error(text).message(),
      "t.jsonl:1: message 1: its content is a list of parts, which the chat template writes as it stands; "
      "give the content as text");
  Shop adding("{% for m in messages %}{{ m['role'] + m['content'] }}{% endfor %}");
  EXPECT_NE(adding.error(text).message().find("(the content of message 1 is a list of parts"),
            std::string::npos);
  Shop knowing("{% for m in messages %}{{ m['content'][0]['text'] }}{% endfor %}");
  EXPECT_EQ(trained(*knowing.prepare(text)), Rows{"xy xy"});
  EXPECT_EQ(
      knowing.error(R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})").message(),
      "t.jsonl:1: column 'messages': message 1: its content has a part of type \"image\"; this build trains "
      "on text alone");
}

TEST(Prepare, TruncationIsToldOnce) {
  Shop shop;
  shop.arguments.max_length = 4;
  const std::string rows =
      "{\"prompt\":\"a\",\"completion\":\"b\"}\n{\"prompt\":\"abcdef\",\"completion\":\"g\"}\n"
      "{\"prompt\":\"a\",\"completion\":\"bcdef\"}\n{\"prompt\":\"abc\",\"completion\":\"g\"}";
  const auto examples = shop.prepare(rows);
  EXPECT_EQ(trained(*examples), (Rows{"^ab$ ..b$", "^abc ..bc"}));
  EXPECT_EQ(examples->read(1).source_rows, std::vector<int64_t>{2});
  EXPECT_EQ(examples->total_tokens(), 8);
  EXPECT_EQ(shop.log.lines, (Rows{"t.jsonl: 2 of 4 rows dropped, since no trained token is left in them "
                                  "(the first: t.jsonl:2); 3 rows "
                                  "cut to max_length 4 (11 tokens lost)"}));
  shop.log.lines.clear();
  shop.arguments.truncation_keep_end = true;
  EXPECT_EQ(trained(*shop.prepare(rows)), (Rows{"^ab$ ..b$", "efg$ ..g$", "def$ def$", "bcg$ ..g$"}));
  EXPECT_EQ(shop.log.lines,
            (Rows{"t.jsonl: 3 of 4 rows cut to max_length 4 (11 tokens lost); 0 rows dropped"}));
  shop.arguments.truncation_keep_end = false;
  shop.arguments.max_length = 2;
  EXPECT_EQ(shop.error("{\"prompt\":\"abc\",\"completion\":\"d\"}").message(),
            "t.jsonl: nothing is left to train on: of 1 row, none keeps a trained token (max_length 2, 1 row "
            "cut)");
}

TEST(Prepare, BadRowsNameRowColumnAndWhatIsThere) {
  Shop shop(kPlainTemplate);
  const std::string good = "{\"text\":\"a\"}\n";
  EXPECT_EQ(shop.error("").message(), "t.jsonl: holds no rows");
  EXPECT_EQ(shop.error("\n \n").message(), "t.jsonl: holds no rows");
  EXPECT_EQ(shop.error("[]").message(), "t.jsonl: holds no rows");
  EXPECT_EQ(
      shop.error("{\"body\":\"x\",\"id\":1}").message(),
      "t.jsonl:1: no column to train on: 'text' (dataset_text_field), 'messages', 'prompt' and 'completion', "
      "'conversations' (from and value), 'instruction' and 'output' or 'input_ids' is expected; the row's "
      "columns: body, id "
      "(dataset_columns "
      "renames them)");
  EXPECT_EQ(shop.error(good + "{\"text\":5}").message(),
            "t.jsonl:2: column 'text' is a number, but text is expected; the row's columns: text");
  EXPECT_EQ(shop.error(good + good + "{\"text\":null,\"x\":1}").message(),
            "t.jsonl:3: column 'text' is null, but text is expected; the row's columns: text, x");
  EXPECT_EQ(shop.error(good + "{\"text\":[\"a\"]}").message(),
            "t.jsonl:2: column 'text' is a list of strings, but text is expected; the row's columns: text");
  EXPECT_EQ(shop.error("{\"messages\":\"hello\"}").message(),
            "t.jsonl:1: column 'messages' is a string, but a list of messages with 'role' and 'content' is "
            "expected; "
            "the row's columns: messages");
  EXPECT_NE(shop.error("{\"messages\":[]}").message().find("is an empty list"), std::string::npos);
  EXPECT_NE(shop.error("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},5]}")
                .message()
                .find("message 2 is a number"),
            std::string::npos);
  EXPECT_NE(shop.error("{\"prompt\":\"a\"}").message().find("no column 'completion'"), std::string::npos);
  EXPECT_NE(
      shop.error("{\"prompt\":\"a\",\"completion\":3}").message().find("column 'completion' is a number"),
      std::string::npos);
  EXPECT_NE(shop.error("{\"prompt\":\"a\",\"completion\":[{\"role\":\"x\"}]}")
                .message()
                .find("column 'prompt' is a string, but a list of messages (as in 'completion') is expected"),
            std::string::npos);
  EXPECT_NE(shop.error("{\"text\":\"a\",\"image\":\"x.png\"}").message().find("images"), std::string::npos);
  EXPECT_EQ(shop.error(good + "{\"prompt\":\"a\",\"completion\":\"b\"}").message(),
            "t.jsonl:2: the row's format is prompt and completion as text, but that of t.jsonl:1 is text; "
            "all rows must "
            "agree");
}

TEST(Prepare, TokenizedRows) {
  Shop shop;
  const auto message = [&](const std::string& row) {
    return shop.error("{\"input_ids\":[1]}\n" + row).message();
  };
  EXPECT_EQ(trained(*shop.prepare("{\"input_ids\":[97,98],\"labels\":[-100,99]}")), (Rows{"ab .c"}));
  EXPECT_EQ(trained(*shop.prepare("{\"input_ids\":[97,98],\"assistant_masks\":[0,true]}")), (Rows{"ab .b"}));
  EXPECT_NE(message("{\"input_ids\":[258]}").find("element 1: 258 is not a token id: 0 to 257"),
            std::string::npos);
  EXPECT_NE(message("{\"input_ids\":[1,-1]}").find("element 2: -1 is not a token id"), std::string::npos);
  EXPECT_NE(message("{\"input_ids\":[18446744073709551615]}").find("is not a token id"), std::string::npos);
  EXPECT_NE(message("{\"input_ids\":[1.5]}").find("1.5 is not a token id"), std::string::npos);
  EXPECT_NE(message("{\"input_ids\":[\"a\"]}").find("a string is not a token id"), std::string::npos);
  EXPECT_NE(message("{\"input_ids\":7}").find("'input_ids' is a number"), std::string::npos);
  EXPECT_NE(message("{\"input_ids\":[1],\"labels\":[1]}").find("has a column 'labels', unlike t.jsonl:1"),
            std::string::npos);
  EXPECT_NE(shop.error("{\"input_ids\":[1],\"labels\":[1,2]}")
                .message()
                .find("'labels' has 2 elements and 'input_ids' has 1;"),
            std::string::npos);
  EXPECT_NE(shop.error("{\"input_ids\":[1],\"assistant_masks\":[2]}").message().find("a list of 0 and 1"),
            std::string::npos);
  shop.context.vocab_size = 300;
  EXPECT_EQ(shop.prepare("{\"input_ids\":[1,299]}")->size(), 1);
  shop.arguments.skip_prepare_dataset = true;
  shop.arguments.max_length = 1;
  EXPECT_EQ(trained(*shop.prepare("{\"input_ids\":[97,98]}")), (Rows{"ab ab"}));  // not cut
  EXPECT_NE(shop.error("{\"text\":\"a\"}").message().find("no column 'input_ids'"), std::string::npos);
  EXPECT_NE(shop.error("{\"input_ids\":[1],\"completion_mask\":[1]}").message().find("no column 'labels'"),
            std::string::npos);
}

TEST(Prepare, DocumentsOfTokenizedRows) {
  Shop shop;
  const std::string row = R"({"input_ids":[97,98,99,100,101],"seq_lengths":[2,3]})";
  const auto documents = [](const std::unique_ptr<Examples>& examples) {
    std::vector<std::vector<int32_t>> lengths;
    for (int64_t i = 0; i < examples->size(); ++i) lengths.push_back(examples->read(i).seq_lengths);
    return lengths;
  };
  using Lengths = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(trained(*shop.prepare(row)), Rows{"abcde .b.de"});
  EXPECT_EQ(documents(shop.prepare(row)), (Lengths{{2, 3}}));
  shop.arguments.max_length = 4;
  EXPECT_EQ(documents(shop.prepare(row)), (Lengths{{2, 2}}));
  shop.arguments.truncation_keep_end = true;
  EXPECT_EQ(trained(*shop.prepare(row)), Rows{"bcde b.de"});
  EXPECT_EQ(documents(shop.prepare(row)), (Lengths{{1, 3}}));
  shop.context.packing = Packing::bfd_split;
  EXPECT_EQ(documents(shop.prepare(row)), (Lengths{{2, 2}, {1}}));
  shop.context.packing = Packing::wrapped;
  EXPECT_EQ(shop.error(row).key(), "packing_strategy");
  shop.context.packing = Packing::none;
  const auto message = [&](const std::string& lengths) {
    return shop.error("{\"input_ids\":[1,2],\"seq_lengths\":" + lengths + "}").message();
  };
  for (const std::string lengths : {"2", "[2,0]", "[3,-1]", "[1.5,0.5]", "[\"2\"]", "[18446744073709551615]"})
    EXPECT_NE(message(lengths).find("a list of the documents' lengths"), std::string::npos) << lengths;
  EXPECT_EQ(message("[1]"), "t.jsonl:1: column 'seq_lengths' adds up to 1, but 'input_ids' has 2 elements");
}

std::string many_rows(int count) {
  std::string rows;
  for (int i = 0; i < count; ++i) {
    rows += fmt::format("{{\"prompt\":\"{}\",\"completion\":\"{}\"}}\n", i * 7919,
                        std::string(static_cast<size_t>(i % 37), 'x'));
  }
  return rows;
}

TEST(Prepare, NothingDependsOnThreads) {
  Rows first;
  for (const int threads : {1, 2, 5}) {
    Shop shop("", threads);
    shop.arguments.max_length = 24;
    const auto examples = shop.prepare(many_rows(5000));
    Rows rows = trained(*examples);
    EXPECT_EQ(rows.size(), 5000u);
    if (first.empty()) first = rows;
    EXPECT_EQ(rows, first);
    // The error is that of the first bad row, whoever meets one first.
    EXPECT_TRUE(shop.error(many_rows(300) + "{\"prompt\":1,\"completion\":\"\"}\n" + many_rows(9) +
                           "{\"prompt\":1}\n")
                    .message()
                    .starts_with("t.jsonl:301: column 'prompt' is a number"));
  }
}

TEST(Prepare, ShuffleIsNumpys) {
  Shop shop;
  const auto plain = shop.prepare(many_rows(100));
  shop.arguments.shuffle_dataset = true;
  shop.context.seed = 7;
  const auto shuffled = shop.prepare(many_rows(100));
  const std::vector<int64_t> order = numpy_permutation(7, 100);
  for (int64_t row = 0; row < 100; ++row) {
    const int64_t from = order[static_cast<size_t>(row)];
    EXPECT_EQ(shuffled->read(row).source_rows, std::vector<int64_t>{from});
    EXPECT_EQ(shown(*shuffled, row, true), shown(*plain, from, true));
  }
}

TEST(Prepare, MemoryIsCountedAndBounded) {
  Shop shop;
  auto examples = shop.prepare(many_rows(20000));
  const int64_t bytes = shop.memory.now(base::MemoryKind::data);
  EXPECT_GE(bytes, 1);
  EXPECT_LE(bytes, 5 * examples->total_tokens());  // rows as they came and prepared ones
  examples.reset();
  EXPECT_EQ(shop.memory.now(), 0);
  shop.memory.set_limit(100000);
  EXPECT_EQ(shop.error(many_rows(20000)).status(), Status::out_of_memory);
}

TEST(Prepare, CancelStops) {
  Shop shop;
  test::Stops stops;
  const base::InterruptScope scope(&stops);
  EXPECT_EQ(shop.error(many_rows(10)).status(), Status::cancelled);
}

}  // namespace
}  // namespace trl::data::sft_prepare_test
