// The turns of a generation: which completions go on, and with how many tokens; without a model.
#include "run/rollout/tools/tool_turns.h"

#include <algorithm>
#include <cmath>

#include "data/preference_shop.h"
#include "run/rollout/host_rollout.h"
#include "run/rollout/turn.h"
#include "support/letter_tokenizer.h"

namespace trl::run {
namespace {

// A token a byte: an answer is ">41;" behind a turn that ends with EOS.
constexpr const char* kTemplate =
    "{% for m in messages %}{% if m['role'] == 'tool' %}>{{ m['content'] }};{% else %}{{ m['content'] }}"
    "{% for c in m['tool_calls'] or [] %}{{ c['function'] | tojson }}{% endfor %}{{ eos_token }}{% endif %}"
    "{% endfor %}";

// One completion of the prompt "ab", whose first turns call `f` and are answered with 41.
struct Conversation {
  explicit Conversation(int64_t most, int calling = 1, int64_t most_of_turn = 1000) : calls(calling) {
    arguments.tools = R"({"":[{"name":"f"}]})";
    arguments.host_parses_calls = true;
    arguments.max_completion_length = most;
    arguments.max_new_tokens = std::min(most, most_of_turn);
    form.emplace(arguments, tokenizer);
    turns.emplace(arguments, *form);
    turns->host().call([this](const std::shared_ptr<HostRollout>& rollout) { answer(*rollout); });
    prompts.row_ids = {0};
    prompts.ids = {{'a', 'b'}};
    rows = {std::make_shared<const base::Json>(base::Json{{"prompt", base::Json::array()}})};
  }
  void answer(HostRollout& rollout) {
    const base::Json row = rollout.describe(0);
    if (row["ask"] == "call") return rollout.set_value(0, "results", base::Json::array({41}));
    base::Json message = {{"role", "assistant"}, {"content", row["completion"]}};
    if (calls-- > 0)
      message["tool_calls"] = {
          {{"type", "function"}, {"function", {{"name", "f"}, {"arguments", base::Json::object()}}}}};
    rollout.set_value(0, "message", message);
  }
  // Returns what follows a completion of these tokens; none: nothing does.
  std::vector<engine::Continuation> after(std::vector<int32_t> ids) {
    turns->start("train", 0, prompts, rows);
    return turns->go_on(std::vector<engine::Completion>{{std::move(ids)}});
  }
  test::LetterTokenizer tokenizer{kTemplate};
  config::OnlineArguments arguments;
  std::optional<ToolTemplate> form;
  std::optional<ToolTurns> turns;
  engine::PromptRows prompts;
  RowColumns rows;
  int calls;
};

const std::vector<int32_t> kTurn = {'x', 'y', test::kEos}, kAnswer = {'>', '4', '1', ';'};

TEST(ToolTurns, ACompletionGoesOnAsFarAsItMay) {
  Conversation roomy(10);
  const auto more = roomy.after(kTurn);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].row, 0u);
  EXPECT_EQ(more[0].ids, kAnswer);
  EXPECT_EQ(more[0].max_new_tokens, 3);
  EXPECT_EQ(roomy.turns->conversations()[0].size(), 2u);
  EXPECT_EQ(roomy.turns->metrics()[0].second, 1.0);
  std::vector<engine::Completion> all = {{kTurn}};
  add_turn(all[0], answer_turn(kAnswer));
  add_turn(all[0], {{'z'}});
  EXPECT_TRUE(roomy.turns->go_on(all).empty());
  EXPECT_EQ(roomy.turns->conversations()[0].back()["content"], "z");
}

// An answer that fills a completion is its end, and one that does not fit is taken back, as in TRL.
TEST(ToolTurns, AnAnswerMustFit) {
  Conversation filled(7);
  const auto more = filled.after(kTurn);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].max_new_tokens, 0);
  EXPECT_TRUE(filled.turns->go_on(std::vector<engine::Completion>{{kTurn}}).empty());  // no turn is read
  EXPECT_EQ(filled.turns->conversations()[0].size(), 2u);
  Conversation tight(6);
  EXPECT_TRUE(tight.after(kTurn).empty());
  EXPECT_EQ(tight.turns->conversations()[0].size(), 1u);
  Conversation long_model(100), short_model(100);
  long_model.turns->set_model(10, {});  // the prompt, the turn and the answer are 9 tokens
  EXPECT_EQ(long_model.after(kTurn).size(), 1u);
  short_model.turns->set_model(9, {});
  EXPECT_TRUE(short_model.after(kTurn).empty());
}

// max_new_tokens of generation_kwargs: the completion has the room that the trainer's key gives.
TEST(ToolTurns, ATurnMayHaveALimitOfItsOwn) {
  Conversation brief(10, 1, 2), long_turn(10, 1, 3);
  EXPECT_EQ(brief.after(kTurn)[0].max_new_tokens, 2);
  EXPECT_EQ(long_turn.after(kTurn)[0].max_new_tokens, 3);
  Conversation filled(8, 1, 3);
  EXPECT_EQ(filled.after(kTurn)[0].max_new_tokens, 1);
}

TEST(ToolTurns, IterationsCount) {
  Conversation twice(100, 2);
  twice.arguments.max_tool_calling_iterations = 1;
  twice.turns.emplace(twice.arguments, *twice.form);
  twice.turns->host().call([&](const std::shared_ptr<HostRollout>& rollout) { twice.answer(*rollout); });
  EXPECT_EQ(twice.after(kTurn).size(), 1u);
  std::vector<engine::Completion> all = {{kTurn}};
  add_turn(all[0], answer_turn(kAnswer));
  add_turn(all[0], {kTurn});
  EXPECT_TRUE(twice.turns->go_on(all).empty());
  EXPECT_TRUE(twice.turns->conversations()[0].back().contains("tool_calls"));
}

// Some models end a turn with the token that begins the answer.
TEST(ToolTurns, AnEndIsNotWrittenTwice) {
  Conversation ended(100), other(100);
  ended.turns->set_model(0, {'>'});
  EXPECT_EQ(ended.after({'x', '>'})[0].ids, (std::vector<int32_t>{'4', '1', ';'}));
  EXPECT_EQ(other.after({'x', '>'})[0].ids, kAnswer);
}

TEST(Turn, HasTheValuesOfBothParts) {
  engine::Completion own = {{1, 2}, {-1.0f, -2.0f}};
  add_turn(own, answer_turn({3}));
  EXPECT_EQ(own.ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(own.written, (std::vector<uint8_t>{1, 1, 0}));
  ASSERT_EQ(own.log_probabilities.size(), 3u);
  EXPECT_TRUE(std::isnan(own.log_probabilities[2]));
  add_turn(own, {{4, 5}, {-4.0f, -5.0f}});
  EXPECT_EQ(own.written, (std::vector<uint8_t>{1, 1, 0, 1, 1}));
  EXPECT_EQ(own.log_probabilities[4], -5.0f);
  cut(own, 4);
  EXPECT_EQ(own.ids.size() + own.written.size() + own.log_probabilities.size(), 12u);
  engine::Completion plain = {{1}};
  add_turn(plain, {{2}});
  EXPECT_TRUE(plain.written.empty() && plain.log_probabilities.empty());
}

// Integers keep their digits, and JSON has no numbers that are not finite.
TEST(HostRollout, DescribesNumbersAsJsonHasThem) {
  HostRow row;
  row.details["calls"] = base::parse_exact_json("[12345678901234567890123, Infinity, 1.5]", "calls");
  const HostRollout rollout("train", 0, {row});
  EXPECT_EQ(base::exact_text(rollout.describe(0)["calls"]), "[12345678901234567890123,null,1.5]");
}

}  // namespace
}  // namespace trl::run
