// See preference_rows.h. The boundary between prompt and completion is the common prefix of their
// tokenisations, and the joint tokenisation is trained on.
#include "data/prepare/preference_rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/row/preference_columns.h"

namespace trl::data {

namespace {

using Ids = std::vector<int32_t>;

Ids tail(const Ids& ids, size_t begin) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end()};
}

bool is_there(const Row& row, std::string_view column) { return find_column(row, column) != nullptr; }

// Refuses a column that only some rows have: it would be null in the others, which TRL cannot read.
void require_same(const Row& row, std::string_view column, bool wanted) {
  if (is_there(row, column) == wanted) return;
  fail(Status::format, "{}: {} column '{}', unlike the dataset's first row; all rows must agree", row.where,
       wanted ? "has no" : "has a", column);
}

std::optional<float> number(const Row& row, std::string_view column, bool wanted) {
  if (!wanted) require_same(row, column, false);
  const std::optional<float> value = number_column(row, column);
  if (wanted && !value) fail_column(row, column, "a finite number");
  return value;
}

// Says whether a column is an empty text, or messages whose last one is empty (earlier ones may be the
// prompt).
bool says_nothing(const Row& row, std::string_view column) {
  const base::Json* const found = find_column(row, column);
  if (found == nullptr) return false;
  const auto is_blank = [](const base::Json& text) {
    return text.is_string() && text.get_ref<const std::string&>().empty();
  };
  if (!found->is_array()) return is_blank(*found);
  if (found->empty()) return true;
  const base::Json& message = found->back();
  if (!message.is_object() || message.contains("tool_calls")) return false;
  const auto content = message.find("content");
  return content == message.end() || content->is_null() || is_blank(*content);
}

// Brings a row of completions to TRL's form, in which no prompt of text stands next to messages.
void normalize(const RowReader& reader, Row& row) {
  reader.normalize(row);
  drop_text_prompt(row);
}

Row normalized(const RowReader& reader, const Row& first) {
  Row row = first;
  normalize(reader, row);
  return row;
}

// Gives a paired row its prompt, which both sides contain if the dataset has no column of it.
void give_prompt(const RowReader& reader, Row& row, bool implicit) {
  reader.require(row, "chosen");
  reader.require(row, "rejected");
  require_same(row, "prompt", !implicit);
  if (implicit) extract_prompt(row);
}

// Renames columns from their earlier names in TRL.
bool rename_ids(Row& row) {
  bool renamed = false;
  for (const auto& [old_name, name] :
       {std::pair{"chosen_input_ids", "chosen_ids"}, {"rejected_input_ids", "rejected_ids"}}) {
    if (!is_there(row, old_name)) continue;
    if (is_there(row, name))
      fail(Status::format, "{}: has both columns '{}' and '{}', which are one", row.where, old_name, name);
    row.value[name] = base::Json(row.value[old_name]);
    row.value.erase(old_name);
    renamed = true;
  }
  return renamed;
}

}  // namespace

DpoRows::DpoRows(RowReader reader, const Row& first) : reader_(std::move(reader)) {
  Row row = normalized(reader_, first);
  rename_ids(row);
  tokenized_ = !is_there(row, "chosen") && is_there(row, "chosen_ids");
  if (tokenized_) return;
  reader_.decide(row, "chosen");
  implicit_ = !is_there(row, "prompt");
}

void DpoRows::tokenize(Row& row, Made<PreferenceExample>& made) const {
  give_prompt(reader_, row, implicit_);
  PreferenceExample& example = made.example;
  made.events.set(Event::blank, says_nothing(row, "chosen") || says_nothing(row, "rejected"));
  Ids prompt = reader_.ids(reader_.prompt_text(row));
  const Ids chosen = reader_.ids(reader_.prompt_and_text(row, "chosen", &made.events));
  const Ids rejected = reader_.ids(reader_.prompt_and_text(row, "rejected", &made.events));
  const size_t shared =
      std::min(common_prefix_length(prompt, chosen), common_prefix_length(prompt, rejected));
  made.events.set(Event::parted, shared < prompt.size());
  prompt.resize(shared);
  example.prompt_ids = std::move(prompt);
  example.chosen_ids = tail(chosen, shared);
  example.rejected_ids = tail(rejected, shared);
}

void DpoRows::examples(Row& row, std::vector<Made<PreferenceExample>>& out) const {
  normalize(reader_, row);
  Made<PreferenceExample>& made = out.emplace_back();
  PreferenceExample& example = made.example;
  made.events.set(Event::beside_pair, is_there(row, "completion"));
  made.events.set(Event::logps_of_pair,
                  is_there(row, "ref_chosen_logps") || is_there(row, "ref_rejected_logps"));
  if (tokenized_) {
    rename_ids(row);
    example.prompt_ids = ids_column(row, "prompt_ids", reader_.vocab_size());
    example.chosen_ids = ids_column(row, "chosen_ids", reader_.vocab_size());
    example.rejected_ids = ids_column(row, "rejected_ids", reader_.vocab_size());
  } else {
    tokenize(row, made);
  }
  reader_.cut_prompt(example.prompt_ids, made.events);
  const size_t length = example.prompt_ids.size();
  const bool keep_end = reader_.arguments().truncation_keep_end;
  for (Ids* ids : {&example.chosen_ids, &example.rejected_ids}) {
    reader_.cut_completion(*ids, made.events);
    reader_.judge(length, ids->size(), keep_end, made.events);
    if (ids->empty()) made.events.set(Event::empty);
  }
  made.events.set(Event::same, std::ranges::equal(reader_.kept(length, example.chosen_ids, keep_end),
                                                  reader_.kept(length, example.rejected_ids, keep_end)));
}

// Only a prompt can be too long, and not if the end is kept; but a side of messages may be all prompt, and
// one of ids empty.
size_t DpoRows::least_bytes_to_drop() const {
  if (tokenized_ || (implicit_ && reader_.conversational())) return 0;
  return reader_.arguments().truncation_keep_end ? SIZE_MAX : reader_.least_bytes_of_max_length();
}

size_t DpoRows::most_tokens(Row& row) const {
  if (tokenized_) return SIZE_MAX;  // as of RewardRows
  normalize(reader_, row);
  give_prompt(reader_, row, implicit_);
  for (const char* side : {"chosen", "rejected"})
    if (row.value[side] == base::Json::array()) return SIZE_MAX;
  const size_t prompt = RowReader::most_ids(reader_.prompt_text(row));
  return std::min(prompt, static_cast<size_t>(reader_.arguments().max_prompt_length.value_or(INT64_MAX)));
}

RewardRows::RewardRows(RowReader reader, const Row& first) : reader_(std::move(reader)) {
  Row row = normalized(reader_, first);
  renamed_ = rename_ids(row);
  tokenized_ = is_there(row, "chosen_ids") || is_there(row, "rejected_ids");
  if (!tokenized_) reader_.decide(row, "chosen");
  explicit_ = is_there(row, "prompt");
  margin_ = is_there(row, "margin");
}

std::array<GivenText, 2> RewardRows::texts(const Row& row, Events* events) const {
  require_same(row, "prompt", explicit_);
  if (!explicit_) return {reader_.text(row, "chosen", events), reader_.text(row, "rejected", events)};
  reader_.require(row, "chosen");
  reader_.require(row, "rejected");
  return {reader_.prompt_and_text(row, "chosen", events), reader_.prompt_and_text(row, "rejected", events)};
}

size_t RewardRows::most_tokens(Row& row) const {
  if (tokenized_) return SIZE_MAX;  // ids may be shorter than their text
  normalize(reader_, row);
  const auto [chosen, rejected] = texts(row);
  return RowReader::most_ids(chosen.text.size() > rejected.text.size() ? chosen : rejected);
}

void RewardRows::examples(Row& row, std::vector<Made<PreferenceExample>>& out) const {
  normalize(reader_, row);
  rename_ids(row);
  Made<PreferenceExample>& made = out.emplace_back();
  PreferenceExample& example = made.example;
  if (tokenized_) {
    example.chosen_ids = ids_column(row, "chosen_ids", reader_.vocab_size());
    example.rejected_ids = ids_column(row, "rejected_ids", reader_.vocab_size());
    made.events.set(Event::beside_ids, is_there(row, "chosen") || is_there(row, "rejected"));
  } else {
    const auto [chosen, rejected] = texts(row, &made.events);
    example.chosen_ids = reader_.ids(chosen);
    example.rejected_ids = reader_.ids(rejected);
    made.events.set(Event::blank, says_nothing(row, "chosen") || says_nothing(row, "rejected"));
  }
  made.events.set(Event::same, example.chosen_ids == example.rejected_ids);
  made.events.set(Event::beside_pair, is_there(row, "completion"));
  example.margin = number(row, "margin", margin_);
  const size_t longest = std::max(example.chosen_ids.size(), example.rejected_ids.size());
  made.events.set(Event::empty, example.chosen_ids.empty() || example.rejected_ids.empty());
  made.events.set(Event::too_long,
                  longest > static_cast<size_t>(reader_.arguments().max_length.value_or(INT64_MAX)));
}

KtoRows::KtoRows(RowReader reader, const Row& first) : reader_(std::move(reader)) {
  const Row row = normalized(reader_, first);
  paired_ = !is_there(row, "completion") && (is_there(row, "chosen") || is_there(row, "rejected"));
  tokenized_ = !paired_ && !is_there(row, "completion") && is_there(row, "completion_ids");
  if (tokenized_) return;
  reader_.decide(row, paired_ ? "chosen" : "completion");
  implicit_ = paired_ && !is_there(row, "prompt");
}

void KtoRows::examples(Row& row, std::vector<Made<UnpairedExample>>& out) const {
  normalize(reader_, row);
  for (const char* column : {"chosen", "rejected"}) {
    if (is_there(row, "completion") && is_there(row, column)) {
      fail(Status::format,
           "{}: has columns 'completion' and '{}': an unpaired row has prompt, completion and label, a "
           "paired one prompt, chosen and rejected",
           row.where, column);
    }
  }
  if (!paired_) {
    if (!tokenized_) reader_.require(row, "completion");
    out.push_back(example(row));
    return;
  }
  give_prompt(reader_, row, implicit_);
  for (const bool chosen : {true, false}) out.push_back(example(unpaired(row, chosen)));
  const auto kept = [&](const Made<UnpairedExample>& made) {
    return reader_.kept(made.example.prompt_ids.size(), made.example.completion_ids, false);
  };
  const bool same = std::ranges::equal(kept(out.front()), kept(out.back()));
  for (Made<UnpairedExample>& made : out) {
    made.events.set(Event::same, same);
    made.events.set(Event::label_of_pair, is_there(row, "label"));
  }
}

size_t KtoRows::most_tokens(Row& row) const {
  if (tokenized_) return SIZE_MAX;
  normalize(reader_, row);
  const GivenText prompt = reader_.prompt_text(row);
  if (reader_.prompt_and_text(row, "completion").text.size() <= prompt.text.size())
    return SIZE_MAX;  // it may be empty
  return RowReader::most_ids(prompt);
}

Made<UnpairedExample> KtoRows::example(const Row& row) const {
  Made<UnpairedExample> made;
  if (tokenized_) {
    made.example = {0, ids_column(row, "prompt_ids", reader_.vocab_size()),
                    ids_column(row, "completion_ids", reader_.vocab_size()), label_column(row, "label")};
  } else {
    made.events.set(Event::blank, says_nothing(row, "completion"));
    Ids prompt = reader_.ids(reader_.prompt_text(row));
    const Ids whole = reader_.ids(reader_.prompt_and_text(row, "completion", &made.events));
    const size_t shared = common_prefix_length(prompt, whole);
    made.events.set(Event::parted, shared < prompt.size());
    prompt.resize(shared);
    made.example = {0, std::move(prompt), tail(whole, shared), label_column(row, "label")};
  }
  const UnpairedExample& example = made.example;
  made.events.set(Event::empty, example.completion_ids.empty());
  reader_.judge(example.prompt_ids.size(), example.completion_ids.size(), false, made.events);
  return made;
}

PromptRows::PromptRows(RowReader reader, const Row& first) : reader_(std::move(reader)) {
  reader_.decide(reader_.normalized(first), "prompt", OwnVariables::left);
}

void PromptRows::examples(Row& row, std::vector<Made<PromptExample>>& out) const {
  reader_.normalize(row);
  Made<PromptExample>& made = out.emplace_back();
  made.events.set(Event::unrendered, reader_.conversational() && has_own_variables(row));
  made.example.prompt_ids = reader_.ids(reader_.prompt_text(row));
  if (made.example.prompt_ids.empty()) fail_column(row, "prompt", "text with at least one token");
  reader_.leave_room(row, made.example.prompt_ids.size(), made.events);
  made.example.row = row.value.dump();
}

}  // namespace trl::data
