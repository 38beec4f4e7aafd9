// Completions that call tools, which the host answers. A tiny model writes no calls, so that the host says
// where they are (tool_call_parser: host); stop ids end its turns early.
#include <set>
#include <thread>

#include "engine/rewarded.h"

namespace {

using host::call;
using host::Error;
using host::Function;
using host::Json;
using host::Rewarded;
using host::row_of;
using host::Settings;

#define NEED_LONG_MODEL() NEED_GOLDEN("models/qwen3_long/model.safetensors")

constexpr const char* kToolChats = R"({"prompt": [{"role": "user", "content": "One and one?"}], "start": 3}
{"prompt": [{"role": "user", "content": "Two and two?"}], "start": 5}
)";
constexpr const char* kAdd = R"([{"type": "function", "function": {"name": "add", "description": "Adds.",
  "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}])";

Settings with_tools(const std::string& output_dir, const Settings& more = {}) {
  Json stops = Json::array();
  for (int id = 0; id < 96; ++id) stops.push_back(id);
  const Settings own = {{"model_name_or_path", host::golden("models/qwen3_long")},
                        {"max_completion_length", "120"},
                        {"max_steps", "1"},
                        {"generation_kwargs", Json({{"stop_token_ids", stops}}).dump()},
                        {"tools", kAdd},
                        {"tool_call_parser", "host"}};
  return host::with(host::grpo(output_dir, own), more);
}

void set(trl_rollout* rollout, size_t index, const char* name, const Json& value) {
  Error error;
  EXPECT_EQ(trl_rollout_set_value(rollout, index, name, value.dump().c_str(), error), TRL_OK)
      << error.message();
}

Json calling(const std::vector<std::string>& names) {
  Json message = {{"role", "assistant"}, {"content", "I add."}};
  for (const std::string& name : names)
    message["tool_calls"].push_back(
        {{"type", "function"}, {"function", {{"name", name}, {"arguments", {{"a", 1}}}}}});
  return message;
}

// Says that each first turn calls these tools, and answers each call of `add` with this.
Function caller(std::vector<std::string> names, Json result = 41) {
  auto seen = std::make_shared<std::set<std::pair<Json, Json>>>();
  return [=](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      const Json row = row_of(rollout, i);
      if (row["ask"] == "parse") {
        const bool first = seen->emplace(row["step"], row["place"]).second;
        set(rollout, i, "message", calling(first ? names : std::vector<std::string>()));
      } else if (row["ask"] == "call") {
        Json results = Json::array();
        for (size_t k = 0; k < row["calls"].size(); ++k) results.push_back(result);
        set(rollout, i, "results", results);
      }
    }
    return int32_t{TRL_OK};
  };
}

struct Called : Rewarded {
  Called(const Settings& settings, Function tools_by, Function by = host::reward_all,
         const char* train = kToolChats, const char* eval = nullptr)
      : Rewarded(settings, std::move(by), train, eval), tools(std::move(tools_by)) {
    EXPECT_EQ(trl_trainer_set_tools(trainer.get(), call, &tools, nullptr, error), TRL_OK) << error.message();
  }
  Function tools;
};

std::vector<Json> lines_of(const std::string& file) {
  std::vector<Json> lines;
  std::istringstream text(host::read_file(file));
  for (std::string line; std::getline(text, line);) lines.push_back(host::parse(line));
  return lines;
}

// The lengths of runs of equal values.
std::vector<size_t> runs_of(const Json& mask) {
  std::vector<size_t> runs;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (i == 0 || mask[i] != mask[i - 1]) runs.push_back(0);
    ++runs.back();
  }
  return runs;
}

TEST(Tools, ACompletionGoesOnBehindTheAnswer) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  Called run(with_tools(scratch / "out", {{"record_rollouts", file}}), caller({"add"}),
             [](trl_rollout* rollout) {
               for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
                 const Json messages = row_of(rollout, i)["completion"];
                 EXPECT_EQ(messages.size(), 3u) << messages.dump();
                 EXPECT_EQ(messages[0], calling({"add"}));
                 EXPECT_EQ(messages[1], Json({{"role", "tool"}, {"name", "add"}, {"content", "41"}}));
                 EXPECT_EQ(messages[2]["role"], "assistant");
               }
               return host::reward_all(rollout);
             });
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  const Json record = run.last()[0];
  EXPECT_EQ(record["tools/call_frequency"], 1.0);
  EXPECT_EQ(record["tools/failure_frequency"], 0.0);
  size_t written = 0;
  const std::vector<Json> lines = lines_of(file);
  ASSERT_EQ(lines.size(), 4u);
  Json answer;  // its tokens are the same in each completion
  for (const Json& line : lines) {
    const std::vector<size_t> runs = runs_of(line["tool_mask"]);
    ASSERT_EQ(runs.size(), 3u) << line["tool_mask"].dump();
    const auto begin = line["completion_ids"].begin() + static_cast<std::ptrdiff_t>(runs[0]);
    const Json own(std::vector<int32_t>(begin, begin + static_cast<std::ptrdiff_t>(runs[1])));
    if (answer.is_null()) answer = own;
    EXPECT_EQ(own, answer);
    EXPECT_LE(line["completion_ids"].size(), 120u);
    written += runs[0] + runs[2];
  }
  EXPECT_NEAR(record["completions/mean_length"].get<double>(), static_cast<double>(written) / 4, 1e-6);
}

// The tokens of a turn are drawn from the whole conversation, whose keys and values were kept: training finds
// the same log-probabilities. An answer has none.
TEST(Tools, TheConversationIsKept) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  Called run(with_tools(scratch / "out", {{"use_vllm", "true"}, {"record_rollouts", file}}), caller({"add"}));
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_LT(run.last()[0]["sampling/sampling_logp_difference/max"].get<double>(), 1e-4);
  for (const Json& line : lines_of(file))
    for (size_t i = 0; i < line["logprobs"].size(); ++i)
      EXPECT_EQ(line["logprobs"][i] == 0.0, line["tool_mask"][i] == 0) << i;
}

TEST(Tools, ARecordedRunIsReplayedWithItsMasks) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  const auto finish = [&](Rewarded& run) {
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK);
  };
  Called recorded(with_tools(scratch / "a", {{"record_rollouts", file}, {"max_steps", "2"}}),
                  caller({"add"}));
  finish(recorded);
  Rewarded replayed(with_tools(scratch / "b", {{"replay_rollouts", file}, {"max_steps", "2"}}),
                    host::reward_all, kToolChats);
  finish(replayed);
  EXPECT_EQ(host::read_safetensors(scratch / "a" / "model.safetensors"),
            host::read_safetensors(scratch / "b" / "model.safetensors"));
}

TEST(Tools, AnswersMayComeLater) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  const Function now = caller({"add"});
  std::thread later;
  Called run(with_tools(scratch / "late"), [&](trl_rollout* rollout) {
    if (later.joinable()) later.join();
    later = std::thread([&, rollout] {
      now(rollout);
      Error error;
      EXPECT_EQ(trl_rollout_finish(rollout, nullptr, error), TRL_OK) << error.message();
    });
    return int32_t{TRL_LATER};
  });
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  later.join();
  Called at_once(with_tools(scratch / "now"), caller({"add"}));
  EXPECT_EQ(at_once.train(), TRL_OK) << at_once.error.message();
  EXPECT_EQ(run.last()[0]["loss"], at_once.last()[0]["loss"]);
}

// A generation whose tools failed is made again, with the same tokens.
TEST(Tools, AFailureCanBeTriedAgain) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  Function calls = caller({"add"});
  bool failed = false;
  Called run(with_tools(scratch / "out"), [&](trl_rollout* rollout) {
    if (failed || row_of(rollout, 0)["ask"] == "parse") return calls(rollout);
    failed = true;
    calls = caller({"add"});  // has seen no turn
    return int32_t{-7};
  });
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_EQ(trl_error_callback_code(run.error.get()), -7);
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  Called whole(with_tools(scratch / "whole"), caller({"add"}));
  EXPECT_EQ(whole.train(), TRL_OK) << whole.error.message();
  EXPECT_EQ(run.last()[0]["loss"], whole.last()[0]["loss"]);
}

TEST(Tools, EvaluationCallsThemToo) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  std::set<Json> modes;
  const Function calls = caller({"add"});
  Called run(
      with_tools(scratch / "out", {{"eval_strategy", "steps"},
                                   {"eval_steps", "1"},
                                   {"per_device_eval_batch_size", "4"},
                                   {"log_completions", "true"}}),
      [&](trl_rollout* rollout) {
        modes.insert(row_of(rollout, 0)["mode"]);
        return calls(rollout);
      },
      host::reward_all, kToolChats, kToolChats);
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(modes, (std::set<Json>{"train", "eval"}));
  EXPECT_EQ(run.last()[1]["eval_tools/failure_frequency"], 0.0);
  for (const char* name : {"completions_00001", "eval_completions_00001"}) {
    const std::string file = scratch / "out/completions" / name;
    EXPECT_TRUE(std::filesystem::exists(file + ".parquet") || std::filesystem::exists(file + ".jsonl"))
        << name;
  }
}

// A host that never answers: the wait ends with reward_timeout, or with a request to stop, and the step can
// be tried again.
TEST(Tools, AWaitForAnswersEnds) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  Function calls = caller({"add"});
  const auto never = [](trl_rollout*) { return int32_t{TRL_LATER}; };
  Called timed(with_tools(scratch / "timed", {{"reward_timeout", "0.05"}}), never);
  EXPECT_EQ(timed.train(), TRL_E_CALLBACK);
  EXPECT_EQ(timed.error.key(), "reward_timeout") << timed.error.message();
  std::thread stop;
  bool waits = true;
  Called run(with_tools(scratch / "out"), [&](trl_rollout* rollout) {
    if (!std::exchange(waits, false)) return calls(rollout);
    stop = std::thread([&] { trl_trainer_cancel(run.trainer.get()); });
    return int32_t{TRL_LATER};
  });
  EXPECT_EQ(run.train(), TRL_E_CANCELLED);
  stop.join();
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
}

// Python's text of results, failures, and a tool that there is not, for which the host is not asked.
TEST(Tools, ResultsAreTextsOrErrors) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  const auto answers = [&](const Json& result, double failures) {
    Json contents = Json::array();
    Called run(with_tools(scratch / "out", {{"max_completion_length", "300"}}),
               caller({"add", "mul"}, result), [&](trl_rollout* rollout) {
                 const Json messages = row_of(rollout, 0)["completion"];
                 EXPECT_EQ(messages.size(), 4u) << messages.dump();
                 contents = {messages[1]["content"], messages[2]["content"]};
                 return host::reward_all(rollout);
               });
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_EQ(run.last()[0]["tools/call_frequency"], 2.0);
    EXPECT_EQ(run.last()[0]["tools/failure_frequency"], failures);
    EXPECT_EQ(contents[1], "{'error': 'Tool mul not found.'}");
    return contents[0];
  };
  EXPECT_EQ(answers("so", 0.5), "so");
  EXPECT_EQ(answers(nullptr, 0.5), "None");
  EXPECT_EQ(answers({{"sum", 2.5}, {"even", true}}, 0.5), "{'sum': 2.5, 'even': True}");
  EXPECT_EQ(answers({{"error", "too large"}}, 1), "{'error': 'too large'}");
}

// No turn follows the last iteration, and its calls stay without an answer.
TEST(Tools, IterationsAreLimited) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  Called run(with_tools(scratch / "out", {{"max_tool_calling_iterations", "0"}}), caller({"add"}),
             [](trl_rollout* rollout) {
               EXPECT_EQ(row_of(rollout, 0)["completion"], Json::array({calling({"add"})}));
               return host::reward_all(rollout);
             });
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(run.last()[0]["tools/call_frequency"], 0.0);
}

TEST(Tools, AnAnswerWithoutRoomIsTakenBack) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  Called run(with_tools(scratch / "out"), caller({"add"}, std::string(400, 'x')), [](trl_rollout* rollout) {
    EXPECT_EQ(row_of(rollout, 0)["completion"], Json::array({calling({"add"})}));
    return host::reward_all(rollout);
  });
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(run.last()[0]["tools/call_frequency"], 1.0);
}

TEST(Tools, DistillationCallsThemToo) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  const Settings settings = host::with(
      with_tools(scratch / "out"),
      {{"method", "distillation"}, {"teacher_model_name_or_path", host::golden("models/qwen3_long")}});
  const host::Dataset rows = host::rows(kToolChats);
  Settings own;
  for (const auto& [key, value] : settings)
    if (key != "num_generations") own.emplace_back(key, value);
  const host::Trainer trainer =
      host::trainer(host::with(own, {{"per_device_train_batch_size", "2"}}), rows.get());
  Function tools = caller({"add"});
  Error error;
  ASSERT_EQ(trl_trainer_set_tools(trainer.get(), call, &tools, nullptr, error), TRL_OK) << error.message();
  ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  EXPECT_EQ(host::state(trainer.get())["log_history"][0]["tools/call_frequency"], 1.0);
}

// What an environment says is added to the prompt; a row belongs to the one that it names.
TEST(Tools, EnvironmentsAreReset) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  const std::string two = Json({{"hall", Json::parse(kAdd)}, {"yard", Json::array()}}).dump();
  const std::string rows = R"({"prompt": [{"role": "user", "content": "Go."}], "environment": "hall"})"
                           "\n"
                           R"({"environment": "yard"})"
                           "\n";
  const Function calls = caller({"add"});
  const auto tools = [&](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      const Json row = row_of(rollout, i);
      EXPECT_EQ(row["environment"], row["columns"]["environment"]);
      if (row["ask"] == "reset") set(rollout, i, "observation", " You see " + row["place"].dump() + ".");
    }
    return row_of(rollout, 0)["ask"] == "reset" ? int32_t{TRL_OK} : calls(rollout);
  };
  const auto reward = [](trl_rollout* rollout) {
    for (size_t i = 0; i < 4; ++i) {
      const Json row = row_of(rollout, i);
      const bool hall = row["columns"]["environment"] == "hall";
      EXPECT_EQ(row["prompt"].back()["content"],
                (hall ? "Go." : "") + (" You see " + std::to_string(i) + "."));
      EXPECT_EQ(row["completion"][1]["content"], hall ? "41" : "{'error': 'Tool add not found.'}");
    }
    return host::reward_all(rollout);
  };
  Called run(with_tools(scratch / "out", {{"tools", "null"}, {"environments", two}}), tools, reward,
             rows.c_str());
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(run.last()[0]["tools/failure_frequency"], 0.5);

  trl_trainer* made = nullptr;
  const host::Dataset strange =
      host::rows(R"({"prompt": [{"role": "user", "content": "Go."}], "environment": "sea"})"
                 "\n");
  EXPECT_EQ(
      trl_trainer_create(nullptr, host::config(with_tools(scratch / "no", {{"environments", two}})).get(),
                         strange.get(), nullptr, &made, run.error),
      TRL_E_FORMAT);
  EXPECT_TRUE(run.error.names("'environment' is \"sea\"")) << run.error.message();
  EXPECT_TRUE(run.error.names("give one of hall, yard")) << run.error.message();
}

// Creates a trainer that must be refused.
std::string creation_refusal(const Settings& settings, const char* rows, const char* key) {
  const host::Dataset opened = host::rows(rows);
  trl_trainer* made = nullptr;
  Error error;
  EXPECT_LT(trl_trainer_create(nullptr, host::config(settings).get(), opened.get(), nullptr, &made, error),
            0);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(error.key(), key) << error.message();
  return error.message();
}

TEST(Tools, RunsThatCannotCallThemAreRefused) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  const auto refused = [&](const Settings& more, const char* key, const char* rows = kToolChats) {
    return creation_refusal(with_tools(scratch / "out", more), rows, key);
  };
  const auto contains = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const auto with_template = [&](const std::string& source) {
    const std::string model = scratch / "model";
    std::filesystem::remove_all(model);
    std::filesystem::copy(host::golden("models/qwen3_long"), model);
    std::filesystem::permissions(model, std::filesystem::perms::owner_all);
    std::filesystem::remove(model + "/chat_template.jinja");
    host::write_file(model + "/chat_template.jinja", source);
    return Settings{{"model_name_or_path", model}};
  };
  const std::string shown = "{{ m['content'] }}{{ m['tool_calls'] | tojson if m['tool_calls'] }}";
  const auto each = [](const std::string& body) { return "{% for m in messages %}" + body + "{% endfor %}"; };
  contains(refused(with_template(each("{{ m['content'] }}")), "tools"), "leaves out calls of an assistant");
  contains(refused(with_template(each(shown + "{{ messages | length }}")), "tools"),
           "writes a call otherwise");
  contains(refused(host::with(with_template(each(shown + "{{ eos_token }}")), {{"tool_call_parser", "auto"}}),
                   "tool_call_parser"),
           "give host");
  contains(refused({}, "tools", "{\"prompt\": \"One and one?\"}\n"), "its prompt is text");
  contains(refused({{"tools", "[{\"type\": \"function\"}]"}}, "tools"), "has no name");
  contains(refused({{"tools", "null"}, {"environments", "{hall: {name: look}}"}}, "environments"),
           "is not a list of JSON schemas");
}

TEST(Tools, RunsWithoutAFunctionAreRefused) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  Rewarded run(with_tools(scratch / "out"), host::reward_all, kToolChats);
  EXPECT_EQ(run.train(), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(run.error.key(), "tools");
  Rewarded other(host::grpo(scratch / "other"), host::reward_all);
  Function tools = caller({"add"});
  EXPECT_EQ(trl_trainer_set_tools(other.trainer.get(), call, &tools, nullptr, other.error),
            TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(other.error.names("the run has none")) << other.error.message();
}

TEST(Tools, AnswersAreChecked) {
  NEED_LONG_MODEL();
  const host::Scratch scratch;
  const auto fails = [&](const char* part, const Function& answer) {
    const Function calls = caller({"add"});
    Called run(with_tools(scratch / "out"), [&](trl_rollout* rollout) {
      return row_of(rollout, 0)["ask"] == "call" ? answer(rollout) : calls(rollout);
    });
    EXPECT_EQ(run.train(), TRL_E_CALLBACK);
    EXPECT_TRUE(run.error.names(part)) << run.error.message();
  };
  fails("set no results for row 0 of 4", [](trl_rollout*) { return int32_t{TRL_OK}; });
  fails("returned -9", [](trl_rollout*) { return -9; });
  fails("results is []: give a list with one result for each of 1 calls", [](trl_rollout* rollout) {
    for (size_t i = 0; i < 4; ++i) set(rollout, i, "results", Json::array());
    return int32_t{TRL_OK};
  });
  fails("set no results", [](trl_rollout* rollout) {
    Error error;
    EXPECT_EQ(trl_rollout_set_value(rollout, 0, "result", "[1]", error), TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names("result is not a value of this question: set results")) << error.message();
    EXPECT_EQ(trl_rollout_set_reward(rollout, 0, 1, error), TRL_E_INVALID_ARGUMENT);
    EXPECT_EQ(trl_rollout_set_completion(rollout, 0, nullptr, 0, nullptr, nullptr, nullptr, error),
              TRL_E_INVALID_ARGUMENT);
    return int32_t{TRL_OK};
  });
  const Json named = {{"type", 5}, {"function", {{"name", "add"}, {"arguments", Json::object()}}}};
  for (const Json& message :
       {Json{{"role", "user"}}, Json{{"role", "assistant"}, {"tool_calls", Json::array({named})}}}) {
    Called wrong(with_tools(scratch / "wrong"), [&](trl_rollout* rollout) {
      for (size_t i = 0; i < 4; ++i) set(rollout, i, "message", message);
      return int32_t{TRL_OK};
    });
    EXPECT_EQ(wrong.train(), TRL_E_CALLBACK);
    EXPECT_TRUE(wrong.error.names("message is " + message.dump())) << wrong.error.message();
  }
}

}  // namespace
