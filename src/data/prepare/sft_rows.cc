// See sft_rows.h. The boundary between prompt and completion is the common prefix of two tokenisations, and
// the joint one is trained on; EOS is judged on the text, never on ids.
#include "data/prepare/sft_rows.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/error.h"
#include "data/row/conversions.h"
#include "text/chat_template/chat_template.h"

namespace trl::data {

namespace {

constexpr std::string_view kNoMarkers =
    "assistant_only_loss: the tokenizer's chat template has no {% generation %} markers and is not one of "
    "the known ones that have a variant with them; put {% generation %} and {% endgeneration %} around what "
    "the assistant says and give the template through chat_template or chat_template_path";

bool is_conversational(Format format) {
  return format == Format::messages || format == Format::prompt_completion_messages;
}

// Columns that input_ids may be accompanied by.
constexpr std::array<const char*, 4> kBeside = {"labels", "assistant_masks", "completion_mask",
                                                "seq_lengths"};

// Ignores the first token of each document, which is predicted from nothing (TRL's collator: position_ids ==
// 0).
void part(Tokens& tokens, std::vector<int32_t> documents) {
  size_t at = 0;
  for (const int32_t length : documents) {
    tokens.labels[at] = kIgnored;
    at += static_cast<size_t>(length);
  }
  tokens.documents = std::move(documents);
}

}  // namespace

SftRows::SftRows(const PrepareContext& context, const Row& first)
    : tokenizer_(*context.tokenizer),
      arguments_(*context.arguments),
      log_(*context.log),
      vocab_size_(context.vocab_size > 0 ? context.vocab_size : tokenizer_.vocab_size()),
      first_where_(first.where.text()) {
  Row row = first;
  select_columns(row, arguments_.dataset_select_columns);
  rename_columns(row, arguments_.dataset_columns);
  const Row given = row;
  convert(row);
  format_ = format_of(row, arguments_.dataset_text_field);
  if (!context.completion_only_loss) tell_unread(given, row);  // as the training rows decided
  const bool split = find_column(row, "prompt") != nullptr && find_column(row, "completion") != nullptr;
  const bool masked =
      split || find_column(row, "completion_mask") != nullptr || find_column(row, "labels") != nullptr;
  completion_only_ = context.completion_only_loss.value_or(arguments_.completion_only_loss.value_or(split));
  if (arguments_.completion_only_loss == true && !masked && !context.completion_only_loss) {
    fail_key("completion_only_loss",
             "completion_only_loss: {} holds no completions (its format is {}): 'prompt' and 'completion' "
             "columns are expected, or completion_only_loss: false",
             first_where_, format_name(format_));
  }
  if (arguments_.assistant_only_loss && !is_conversational(format_)) {
    fail_key(
        "assistant_only_loss",
        "assistant_only_loss: {} is not conversational (its format is {}): messages are expected{}",
        first_where_, format_name(format_),
        format_ == Format::tokenized ? ", or false; 'assistant_masks' beside input_ids always count" : "");
  }
  if (arguments_.skip_prepare_dataset && format_ != Format::tokenized)
    fail_column(row, "input_ids", "a list of token ids (skip_prepare_dataset)");
  for (size_t i = 0; i < kBeside.size(); ++i) beside_[i] = find_column(row, kBeside[i]) != nullptr;
  if (format_ == Format::tokenized && beside_[3] && context.packing == Packing::wrapped) {
    fail_key("packing_strategy",
             "packing_strategy: wrapped: the documents of 'seq_lengths' ({}) would see each other; give bfd "
             "or bfd_split",
             first_where_);
  }
  if (is_conversational(format_)) open_template(row);
}

// Warns of a column that is not read: the order of formats is TRL's, and a row does not show the intended
// one.
void SftRows::tell_unread(const Row& given, const Row& converted) const {
  const std::string& text = arguments_.dataset_text_field;
  const auto became = [&](const char* name) {
    return find_column(given, name) != nullptr && find_column(converted, name) == nullptr;
  };
  std::set<std::string> read = {"prompt", "completion"},
                        names = {"input_ids", "completion", "messages", "conversations", text};
  if (format_ == Format::text) read = {text};
  if (format_ == Format::messages) read = {became("conversations") ? "conversations" : "messages"};
  if (format_ == Format::tokenized) read = {"input_ids"};
  if (became("instruction")) {
    read = {"instruction", "output"};
    names.insert({"system", "history"});
  }
  std::set<std::string> unread;
  for (const std::string& name : names)
    if (find_column(given, name) != nullptr && !read.contains(name)) unread.insert(name);
  if (unread.empty()) return;
  log_.warning("data",
               "{}: {} {} trained on; {} could be too, and {} ignored (dataset_select_columns names the "
               "columns that are read)",
               given.where, fmt::join(read, " and "), read.size() == 1 ? "is" : "are",
               fmt::join(unread, ", "), unread.size() == 1 ? "is" : "are");
}

// Opens the template. Markers are searched in the default template; a variant that has them replaces all
// templates, as in TRL.
void SftRows::open_template(const Row& first) {
  renderer_.emplace(tokenizer_, first, arguments_.template_keys);
  if (!arguments_.assistant_only_loss) return;
  const text::ChatTemplate* given = renderer_->chat_templates().find(nullptr);
  if (given == nullptr || !given->has_generation_markers()) {
    const std::optional<std::string> training =
        given == nullptr ? std::nullopt : text::training_template(given->source());
    if (!training) throw Error(Status::unsupported, std::string(kNoMarkers), "assistant_only_loss");
    renderer_->set_chat_template(*training);
  }
  warn_unless_stop_is_trained();
}

// Warns unless the last trained token of an assistant's turn is the token that ends it (TRL's
// is_chat_template_stop_token_trained): a special token, ignoring blank text.
void SftRows::warn_unless_stop_is_trained() const {
  Row row;
  row.value = base::Json::object();
  const base::Json turns = {{{"role", "user"}, {"content", "dummy"}},
                            {{"role", "assistant"}, {"content", "dummy"}},
                            {{"role", "user"}, {"content", "dummy"}}};
  Rendering rendering;
  try {
    rendering = render(row, turns, false, true);
  } catch (const Error&) {  // a template that needs other turns: not known
    return;
  }
  for (size_t i = rendering.ids.size(); i-- > 0;) {
    if (rendering.assistant[i] == 0) continue;
    const std::span<const int32_t> id(&rendering.ids[i], 1);
    const std::string text = tokenizer_.decode(id, false);
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    if (tokenizer_.decode(id, true).empty()) return;
    break;
  }
  log_.warning("data",
               "the chat template leaves the token that ends an assistant's turn out of what is trained "
               "(outside generation markers); the model may not learn to stop");
}

void SftRows::convert(Row& row) const {
  convert_conversations(row);
  convert_alpaca(row, arguments_.dataset_text_field, tokenizer_);
}

void SftRows::normalize(Row& row) const {
  select_columns(row, arguments_.dataset_select_columns);
  rename_columns(row, arguments_.dataset_columns);
  convert(row);
  const Format format = format_of(row, arguments_.dataset_text_field);
  if (format != format_) {
    fail(Status::format, "{}: the row's format is {}, but that of {} is {}; all rows must agree", row.where,
         format_name(format), first_where_, format_name(format_));
  }
}

// Appends EOS to the text field if the row has one without EOS, else to a completion without it.
void SftRows::append_eos(Row& row) const {
  for (const std::string& column : {arguments_.dataset_text_field, std::string("completion")}) {
    if (find_column(row, column) == nullptr) continue;
    const std::string& text = text_column(row, column);
    std::string ended = with_eos(tokenizer_, text);
    if (ended.size() == text.size()) continue;
    row.value[column] = std::move(ended);
    return;
  }
}

size_t SftRows::rendered_overhead(const Row& row) const {
  const base::Json& messages = messages_column(row, format_ == Format::messages ? "messages" : "prompt");
  const size_t rendered = renderer_->render(row, messages, format_ != Format::messages).text.size();
  return rendered - std::min(rendered, messages.dump().size());
}

SftRows::Rendering SftRows::render(const Row& row, const base::Json& messages, bool add_generation_prompt,
                                   bool assistant) const {
  const text::Rendered rendered = renderer_->render(row, messages, add_generation_prompt);
  const size_t left_out = add_generation_prompt ? 0 : renderer_->left_out(row, messages, rendered.text);
  if (!assistant) return {tokenizer_.encode(rendered.text, false, rendered.given), {}, left_out};
  text::Encoding encoding = tokenizer_.encode_with_offsets(rendered.text, false, rendered.given);
  std::vector<uint8_t> mask = text::assistant_mask(rendered, encoding.offsets);
  if (std::ranges::find(mask, 1) == mask.end()) {
    fail_key("assistant_only_loss",
             "assistant_only_loss: {}: no token of the row is the assistant's: the conversation has no "
             "assistant turn, or the chat template puts no {{% generation %}} markers around it",
             row.where);
  }
  return {std::move(encoding.ids), std::move(mask), left_out};
}

Tokens SftRows::labelled(Rendering rendering, const std::vector<uint8_t>& completion) const {
  const std::vector<uint8_t>& assistant = rendering.assistant;
  std::vector<int32_t> labels = rendering.ids;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!assistant.empty() && assistant[i] == 0) labels[i] = kIgnored;
    if (completion_only_ && !completion.empty() && completion[i] == 0) labels[i] = kIgnored;
  }
  return {std::move(rendering.ids), std::move(labels), {}, {}, rendering.left_out};
}

Tokens SftRows::join(const std::vector<int32_t>& prompt, Rendering whole) const {
  const size_t shared = common_prefix_length(prompt, whole.ids);
  std::vector<uint8_t> completion(whole.ids.size(), 1);
  std::fill_n(completion.begin(), shared, 0);
  Tokens out = labelled(std::move(whole), completion);
  if (shared < prompt.size())
    out.lost = tokenizer_.decode({prompt.data() + shared, prompt.size() - shared}, false);
  return out;
}

Tokens SftRows::prompt_completion(Row& row) const {
  const size_t own = text_column(row, "completion").size();
  append_eos(row);
  const std::string& prompt = text_column(row, "prompt");
  const std::string& completion = text_column(row, "completion");
  return join(tokenizer_.encode(prompt, true, tokenizer_.given_of(prompt.size())),
              {tokenizer_.encode(prompt + completion, true, tokenizer_.given_of(prompt.size() + own)), {}});
}

Tokens SftRows::text(Row& row) const {
  const size_t own = text_column(row, arguments_.dataset_text_field).size();
  append_eos(row);
  const std::string& text = text_column(row, arguments_.dataset_text_field);
  return labelled({tokenizer_.encode(text, true, tokenizer_.given_of(own)), {}}, {});
}

Tokens SftRows::prompt_completion_messages(const Row& row) const {
  const base::Json& prompt = messages_column(row, "prompt");
  base::Json whole = prompt;
  for (const base::Json& message : messages_column(row, "completion")) whole.push_back(message);
  return join(render(row, prompt, true, false).ids,
              render(row, whole, false, arguments_.assistant_only_loss));
}

Tokens SftRows::messages(const Row& row) const {
  return labelled(render(row, messages_column(row, "messages"), false, arguments_.assistant_only_loss), {});
}

// Keeps given labels; else applies the given masks, as for rows tokenised here.
Tokens SftRows::tokenized(const Row& row) const {
  for (size_t i = 0; i < kBeside.size(); ++i) {
    if (beside_[i] == (find_column(row, kBeside[i]) != nullptr)) continue;
    fail(Status::format, "{}: {} column '{}', unlike {}; all rows must agree", row.where,
         beside_[i] ? "has no" : "has a", kBeside[i], first_where_);
  }
  const auto [labels, assistant, completion, documents] = beside_;
  Rendering rendering{ids_column(row, "input_ids", vocab_size_), {}};
  const size_t count = rendering.ids.size();
  const auto lengths = documents ? lengths_column(row, "seq_lengths", count) : std::vector<int32_t>();
  const auto parted = [&](Tokens tokens) {
    if (!lengths.empty()) part(tokens, lengths);
    return tokens;
  };
  if (labels) return parted({std::move(rendering.ids), labels_column(row, "labels", vocab_size_, count), {}});
  if (arguments_.skip_prepare_dataset && (assistant || completion))
    fail_column(row, "labels", "a list (skip_prepare_dataset leaves masks unread)");
  if (assistant) rendering.assistant = mask_column(row, "assistant_masks", count);
  return parted(labelled(std::move(rendering),
                         completion ? mask_column(row, "completion_mask", count) : std::vector<uint8_t>()));
}

Tokens SftRows::tokens(Row& row) const {
  normalize(row);
  switch (format_) {
    case Format::tokenized:
      return tokenized(row);
    case Format::messages:
      return messages(row);
    case Format::prompt_completion_messages:
      return prompt_completion_messages(row);
    case Format::prompt_completion:
      return prompt_completion(row);
    case Format::text:
      break;
  }
  return text(row);
}

}  // namespace trl::data
