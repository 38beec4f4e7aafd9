// See sft_tokens.h. With packing nothing is dropped and the packer cuts; without it, a row that is too long
// is cut to max_length and dropped if no trained token is left, as in TRL (only if max_length is set).
#include "data/prepare/sft_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text/number.h"

namespace trl::data {

namespace {

constexpr int64_t kGrain = 8;

std::string limit_of(const config::DataArguments& arguments) {
  return arguments.max_length ? fmt::format("max_length {}", *arguments.max_length) : "no max_length";
}

bool is_trained(int32_t label) { return label != kIgnored; }

// Says whether an example trains a token. The first token of a document is predicted from nothing and trains
// nothing.
bool trains(const Example& example) {
  size_t at = 0;
  for (const int32_t length : example.seq_lengths) {
    const auto begin = example.labels.begin() + static_cast<std::ptrdiff_t>(at);
    if (length > 0 && std::any_of(begin + 1, begin + length, is_trained)) return true;
    at += static_cast<size_t>(length);
  }
  return false;
}

void count(const Example& example, Counts& counts) {
  ++counts.kept;
  counts.tokens += static_cast<int64_t>(example.input_ids.size());
  counts.any_trained = counts.any_trained || trains(example);
}

// Appends the lengths of a row's documents within its tokens [start, start + length).
void append_documents(const Tokens& row, int64_t start, int64_t length, std::vector<int32_t>& out) {
  if (row.documents.empty()) return out.push_back(static_cast<int32_t>(length));
  int64_t at = 0;
  for (const int32_t document : row.documents) {
    const int64_t begin = std::max(at, start);
    const int64_t end = std::min(at += document, start + length);
    if (begin < end) out.push_back(static_cast<int32_t>(end - begin));
  }
}

Example single(Tokens&& tokens, int64_t source_row) {
  std::vector<int32_t> documents;
  append_documents(tokens, 0, static_cast<int64_t>(tokens.ids.size()), documents);
  return {std::move(tokens.ids), std::move(tokens.labels), std::move(documents), {source_row}};
}

void require_tokens(const Tokens& tokens, const Place& where) {
  if (tokens.ids.empty()) fail(Status::format, "{}: the row does not hold a token", where);
}

}  // namespace

SftTokens::SftTokens(const PrepareContext& context, const Row& first)
    : arguments_(*context.arguments),
      context_([&] {
        PrepareContext own = context;
        own.arguments = &arguments_;
        return own;
      }()),
      rows_(context_, first),
      least_bytes_to_drop_(find_least_bytes_to_drop(first)) {}

bool SftTokens::cuts() const {
  return context_.packing == Packing::none && arguments_.max_length.has_value() &&
         !arguments_.skip_prepare_dataset;
}

bool SftTokens::cut(Tokens& tokens) const {
  const auto length = static_cast<size_t>(*arguments_.max_length);
  if (tokens.ids.size() <= length) return false;
  if (!tokens.documents.empty()) {
    const size_t start = arguments_.truncation_keep_end ? tokens.ids.size() - length : 0;
    std::vector<int32_t> documents;
    append_documents(tokens, static_cast<int64_t>(start), static_cast<int64_t>(length), documents);
    tokens.documents = std::move(documents);
  }
  for (std::vector<int32_t>* values : {&tokens.ids, &tokens.labels})
    if (arguments_.truncation_keep_end)
      values->erase(values->begin(), values->end() - static_cast<std::ptrdiff_t>(length));
    else
      values->resize(length);
  return true;
}

template <class Where>
void SftTokens::cut(Tokens& tokens, const Where& where, Counts& counts) const {
  const size_t before = tokens.ids.size();
  if (!cuts() || !cut(tokens)) return;
  counts.add(Event::cut, where);
  counts.lost_tokens += static_cast<int64_t>(before - tokens.ids.size());
}

bool SftTokens::is_dropped(const Tokens& tokens) const {
  return tokens.ids.empty() || (cuts() && std::ranges::none_of(tokens.labels, is_trained));
}

// A token is at least one byte of the rendered template. The bytes that the template adds to a row are
// estimated from the first row, four times and some, so that a row's own tools and system prompts fit in.
size_t SftTokens::find_least_bytes_to_drop(const Row& first) const {
  if (!cuts() || reads_ids()) return SIZE_MAX;
  if (!arguments_.assistant_only_loss) {
    const bool prompts =
        rows_.format() == Format::prompt_completion || rows_.format() == Format::prompt_completion_messages;
    // The end of such a row is its completion, which is trained.
    if (!prompts || !rows_.completion_only_loss() || arguments_.truncation_keep_end) return SIZE_MAX;
  }
  size_t added = 16;
  if (rows_.has_template()) {
    Row row = first;
    rows_.normalize(row);
    added = 4 * rows_.rendered_overhead(row) + 256;
  }
  const auto length = static_cast<size_t>(*arguments_.max_length);
  return length - std::min(length, added);
}

std::vector<Example> SftTokens::examples(const std::vector<RowText>& texts,
                                         std::span<const int64_t> source_rows, bool keep_all,
                                         Counts& counts) const {
  std::vector<Tokens> tokens(texts.size());
  context_.pool->parallel_for(static_cast<int64_t>(texts.size()), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      base::poll();
      Row row = parse_row(texts[i]);
      tokens[i] = rows_.tokens(row);
    }
  });
  for (size_t i = 0; i < texts.size(); ++i) {
    counts.add_row(texts[i]);
    if (tokens[i].lost)
      counts.add(Event::parted, [&] { return fmt::format("{}: '{}'", texts[i].where(), *tokens[i].lost); });
    if (tokens[i].left_out > 0)
      counts.add(Event::left_out,
                 [&] { return fmt::format("{}, message {}", texts[i].where(), tokens[i].left_out); });
  }
  std::vector<Example> out = context_.packing == Packing::none
                                 ? whole(tokens, texts, source_rows, keep_all, counts)
                                 : packed(tokens, source_rows, counts);
  for (const Example& example : out) count(example, counts);
  return out;
}

std::vector<Example> SftTokens::whole(std::vector<Tokens>& tokens, const std::vector<RowText>& texts,
                                      std::span<const int64_t> source_rows, bool keep_all,
                                      Counts& counts) const {
  std::vector<Example> out;
  out.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto where = [&] { return texts[i].where(); };
    cut(tokens[i], where, counts);
    if (is_dropped(tokens[i]) && keep_all) {
      require_tokens(tokens[i], texts[i].where());
      counts.add(Event::untrained, where);
    } else if (is_dropped(tokens[i])) {
      counts.add(Event::nothing_trained, where);
      continue;
    }
    out.push_back(single(std::move(tokens[i]), source_rows[i]));
  }
  return out;
}

std::vector<Example> SftTokens::packed(const std::vector<Tokens>& tokens,
                                       std::span<const int64_t> source_rows, Counts& counts) const {
  const int64_t capacity = *arguments_.max_length;
  std::vector<int64_t> lengths;
  for (const Tokens& row : tokens) {
    lengths.push_back(static_cast<int64_t>(row.ids.size()));
    if (context_.packing != Packing::bfd || lengths.back() <= capacity) continue;
    counts.add(Event::cut, [] { return std::string(); });
    counts.lost_tokens += lengths.back() - capacity;
  }
  std::vector<Example> out;
  for (const Pack& pieces : pack(lengths, capacity, context_.packing)) {
    Example& example = out.emplace_back();
    for (const Piece& piece : pieces) {
      const Tokens& row = tokens[static_cast<size_t>(piece.row)];
      const auto append = [&](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
        const auto begin = from.begin() + piece.start;
        to.insert(to.end(), begin, begin + piece.length);
      };
      append(example.input_ids, row.ids);
      append(example.labels, row.labels);
      append_documents(row, piece.start, piece.length, example.seq_lengths);
      example.source_rows.push_back(source_rows[static_cast<size_t>(piece.row)]);
    }
    // The documents of a wrapped row attend to each other, as in TRL.
    if (context_.packing == Packing::wrapped)
      example.seq_lengths = {static_cast<int32_t>(example.input_ids.size())};
  }
  return out;
}

std::vector<std::string> SftTokens::records(const std::vector<RowText>& texts,
                                            std::span<const int64_t> source_rows, bool keep_all,
                                            Counts& counts) const {
  const std::vector<Example> made = examples(texts, source_rows, keep_all, counts);
  std::vector<std::string> out(made.size());
  context_.pool->parallel_for(static_cast<int64_t>(out.size()), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) out[i] = encode(made[i]);
  });
  return out;
}

std::string SftTokens::record(const RowText& text, int64_t source_row) const {
  Row row = parse_row(text);
  Tokens tokens = rows_.tokens(row);
  if (cuts()) cut(tokens);
  require_tokens(tokens, text.where());
  return encode(single(std::move(tokens), source_row));
}

std::optional<Counts> SftTokens::drops(const RowText& text) const {
  Row row = parse_row(text);
  if (!arguments_.assistant_only_loss && find_column(row, "tools") == nullptr) {
    Row named = row;
    rows_.normalize(named);
    const base::Json* prompt = find_column(named, "prompt");
    const size_t bytes =
        prompt->is_string() ? prompt->get_ref<const std::string&>().size() : prompt->dump().size();
    if (bytes < least_bytes_to_drop_) return std::nullopt;
  }
  Tokens tokens = rows_.tokens(row);
  Counts counts;
  counts.add_row(text);
  const auto where = [&] { return text.where(); };
  cut(tokens, where, counts);
  if (!is_dropped(tokens)) return std::nullopt;
  counts.add(Event::nothing_trained, where);
  return counts;
}

std::string SftTokens::identity() const { return fmt::format("sft {}", completion_only_loss()); }

void SftTokens::check(const Counts& counts, std::string_view name) const {
  if (counts.any_trained) return;
  fail(Status::format, "{}: nothing is left to train on: of {}, none keeps a trained token ({}, {} cut)",
       name, base::quantity(counts.read, "row"), limit_of(arguments_),
       base::quantity(counts[Event::cut].rows, "row"));
}

void SftTokens::report(const Counts& counts, std::string_view name) const {
  base::LogSink& log = *context_.log;
  const std::string limit = limit_of(arguments_);
  const int64_t cut = counts[Event::cut].rows;
  if (const auto& [dropped, first] = counts[Event::nothing_trained]; dropped > 0) {
    log.warning(
        "data",
        "{}: {} dropped, since no trained token is left in them (the first: {}); {} cut to {} ({} lost)",
        name, counts.of_read(dropped), first, base::quantity(cut, "row"), limit,
        base::quantity(counts.lost_tokens, "token"));
  } else if (cut > 0) {
    log.warning("data", "{}: {} cut to {} ({} lost); 0 rows dropped", name, counts.of_read(cut), limit,
                base::quantity(counts.lost_tokens, "token"));
  }
  if (const auto& [parted, first] = counts[Event::parted]; parted > 0) {
    log.warning(
        "data",
        "{}: in {} the tokens of the prompt are not the first tokens of prompt and completion together; the "
        "completion starts where they differ, and this end of the prompt is not trained on (the first: {})",
        name, counts.of_read(parted), first);
  }
  counts.report_left_out(name, log);
  counts.report_short_rows(name, log);
  if (const int64_t untrained = counts[Event::untrained].rows; untrained > 0) {
    log.warning("data", "{}: no trained token is within {} in {}, which trains nothing", name, limit,
                counts.of_read(untrained));
  }
  log.info("data", "{}: {}, {}", name, base::quantity(counts.kept, "row"),
           base::quantity(counts.tokens, "token"));
}

}  // namespace trl::data
