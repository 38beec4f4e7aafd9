// Hostile templates and data: every one of them ends in an error, soon, and within bounded memory.
#include <thread>

#include "base/error.h"
#include "support/golden.h"
#include "support/interrupts.h"
#include "text/chat_template/chat_template.h"
#include "text/texts.h"

namespace trl::text {
namespace {

// The message of the error that a template ends in.
std::string failure(const std::string& source, const base::Json& variables = base::Json::object()) {
  std::string message = "no error";
  try {
    RenderOptions options;
    options.variables = variables;
    ChatTemplate(source).render(base::Json::array(), options);
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), Status::format);
    message = e.message();
  }
  return message;
}

TEST(ChatTemplateLimits, ALongRenderingIsCancelledWithin) {
  const ChatTemplate loops(
      "{% for a in range(1000) %}{% for b in range(1000) %}{% set c = a %}{% endfor %}{% endfor %}");
  EXPECT_GE(test::polls_of([&] { loops.render(base::Json::array(), {}); }), 60);
}

TEST(ChatTemplateLimits, Nesting) {
  const std::string deep = "chat template, line 1: expressions or blocks nested more than 100 levels deep";
  for (const std::string open : {"(", "[", "{1:", "f(", "a[", "a is eq(", "a|f("})
    EXPECT_NE(failure("{{ " + repeated(open, 100000)), "no error");
  EXPECT_EQ(failure("{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}"), deep);
  EXPECT_EQ(failure("{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}"), deep);
  EXPECT_EQ(failure("{{ " + repeated("not ", 5000) + "x }}"), deep);
  EXPECT_EQ(failure("{{ " + repeated("- ", 5000) + "1 }}"), deep);
  EXPECT_EQ(failure(repeated("{% if x %}", 5000) + repeated("{% endif %}", 5000)), deep);
  EXPECT_EQ(failure(repeated("{% for x in y %}", 5000)), deep);
  EXPECT_EQ(failure("{{ 1" + repeated(" if 1 else 1", 5000) + " }}"), deep);
  const std::string tall = "chat template, line 1: an expression of too many nested operations";
  EXPECT_EQ(failure("{{ 1" + repeated(" + 1", 5000) + " }}"), tall);
  EXPECT_EQ(failure("{{ x" + repeated(".a", 5000) + " }}"), tall);
  EXPECT_EQ(failure("{{ x" + repeated("[0]", 5000) + " }}"), tall);
  EXPECT_EQ(failure("{{ x" + repeated("()", 5000) + " }}"), tall);
  EXPECT_EQ(failure("{{ x" + repeated("|upper", 5000) + " }}"), tall);
  EXPECT_EQ(failure("{{ x" + repeated(" and x", 5000) + " }}"), tall);
}

TEST(ChatTemplateLimits, WideIsNotDeep) {
  std::string source = "{{ ''";
  for (int i = 0; i < 5000; ++i) source += " ~ 'a'";
  EXPECT_EQ(ChatTemplate(source + " }}").render(base::Json::array(), {}).text.size(), 5000u);
  std::string chain = "{% if x == 0 %}";
  for (int i = 0; i < 5000; ++i) chain += "{% elif x == 1 %}";
  EXPECT_EQ(ChatTemplate(chain + "{% else %}end{% endif %}").render(base::Json::array(), {}).text, "end");
}

TEST(ChatTemplateLimits, Recursion) {
  const std::string levels = "chat template, line 1: a recursion of more than 500 levels";
  EXPECT_EQ(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), levels);
  EXPECT_EQ(failure("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"),
            levels);
  EXPECT_EQ(
      failure(
          "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}{{ m() }}"),
      levels);
  EXPECT_EQ(failure("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), levels);
  EXPECT_EQ(failure("{% set ns = namespace() %}{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}"), levels);
}

TEST(ChatTemplateLimits, EndlessWork) {
  const std::string steps = "chat template, line 1: more than 50000000 steps; the template does not end";
  EXPECT_EQ(failure("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}")
                .substr(0, 22),
            "chat template, line 1:");
  EXPECT_EQ(failure("{% set r = range(1000) %}{% for a in r %}{% for b in r %}{% for c in r %}{% if a == b %}"
                    "{% endif %}{% endfor %}{% endfor %}{% endfor %}"),
            steps);
  EXPECT_EQ(
      failure("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"),
      steps);
  EXPECT_EQ(failure("{{ range(100001) }}"), "chat template, line 1: range() of more than 100000 items");
  EXPECT_EQ(failure("{{ range(-9223372036854775807, 9223372036854775807) }}"),
            "chat template, line 1: range() of more than 100000 items");
  EXPECT_EQ(failure("{{ range(0, 9, 0) }}"), "chat template, line 1: range() arg 3 must not be zero");
}

TEST(ChatTemplateLimits, TextBombs) {
  const std::string text = "chat template, line 1: a text of more than 64 MiB";
  const std::string total = "chat template, line 1: more than 512 MiB of intermediate text and lists";
  EXPECT_EQ(failure("{{ 'a' * 1000000000000 }}"), text);
  EXPECT_EQ(failure("{{ 'ab' * 9223372036854775807 }}"), text);
  EXPECT_EQ(
      failure(
          "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
      text);
  EXPECT_EQ(failure("{{ '%1000001d' % 1 }}"),
            "chat template, line 1: a width or precision of more than 1000000");
  EXPECT_EQ(failure("{{ '%.1000000f' % 1 }}"), "chat template, line 1: a precision of more than 1000");
  EXPECT_EQ(failure("{{ '{:>1000001}'.format(1) }}"),
            "chat template, line 1: a width or precision of more than 1000000");
  EXPECT_EQ(failure("{{ 'a'.center(9223372036854775807) }}"), text);
  EXPECT_EQ(failure("{{ 'a'.zfill(9223372036854775807) }}"), text);
  EXPECT_EQ(failure("{{ '\t'.expandtabs(9223372036854775807) }}"), text);
  EXPECT_EQ(failure("{% set a = 'a' * 1000000 %}{{ a | replace('a', a) }}"), text);
  EXPECT_EQ(failure("{% set a = 'a' * 1000000 %}{{ ([a] * 100) | join(a) }}"), text);
  EXPECT_EQ(failure("{% set a = 'a' * 1000000 %}{% for i in range(1000) %}{{ a }}{% endfor %}"), text);
  EXPECT_EQ(failure("{% set a = 'a' * 1000000 %}{% for i in range(1000) %}{% set b = a + 'b' %}{% endfor %}"),
            total);
}

TEST(ChatTemplateLimits, ListBombs) {
  const std::string total = "chat template, line 1: more than 512 MiB of intermediate text and lists";
  const std::string deep = "chat template, line 1: lists and dicts nested more than 200 levels deep";
  EXPECT_EQ(failure("{{ [1] * 1000000000000 }}"), "chat template, line 1: a list of more than 4194304 items");
  EXPECT_EQ(failure("{{ [1, 2] * 9223372036854775807 }}"),
            "chat template, line 1: a list of more than 4194304 items");
  EXPECT_EQ(failure("{{ [1] | batch(9223372036854775807, 0) | list }}"), total);
  EXPECT_EQ(failure("{{ [1] | slice(9223372036854775807) | list }}"), total);
  EXPECT_EQ(
      failure(
          "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
      total);
  EXPECT_EQ(
      failure("{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}"),
      deep);
  EXPECT_EQ(
      failure(
          "{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% set ns.x = {1: ns.x} %}{% endfor %}"),
      deep);
  // small in memory, exponential when walked
  const std::string shared =
      "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
  for (const std::string walk : {"{{ ns.x }}", "{{ ns.x | tojson }}"})
    EXPECT_NE(failure(shared + walk).find("line 1: more than 50000000 steps"), std::string::npos) << walk;
  EXPECT_NE(
      failure("{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}"
              "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}"),
      "no error");
}

// Filters and methods that look at every character end soon, whatever they are given.
TEST(ChatTemplateLimits, LongTexts) {
  for (const std::string expression :
       {"('é' * 200000).title()", "('Σ' * 200000).lower()", "(\"Σ'\" * 200000).lower()",
        "('٣' * 200000) | int", "'{a}'.format_map({'a': 'a' * 500000})"})
    EXPECT_EQ(failure("{{ (" + expression + ") is defined }}"), "no error") << expression;
}

TEST(ChatTemplateLimits, QuadraticSearches) {
  const std::string setup = "{% set a = 'a' * 30000000 %}{% set n = 'a' * 7000000 + 'b' + 'a' * 7000000 %}";
  for (const std::string search :
       {"n in a", "a.find(n)", "a.rfind(n)", "a.count(n)", "a.split(n) | length", "a.rsplit(n) | length",
        "a.replace(n, 'x') | length", "a.partition(n) | length"}) {
    SCOPED_TRACE(search);
    const std::string message = failure(setup + "{{ (" + search + ") is defined }}");
    EXPECT_TRUE(message == "no error" || message.find("line 1: more than") != std::string::npos) << message;
  }
  EXPECT_NE(failure("{% set a = 'a' * 30000000 %}{{ a.strip('b' * 30000000 + 'a') }}"), "no error");
}

// Objects may refer to each other in a circle; they go with the render.
TEST(ChatTemplateLimits, CircularObjects) {
  const ChatTemplate chat_template(
      "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{% macro m() %}{% endmacro %}"
      "{% set a.m = m %}{% set a.list = [a, b] %}{{ a.b.a.b.a.list | length }}{{ a }}"
      "{% set ns = namespace(p=none) %}{% for i in range(50000) %}{% set ns.p = namespace(p=ns.p) %}{% "
      "endfor %}"
      "{% for i in [1] %}{% set ns.loop = loop %}{% macro k() %}{{ i }}{% endmacro %}{% set ns.k = k %}{% "
      "endfor %}"
      "{{ ns.loop.last }}{{ ns.loop.length }}{{ ns.k() }}");
  EXPECT_EQ(chat_template.render(base::Json::array(), {}).text, "2<Namespace>True11");
}

TEST(ChatTemplateLimits, HostileData) {
  base::Json nested = 1;
  for (int i = 0; i < 1000; ++i) nested = base::Json::array({nested});
  EXPECT_EQ(failure("{{ x }}", {{"x", nested}}),
            "chat template, line 1: the given data is nested more than 200 levels deep");
}

TEST(ChatTemplateLimits, InvalidUtf8) {
  EXPECT_EQ(failure("{{ '\xFF' }}"), "chat template: byte 4 is not valid UTF-8");
  EXPECT_EQ(failure("{{ '%é' % 1 }}"), "chat template, line 1: unsupported format character '\xEF\xBF\xBD'");
}

// Every prefix of a template with all tags, and every template with one byte left out, is parsed or refused.
TEST(ChatTemplateLimits, BrokenSources) {
  const std::string source =
      "{# c -#}{%- set ns = namespace(a=[1, 2.5e3, 'x\\n'], b={'k': (1,)}) -%}{% macro m(a, b=2) %}{{ a ~ b "
      "}}"
      "{% endmacro %}{% for k, v in ns.b.items() if k is string recursive %}{{ loop.index0 }}{% if not "
      "loop.last and "
      "v[::-1] %}{% continue %}{% elif 1 < 2 %}{% break %}{% else %}x{% endif %}{% endfor %}{% call(x) "
      "m(*[1]) %}"
      "{{ x | default('é', true) | tojson(indent=2) }}{% endcall %}{% filter upper %}a{% endfilter %}{% raw "
      "%}{{"
      "{% endraw %}{% with a = 1 %}{% generation %}{{ a if a else none }}{% endgeneration %}{% endwith %}";
  int refused = 0;
  const auto attempt = [&](const std::string& text) {
    try {
      ChatTemplate(text).render(base::Json::array(), {});
    } catch (const Error&) {
      ++refused;
    }
  };
  for (size_t i = 0; i < source.size(); ++i) attempt(source.substr(0, i));
  for (size_t i = 0; i < source.size(); ++i) attempt(source.substr(0, i) + source.substr(i + 1));
  EXPECT_GT(refused, static_cast<int>(source.size()));
  EXPECT_LT(refused, static_cast<int>(2 * source.size()));
}

TEST(ChatTemplateLimits, ConcurrentRenders) {
  const ChatTemplate chat_template(
      "{% for m in messages %}{{ m.content | upper }}{{ loop.index }}{% endfor %}");
  const base::Json messages = {{{"role", "user"}, {"content", "a"}}, {{"role", "user"}, {"content", "b"}}};
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) right[t] += chat_template.render(messages, {}).text == "A1B2" ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int count : right) EXPECT_EQ(count, 200);
}

}  // namespace
}  // namespace trl::text
