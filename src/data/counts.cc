#include "data/counts.h"

#include "base/error.h"

namespace trl::data {

namespace {

std::string limit_of(const config::SftDataArguments& arguments) {
  return arguments.max_length ? fmt::format("max_length {}", *arguments.max_length) : "no max_length";
}

}  // namespace

base::Json Counts::to_json() const {
  return {{"read", read},
          {"cut", cut},
          {"lost_tokens", lost_tokens},
          {"dropped", dropped},
          {"first_dropped", first_dropped},
          {"split", split},
          {"first_split", first_split},
          {"short_rows", short_rows},
          {"first_short", first_short},
          {"untrained", untrained},
          {"kept", kept},
          {"tokens", tokens},
          {"any_trained", any_trained}};
}

Counts Counts::from_json(const base::Json& json) try {
  Counts out;
  out.read = json.at("read");
  out.cut = json.at("cut");
  out.lost_tokens = json.at("lost_tokens");
  out.dropped = json.at("dropped");
  out.first_dropped = json.at("first_dropped");
  out.split = json.at("split");
  out.first_split = json.at("first_split");
  out.short_rows = json.at("short_rows");
  out.first_short = json.at("first_short");
  out.untrained = json.at("untrained");
  out.kept = json.at("kept");
  out.tokens = json.at("tokens");
  out.any_trained = json.at("any_trained");
  return out;
} catch (const base::Json::exception& error) {
  fail(Status::format, "counts of prepared rows: {}", error.what());
}

void Counts::add_row(const RowText& row) {
  ++read;
  if (row.short_row && short_rows++ == 0) first_short = row.where();
}

void Counts::report_short_rows(std::string_view name, base::LogSink& log) const {
  if (short_rows == 0) return;
  log.warning("data",
              "{}: {} of {} rows have fewer cells than the header has names; the missing ones are null (the "
              "first: {})",
              name, short_rows, read, first_short);
}

void Counts::check(std::string_view name, const config::SftDataArguments& arguments) const {
  if (read == 0) fail(Status::format, "{}: holds no rows", name);
  if (any_trained) return;
  fail(Status::format,
       "{}: nothing is left to train on: none of the {} rows keeps a trained token ({}, {} rows cut)", name,
       read, limit_of(arguments), cut);
}

void Counts::report(std::string_view name, const config::SftDataArguments& arguments,
                    base::LogSink& log) const {
  const std::string limit = limit_of(arguments);
  if (dropped > 0) {
    log.warning(
        "data",
        "{}: {} of {} rows dropped, since no trained token is left in them (the first: {}); {} rows cut to "
        "{} ({} tokens lost)",
        name, dropped, read, first_dropped, cut, limit, lost_tokens);
  } else if (cut > 0) {
    log.warning("data", "{}: {} of {} rows cut to {} ({} tokens lost); 0 rows dropped", name, cut, read,
                limit, lost_tokens);
  }
  if (split > 0) {
    log.warning(
        "data",
        "{}: in {} of {} rows the tokens of the prompt do not begin those of prompt and completion; the "
        "completion starts where they part, and this end of the prompt is not trained on (the first: {})",
        name, split, read, first_split);
  }
  report_short_rows(name, log);
  if (untrained > 0) {
    log.warning("data", "{}: {} of {} rows hold no trained token within {}: they train nothing", name,
                untrained, read, limit);
  }
  log.info("data", "{}: {} rows, {} tokens", name, kept, tokens);
}

}  // namespace trl::data
