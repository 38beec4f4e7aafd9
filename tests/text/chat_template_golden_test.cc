// Recorded renderings: text, failures, spans of what the model writes, and our training variants of known
// templates. Templates of published models lie beside the whole collection alone; those in tests/golden were
// written for it.
#include <set>

#include "base/error.h"
#include "base/text/utf8.h"
#include "support/golden.h"
#include "text/chat_template/chat_template.h"

namespace trl::text {
namespace {

constexpr int kDirectories = 34;
const std::vector<std::string> kOwn = {
    "alternating", "chatml_generation", "chatml_plain", "dated",   "header_turns", "mirrored", "parts",
    "schema",      "spm_turns",         "tagged",       "thoughts"};
constexpr int kCasesPerDirectory = 30;
constexpr int64_t kFrozenNow = 1741530600;  // 2025-03-09T14:30:00

using Spans = std::vector<std::pair<size_t, size_t>>;

std::string template_path(const std::string& name) { return "chat_templates/" + name + "/template.jinja"; }

Spans in_code_points(const Rendered& rendered) {
  const auto convert = [&](size_t byte) {
    return base::count_code_points(
        std::string_view(rendered.text).substr(0, std::min(byte, rendered.text.size())));
  };
  Spans spans;
  for (const auto& [begin, end] : rendered.generation) spans.emplace_back(convert(begin), convert(end));
  return spans;
}

class Golden {
 public:
  Golden() {
    const base::Json file = test::golden_json("chat_templates/conversations.json");
    for (const auto& c : file["conversations"]) conversations_[c["name"].get<std::string>()] = c;
  }

  // Renders the cases of a directory with a template; returns their number.
  int check(const std::string& directory, const ChatTemplate& chat_template) const {
    const base::Json recorded = test::golden_json("chat_templates/" + directory + "/cases.json");
    EXPECT_EQ(recorded["frozen_now"], "2025-03-09T14:30:00");
    int count = 0;
    for (const base::Json& c : recorded["cases"]) {
      SCOPED_TRACE(directory + ": " + c["conversation"].get<std::string>());
      check_case(recorded, c, chat_template);
      ++count;
    }
    return count;
  }

 private:
  void check_case(const base::Json& recorded, const base::Json& c, const ChatTemplate& chat_template) const {
    const base::Json& conversation = conversations_.at(c["conversation"].get<std::string>());
    RenderOptions options;
    options.now = kFrozenNow;
    options.add_generation_prompt = c["add_generation_prompt"].get<bool>();
    if (c["tools"].get<bool>()) options.tools = conversation["kwargs"]["tools"];
    options.variables = recorded["special_tokens"];
    for (const auto& [name, value] : c["kwargs"].items()) {
      if (name == "continue_final_message") {
        options.continue_final_message = value.get<bool>();
      } else {
        options.variables[name] = value;
      }
    }
    if (!c.contains("rendered")) {
      check_failure(c["error"], [&] { chat_template.render(conversation["messages"], options); });
      return;
    }
    const Rendered rendered = chat_template.render(conversation["messages"], options);
    EXPECT_EQ(rendered.text, c["rendered"].get<std::string>());
    if (!c.contains("assistant_char_ranges")) return;
    Spans expected = c["assistant_char_ranges"].get<Spans>();
    if (options.continue_final_message) {  // recorded before the text was cut
      const size_t end = base::count_code_points(rendered.text);
      for (auto& span : expected) span = {std::min(span.first, end), std::min(span.second, end)};
    }
    EXPECT_EQ(in_code_points(rendered), expected);
  }

  template <typename Render>
  static void check_failure(const base::Json& error, Render render) {
    try {
      render();
      ADD_FAILURE() << "no error; expected " << error;
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), Status::format);
      if (error["type"] != "TemplateError" && error["type"] != "UndefinedError") return;
      EXPECT_NE(e.message().find(error["message"].get<std::string>()), std::string::npos) << e.message();
    }
  }

  std::map<std::string, base::Json> conversations_;
};

void check_directory(const Golden& golden, const std::string& directory) {
  const ChatTemplate chat_template(base::read_file(test::golden_path(template_path(directory))));
  EXPECT_EQ(chat_template.has_generation_markers(),
            test::golden_json("chat_templates/" + directory + "/cases.json")["has_generation_markers"]);
  EXPECT_EQ(golden.check(directory, chat_template), kCasesPerDirectory) << directory;
}

TEST(ChatTemplateGolden, RendersEveryCaseOfItsOwnTemplates) {
  const Golden golden;
  for (const std::string& directory : kOwn) check_directory(golden, directory);
}

void expect_every_case() {
  const Golden golden;
  const base::Json index = test::golden_json("chat_templates/index.json");
  for (const auto& name : index["templates"]) check_directory(golden, name);
  EXPECT_EQ(index["templates"].size(), size_t{kDirectories});
}

void expect_training_variants() {
  const Golden golden;
  for (const std::string name : {"llama3", "qwen2_5", "qwen3", "gemma", "gemma3", "phi3", "phi3_5",
                                 "deepseekv3", "deepseek_r1_distill", "gptoss"}) {
    const auto variant = training_template(base::read_file(test::golden_path(template_path(name))));
    ASSERT_TRUE(variant.has_value()) << name;
    const ChatTemplate chat_template(*variant);
    EXPECT_TRUE(chat_template.has_generation_markers());
    EXPECT_EQ(golden.check(name + "_training", chat_template), kCasesPerDirectory);
  }
}

// A variant must mark the assistant's turns and change nothing in what is rendered.
void expect_text_kept_by_variants() {
  const base::Json messages = {{{"role", "user"}, {"content", "Hi"}},
                               {{"role", "assistant"}, {"content", " Yes é "}}};
  const std::map<std::string, std::string> written = {
      {"qwen3_instruct_2507", " Yes é <|im_end|>\n"},
      {"cohere", "Yes é<|END_OF_TURN_TOKEN|>"},
      {"cohere2", " Yes é <|END_RESPONSE|><|END_OF_TURN_TOKEN|>"},
      {"lfm2", " Yes é <|im_end|>\n"}};
  for (const auto& [name, expected] : written) {
    const std::string source = base::read_file(test::golden_path(template_path(name)));
    const auto variant = training_template(source);
    ASSERT_TRUE(variant.has_value()) << name;
    RenderOptions options;
    options.variables = {{"bos_token", "<s>"}};
    const Rendered rendered = ChatTemplate(*variant).render(messages, options);
    EXPECT_EQ(rendered.text, ChatTemplate(source).render(messages, options).text) << name;
    ASSERT_EQ(rendered.generation.size(), 1u) << name;
    const auto [begin, end] = rendered.generation[0];
    EXPECT_EQ(rendered.text.substr(begin, end - begin), expected) << name;
  }
}

void expect_no_variant_of_unknown_ones() {
  EXPECT_FALSE(training_template("").has_value());
  EXPECT_FALSE(training_template("{{ messages }}").has_value());
  for (const std::string name : {"smollm2", "chatml_plain", "llama3_1", "llama3_training"})
    EXPECT_FALSE(training_template(base::read_file(test::golden_path(template_path(name)))).has_value())
        << name;
  std::string changed = base::read_file(test::golden_path(template_path("llama3")));
  EXPECT_TRUE(training_template(changed).has_value());
  EXPECT_FALSE(training_template(changed + "\n").has_value());
}

// The templates of the small test models: those of the assistant-only trajectories are usable as they are or
// known.
void expect_templates_of_small_models() {
  const auto source = [](const std::string& model) {
    return base::read_file(test::golden_path("models/" + model + "/chat_template.jinja"));
  };
  EXPECT_TRUE(ChatTemplate(source("qwen2")).has_generation_markers());
  for (const std::string model : {"llama", "llama3", "qwen3"}) {
    EXPECT_FALSE(ChatTemplate(source(model)).has_generation_markers()) << model;
    EXPECT_TRUE(training_template(source(model)).has_value()) << model;
  }
}

TEST(PublishedTemplates, AreRenderedAndTrainedAsRecorded) {
  TRL_NEED_GOLDEN("chat_templates/index.json");
  expect_every_case();
  expect_training_variants();
  expect_text_kept_by_variants();
  expect_no_variant_of_unknown_ones();
  expect_templates_of_small_models();
}

}  // namespace
}  // namespace trl::text
