// The template language: snippets with the output that Jinja2 3.1 gives in Hugging Face's environment, or our
// error. They lie in chat_template_cases.json: [source, output] or [source, null, error].
#include "base/error.h"
#include "support/golden.h"
#include "text/chat_template/chat_template.h"

namespace trl::text {
namespace {

std::string render(const std::string& source, const base::Json& messages, const base::Json& variables) {
  RenderOptions options;
  options.variables = variables;
  options.now = 1741530600;  // 2025-03-09T14:30:00
  return ChatTemplate(source).render(messages, options).text;
}

TEST(ChatTemplateLanguage, Snippets) {
  const base::Json file = base::read_json_file(TRL_SOURCE_DIR "/tests/text/chat_template_cases.json");
  int outputs = 0;
  int errors = 0;
  for (const base::Json& c : file["cases"]) {
    const auto source = c[0].get<std::string>();
    try {
      const std::string text = render(source, file["messages"], file["variables"]);
      ++outputs;
      EXPECT_EQ(base::Json(text), c[1]) << source;
    } catch (const Error& e) {
      ++errors;
      ASSERT_EQ(c.size(), 3u) << source << "\n" << e.message();
      EXPECT_EQ(e.message(), "chat template, " + c[2].get<std::string>()) << source;
      EXPECT_EQ(e.status(), Status::format) << source;
    }
  }
  EXPECT_EQ(outputs, 1305);
  EXPECT_EQ(errors, 322);
}

// Where we differ from Jinja2 on purpose.
TEST(ChatTemplateLanguage, Refusals) {
  const std::pair<std::string, std::string> cases[] = {
      {"\n{% include 'x' %}",
       "line 2: 'include' is not supported: a chat template cannot refer to other templates"},
      {"{% extends 'x' %}",
       "line 1: 'extends' is not supported: a chat template cannot refer to other templates"},
      {"{% import 'x' as y %}",
       "line 1: 'import' is not supported: a chat template cannot refer to other templates"},
      {"{% from 'x' import y %}",
       "line 1: 'from' is not supported: a chat template cannot refer to other templates"},
      {"{{ lipsum() }}", "line 1: lipsum() is random text; a chat template cannot use it"},
      {"{{ [1] | random }}",
       "line 1: the filter 'random' takes another item in each rendering; a chat template cannot use it"},
      {"{% if 1 %}{{ [1] | random }}{% endif %}",
       "line 1: the filter 'random' takes another item in each rendering; a chat template cannot use it"},
      {"{{ [[1]] | map('random') | list }}",
       "line 1: the filter 'random' takes another item in each rendering; a chat template cannot use it"},
      {"{{ '{0.bit_count}'.format(5) }}",
       "line 1: the attribute 'bit_count' of a value of the type int is not supported"},
      {"{{ (2.5).hex() }}", "line 1: the attribute 'hex' of a value of the type float is not supported"},
      {"{{ {'a': 1}.keys().mapping }}",
       "line 1: the attribute 'mapping' of a value of the type dict_keys is not supported"},
      {"{{ 2 ** 64 }}", "line 1: an integer outside 64 bits"},
      {"{{ 9223372036854775808 + 1 }}", "line 1: arithmetic with an integer outside 64 bits"},
      {"{{ 0xFFFFFFFFFFFFFFFFF }}", "line 1: the integer 0xFFFFFFFFFFFFFFFFF does not fit in 64 bits"},
      {"{{ [['<b>']] | map('striptags') | list }}", "line 1: the filter 'striptags' is not supported"},
      {"{{ 'a' | attr('encode') }}",
       "line 1: the attribute 'encode' of a value of the type str is not supported"},
      {"{{ '\\N{BULLET}' }}", "line 1: a named character \\N{...} is not supported; write \\uXXXX"},
      {"{{ '\\ud83d' }}", "line 1: an escape that is not a character"},
  };
  for (const auto& [source, message] : cases) {
    try {
      render(source, base::Json::array(), base::Json::object());
      ADD_FAILURE() << source;
    } catch (const Error& e) {
      EXPECT_EQ(e.message(), "chat template, " + message);
    }
  }
}

// Reading a template refuses them, even in a branch that no rendering reaches.
TEST(ChatTemplateLanguage, RefusedWhenRead) {
  std::vector<std::pair<std::string, std::string>> cases;
  for (const std::string name : {"filesizeformat", "forceescape", "pprint", "striptags", "urlencode",
                                 "urlize", "wordwrap", "xmlattr"}) {
    cases.emplace_back("{{ x | " + name + " }}", "the filter '" + name + "' is not supported");
    cases.emplace_back("{% filter " + name + "(1) %}{% endfilter %}", cases.back().second);
  }
  for (const std::string name : {"encode", "maketrans", "translate"})
    cases.emplace_back("{{ x." + name + "({97: 'b'}) }}",
                       "the method '" + name + "' of str is not supported");
  for (const std::string name : {"autoescape", "block"})
    cases.emplace_back("{% " + name + " x %}{% end" + name + " %}",
                       "'" + name + "' is not supported: no published chat template uses it");
  for (const auto& [source, message] : cases) {
    try {
      const ChatTemplate read("\n{% if false %}" + source + "{% endif %}");
      ADD_FAILURE() << source;
    } catch (const Error& e) {
      EXPECT_EQ(e.message(), "chat template, line 2: " + message);
    }
  }
  EXPECT_EQ(render("{{ {'encode': 1}.encode }}", base::Json::array(), base::Json::object()), "1");
}

TEST(ChatTemplateLanguage, LinesInErrors) {
  const std::pair<std::string, std::string> cases[] = {
      {"a\n\n{{ x.y }}", "line 3: 'x' is undefined"},
      {"a\r\nb\r\n{{ raise_exception('no') }}", "line 3: no"},
      {"{% macro m() %}\n{{ 1 / 0 }}\n{% endmacro %}\n\n{{ m() }}", "line 2: division by zero"},
      {"{#\n\n#}\n{{ 'a' | nope }}", "line 4: No filter named 'nope'."},
      {"{% if true %}\n\n{% for x in y %}\n",
       "line 3: unexpected end of template inside 'for': 'endfor' is missing"},
      {"\n{{ 'a\n", "line 2: a string is not closed"},
      {"\n{# a\n\n", "line 2: a comment is not closed: '#}' is missing"},
      {"\n{% raw %}\n\n", "line 2: raw is not closed: 'endraw' is missing"},
      {"\n{% if x\n\n", "line 2: a tag is not closed: '%}' is missing"},
      {"{{ x[\n1\n", "line 1: a tag is not closed: '}}' is missing"},
  };
  for (const auto& [source, message] : cases) {
    try {
      render(source, base::Json::array(), base::Json::object());
      ADD_FAILURE() << source;
    } catch (const Error& e) {
      EXPECT_EQ(e.message(), "chat template, " + message) << source;
    }
  }
}

}  // namespace
}  // namespace trl::text
