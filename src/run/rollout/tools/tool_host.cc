#include "run/rollout/tools/tool_host.h"

#include "base/error.h"

namespace trl::run {

namespace {

constexpr const char *kObservation = "observation", *kMessage = "message", *kResults = "results";

// Appends the words of an environment to the last message, text or parts.
void append(base::Json& message, base::Json observation) {
  const auto as_parts = [](base::Json& value) {
    if (value.is_string()) value = base::Json::array({{{"type", "text"}, {"text", value}}});
  };
  base::Json& content = message["content"];
  if (content.is_string() && observation.is_string()) {
    content = content.get<std::string>() + observation.get<std::string>();
    return;
  }
  as_parts(content);
  as_parts(observation);
  if (!content.is_array() && !content.is_null())
    fail(Status::format,
         "the content of the last message of a prompt is {}, to which an environment adds: "
         "give a text, or a list of parts",
         content.dump());
  for (base::Json& part : observation) content.push_back(std::move(part));
}

}  // namespace

std::vector<int32_t> ToolTurn::before(const ToolGeneration& now) const {
  std::vector<int32_t> all = now.prompts->ids[row];
  all.insert(all.end(), completion->ids.begin(),
             completion->ids.begin() + static_cast<std::ptrdiff_t>(begin));
  return all;
}

void ToolHost::check(bool replayed) const {
  if (function_ || (replayed && !form_.prompts().environments)) return;
  fail_key("tools",
           "tools: no function answers calls: a host of the library adds it (trl_trainer_set_tools); the trl "
           "command has none");
}

HostRow ToolHost::row_of(const ToolGeneration& now, size_t row, std::string_view ask) const {
  HostRow out = prompt_row(*now.prompts, row, *(*now.rows)[row]);
  out.details = {{"ask", ask}, {"place", row}};
  if (form_.prompts().environments) out.details["environment"] = form_.environment_of(*(*now.rows)[row]);
  return out;
}

HostRow ToolHost::row_of(const ToolGeneration& now, const ToolTurn& turn, std::string_view ask) const {
  HostRow out = row_of(now, turn.row, ask);
  out.completion = *turn.completion;
  return out;
}

std::shared_ptr<HostRollout> ToolHost::ask(const ToolGeneration& now, std::vector<HostRow> rows,
                                           std::string_view value) const {
  auto rollout = std::make_shared<HostRollout>(now.mode, now.step, std::move(rows), std::string(value));
  if (rollout->size() > 0) function_(rollout);
  return rollout;
}

void ToolHost::reset(const ToolGeneration& now, engine::PromptRows& prompts, RowColumns& rows) const {
  if (!form_.prompts().environments) return;
  std::vector<HostRow> asked;
  for (size_t row = 0; row < rows.size(); ++row) asked.push_back(row_of(now, row, "reset"));
  const auto rollout = ask(now, std::move(asked), kObservation);
  for (size_t row = 0; row < rows.size(); ++row) {
    const base::Json said = rollout->rows()[row].extras.value(kObservation, base::Json());
    if (said.is_null()) continue;
    if (!said.is_string() && !said.is_array())
      fail(Status::callback, "the host's tools: observation is {}: give a text, or a list of parts",
           said.dump());
    base::Json changed = *rows[row];
    append(changed["prompt"].back(), said);
    prompts.ids[row] = form_.prompt_ids(changed, {"", 0, 0, prompts.row_ids[row], prompts.row_ids[row] + 1});
    rows[row] = std::make_shared<const base::Json>(std::move(changed));
  }
}

void ToolHost::parse(const ToolGeneration& now, std::vector<ToolTurn>& turns) const {
  std::vector<HostRow> asked;
  for (const ToolTurn& turn : turns) {
    asked.push_back(row_of(now, turn, "parse"));
    asked.back().text = form_.text_of(turn.ids());
  }
  const auto rollout = ask(now, std::move(asked), kMessage);
  for (size_t i = 0; i < turns.size(); ++i) {
    turns[i].message = rollout->needed(i);
    check_message(turns[i].message);
  }
}

void ToolHost::answer(const ToolGeneration& now, std::vector<ToolTurn>& turns,
                      std::span<const base::Json> conversations) const {
  const auto schemas_of = [&](const ToolTurn& turn) -> const base::Json& {
    return form_.schemas_of(*(*now.rows)[turn.row]);
  };
  std::vector<HostRow> asked;
  for (const ToolTurn& turn : turns) {
    base::Json calls = known_calls(turn.message, schemas_of(turn));
    if (calls.empty()) continue;
    HostRow& row = asked.emplace_back(row_of(now, turn, "call"));
    row.text = conversations[turn.row];
    row.details["calls"] = std::move(calls);
  }
  const auto rollout = ask(now, std::move(asked), kResults);
  size_t next = 0;
  for (ToolTurn& turn : turns) {
    const bool was_asked = !known_calls(turn.message, schemas_of(turn)).empty();
    turn.answers =
        answers_of(turn.message, schemas_of(turn), was_asked ? rollout->needed(next++) : base::Json::array());
  }
}

}  // namespace trl::run
