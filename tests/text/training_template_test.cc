// Training variants. The originals are other people's texts and are not in this repository: what TRL makes of
// them is recorded as hashes and spans, and checked where an original is at hand (in the recorded numbers, or
// in the folder that TRL_CHAT_TEMPLATES names, as TRL's own chat_templates). The edits themselves are tested
// on small templates of ours that are built as the originals are.
#include "text/chat_template/chat_template.h"

#include <cstdlib>
#include <set>

#include "base/files/hash.h"
#include "base/text/utf8.h"
#include "support/golden.h"
#include "text/texts.h"

namespace trl::text {
namespace {

constexpr int kTemplates = 31;

base::Json turns(std::initializer_list<std::pair<const char*, const char*>> given) {
  base::Json messages = base::Json::array();
  for (const auto& [role, content] : given) messages.push_back({{"role", role}, {"content", content}});
  return messages;
}

std::string trained(const char* variant, const std::string& source, const base::Json& messages,
                    const base::Json& variables = base::Json::object()) {
  RenderOptions options;
  options.variables = variables;
  const TrainingVariant* found = find_training_variant(variant);
  if (found == nullptr) return std::string("no variant is named ") + variant;
  const Rendered rendered = ChatTemplate(apply_training_variant(*found, source)).render(messages, options);
  return marked(rendered.text, rendered.generation);
}

TEST(TrainingTemplate, AnEndThatNamesTheNextSpeakerIsTheModels) {
  const std::string source = R"({%- for m in messages %}
{%- if m.role == 'user' -%}<|user|>
{{ m.content }}
{%- elif m.role == 'assistant' -%}
<|assistant|>
{{- '\n' + m.content }}
{%- elif m.role == 'tool' -%}
{%- if m.content is string -%}
    {{- '<|observation|>' }}
{{- '\n' + m.content }}
{%- else -%}
<|observation|>{% for part in m.content %}{{ part }}{% endfor -%}
{% endif -%}
{%- elif m.role == 'system' -%}
<|system|>
{{ m.content }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}
)";
  base::Json messages = turns({{"system", "s"},
                               {"user", "a"},
                               {"assistant", "b"},
                               {"tool", "c"},
                               {"assistant", "d"},
                               {"system", "e"},
                               {"user", "f"},
                               {"assistant", "g"}});
  messages[2]["tool_calls"] = {1};
  EXPECT_EQ(
      trained("glm4moe", source, messages),
      "<|system|>\ns<|user|>\na<|assistant|>«\nb<|observation|>»\nc<|assistant|>«\nd<|system|>»\ne<|user|>"
      "\nf<|assistant|>«\ng<|user|>»");
  messages = turns({{"user", "a"}, {"tool", "b"}, {"assistant", "c"}});
  messages[1]["content"] = {"x", "y"};
  EXPECT_EQ(trained("glm4moe", source, messages), "<|user|>\na<|observation|>xy<|assistant|>«\nc<|user|>»");
}

TEST(TrainingTemplate, EveryTurnKeepsItsThinking) {
  const std::string source = R"({%- macro render_content(content, count) %}{{ content }}{% endmacro %}
{%- set ns = namespace(last_query_index=2) %}
{%- for message in messages %}
    {%- set content = render_content(message.content, true)|trim %}
    {%- if message.role == 'assistant' and loop.index0 > ns.last_query_index %}
        {{- '<|im_start|>' + message.role + '\n<think></think>' + content + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}...{%- endif %}
)";
  const base::Json messages = turns({{"user", "a"}, {"assistant", " b "}, {"user", "c"}, {"assistant", "d"}});
  for (const char* name : {"qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "qwen3_8"}) {
    EXPECT_EQ(trained(name, source, messages),
              "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n«<think></think>b<|im_end|>\n»"
              "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n«<think></think>d<|im_end|>\n»")
        << name;
  }
}

TEST(TrainingTemplate, TheLineEndBehindATurnStays) {
  const base::Json messages = turns({{"user", "a"}, {"assistant", "b"}, {"user", "c"}});
  const std::string expected =
      "User: a<end_of_utterance>\nAssistant:« b<end_of_utterance>\n»User: c<end_of_utterance>\n";
  const std::string rest =
      ": {{ message['content'] }}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{% endif %}";
  const std::string loop = "{% for message in messages %}";
  EXPECT_EQ(trained("idefics3", loop + "{{message['role'].capitalize()}}" + rest, messages), expected);
  EXPECT_EQ(trained("smolvlm", loop + "{{message['role'] | capitalize}}" + rest, messages), expected);
}

TEST(TrainingTemplate, ABlankBehindTheEndIsNotTrained) {
  const std::string source =
      "{% for message in messages %}{% if message['role'] == 'user' %}[{{ message['content'] }}]{% else %}"
      "{{ ' ' + message['content'][0]['text'] + '</s> '}}{% endif %}{% endfor %}";
  base::Json messages = turns({{"user", "a"}, {"assistant", "b"}, {"user", "c"}});
  messages[1]["content"] = {{{"type", "text"}, {"text", "b"}}};
  EXPECT_EQ(trained("llava_next", source, messages), "[a]« b</s>» [c]");
}

TEST(TrainingTemplate, WithoutABosNoneIsWritten) {
  const std::string source =
      "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + "
      "'<|end_header_id|>\n\n' + message['content'] %}{% if loop.first %}{% set content = bos_token + "
      "content "
      "%}{% endif %}{{ content }}{% endfor %}";
  const base::Json messages = turns({{"user", "a"}, {"assistant", "b"}});
  const std::string expected =
      "<|start_header_id|>user<|end_header_id|>\n\na<|start_header_id|>assistant<|end_header_id|>\n\n«b»";
  EXPECT_EQ(trained("llama3", source, messages), expected);
  EXPECT_EQ(trained("llama3", source, messages, {{"bos_token", "<s>"}}), "<s>" + expected);
}

TEST(TrainingTemplate, AllOfATurnOrAllBehindItsHeader) {
  const base::Json messages = turns({{"user", "a"}, {"assistant", "b"}});
  EXPECT_EQ(trained("muse_glimmer",
                    "{%- for message in messages -%}{%- set role = message['role'] -%}"
                    "{{ '<|start|>' + role + message['content'] }}{%- endfor -%}\n"
                    "{%- if add_generation_prompt -%}{%- endif -%}",
                    messages),
            "<|start|>usera«<|start|>assistantb»");
  EXPECT_EQ(trained("qwen2_5_vl",
                    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
                    "{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{% endif %}",
                    messages),
            "<|im_start|>user\na\n<|im_start|>assistant\n«b\n»");
  EXPECT_EQ(
      trained("lfm2_v2",
              "{%- for message in messages -%}\n\t{{- \"<|im_start|>\" + message[\"role\"] + \"\\n\" -}}"
              "\n\t{{- message.content -}}\n{%- endfor -%}\n"
              "{%- if add_generation_prompt -%}{%- endif -%}",
              messages),
      "<|im_start|>user\na<|im_start|>assistant\n«b»");
  for (const char* name : {"nemotron_3_nano", "nemotron_3_super"}) {
    EXPECT_EQ(trained(name,
                      "{%- for message in messages %}\n    {%- if message.role == \"assistant\" %}"
                      "{{- '<|im_start|>assistant\\n' ~ message.content }}{%- else %}"
                      "{{- message.content }}{%- endif %}\n{%- endfor %}\n\n{%- if add_generation_prompt %}"
                      "{%- endif %}",
                      messages),
              "a<|im_start|>assistant\n«b»")
        << name;
  }
}

TEST(TrainingTemplate, WhatToolsAnswerInsideATurnIsNotTrained) {
  const std::string source = R"({%- set ns = namespace(prev_message_type=none) -%}
{%- for message in messages -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {%- set thinking_text = message.reasoning_content -%}
    {%- if thinking_text -%}
        {{- '<|channel>thought\n' + thinking_text + '\n<channel|>' -}}
    {%- endif -%}
    {%- if message.get('tool_calls') -%}
                {%- for tool_call in message.get('tool_calls') -%}
                    {{- '<' ~ tool_call ~ '>' -}}
                {%- endfor -%}
                {%- set ns.prev_message_type = 'tool_call' -%}
        {{- '(answer)' -}}
    {%- endif -%}
    {%- set captured_content = message['content'] -%}
            {{- captured_content -}}
    {%- set next_nt = namespace(found=false) -%}
        {%- if not (false and not next_nt.found) -%}
            {{- '<turn|>\n' -}}
        {%- endif -%}
{%- endfor -%}
)";
  base::Json messages = turns({{"user", "a"}, {"assistant", "b"}});
  messages[1]["reasoning_content"] = "r";
  messages[1]["tool_calls"] = {1, 2};
  EXPECT_EQ(trained("diffusion_gemma", source, messages),
            "a<turn|>\n«<|channel>thought\nr\n<channel|>»«<1><2>»(answer)«b»«<turn|>\n»");
}

// Empty: the original is not at hand.
std::string original(const std::string& name) {
  const std::string golden = test::golden_path("chat_templates/" + name + "/template.jinja");
  if (!golden.empty()) return base::read_file(golden);
  const char* folder = std::getenv("TRL_CHAT_TEMPLATES");
  const std::string path = folder == nullptr ? std::string() : std::string(folder) + "/" + name + ".jinja";
  return base::file_exists(path) ? base::read_file(path) : std::string();
}

using Spans = std::vector<std::pair<size_t, size_t>>;

void check(const std::string& name, const std::string& source, const base::Json& given, const base::Json& c) {
  RenderOptions options;
  options.now = 1741530600;  // 2025-03-09T14:30:00
  options.add_generation_prompt = given["add_generation_prompt"].get<bool>();
  options.tools = given["tools"];
  options.variables = given["variables"];
  if (c.is_null()) {
    EXPECT_ANY_THROW(ChatTemplate(source).render(given["messages"], options)) << name;
    return;
  }
  const Rendered rendered = ChatTemplate(source).render(given["messages"], options);
  EXPECT_EQ(base::sha256_hex(rendered.text), c["sha256"].get<std::string>()) << name << "\n" << rendered.text;
  Spans spans;
  for (const auto& [begin, end] : rendered.generation) {
    const std::string_view text = rendered.text;
    spans.emplace_back(base::count_code_points(text.substr(0, begin)),
                       base::count_code_points(text.substr(0, end)));
  }
  EXPECT_EQ(spans, c["spans"].get<Spans>()) << name << "\n" << rendered.text;
}

TEST(TrainingTemplate, EveryTemplateThatTrlTrainsIsKnown) {
  const base::Json recorded = test::golden_json("chat_templates/training_variants.json");
  EXPECT_EQ(recorded["templates"].size(), static_cast<size_t>(kTemplates));
  std::set<const TrainingVariant*> found;
  for (const auto& [name, record] : recorded["templates"].items()) {
    const TrainingVariant* variant = find_training_variant(name);
    ASSERT_NE(variant, nullptr) << name;
    EXPECT_EQ(variant->sha256, record["original_sha256"].get<std::string>()) << name;
    EXPECT_EQ(find_training_variant(record["original_sha256"].get<std::string>()), variant) << name;
    found.insert(variant);
  }
  EXPECT_EQ(found.size(), static_cast<size_t>(kTemplates));
}

TEST(PublishedTemplates, TextAndSpansOfTheOriginalsAreThoseOfTrl) {
  if (original("glm4moe").empty())
    GTEST_SKIP() << "no original templates: TRL_CHAT_TEMPLATES names no folder that holds glm4moe.jinja";
  const base::Json recorded = test::golden_json("chat_templates/training_variants.json");
  for (const auto& [name, record] : recorded["templates"].items()) {
    const std::string source = original(name);
    if (source.empty()) continue;
    const std::optional<std::string> variant = training_template(source);
    ASSERT_TRUE(variant.has_value()) << name;
    for (size_t i = 0; i < record["cases"].size(); ++i)
      check(name, *variant, recorded["conversations"][i], record["cases"][i]);
  }
}

}  // namespace
}  // namespace trl::text
