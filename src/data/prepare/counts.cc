#include "data/prepare/counts.h"

#include "base/error.h"
#include "base/text/number.h"

namespace trl::data {

int64_t Counts::dropped() const {
  int64_t rows = 0;
  for (size_t event = kFirstDropped; event < Event::count; ++event) rows += met[event].rows;
  return rows;
}

std::string Counts::of_read(int64_t rows) const {
  return fmt::format("{} of {}", rows, base::quantity(read, "row"));
}

void Counts::add_row(const RowText& row) {
  ++read;
  if (row.short_row) add(Event::short_row, [&] { return row.where(); });
}

void Counts::add(const Events& events, const RowText& row) {
  const size_t from = is_dropped(events) ? kFirstDropped : 0;
  for (size_t event = from; event < Event::count; ++event)
    if (events[event]) add(static_cast<Event::Kind>(event), [&] { return row.where(); });
}

void Counts::add(const Counts& later) {
  read += later.read;
  lost_tokens += later.lost_tokens;
  kept += later.kept;
  tokens += later.tokens;
  any_trained = any_trained || later.any_trained;
  desirable += later.desirable;
  for (size_t event = 0; event < Event::count; ++event) {
    if (met[event].rows == 0) met[event].first = later.met[event].first;
    met[event].rows += later.met[event].rows;
  }
}

base::Json Counts::to_json() const {
  base::Json events = base::Json::array();
  for (const Met& event : met) events.push_back({event.rows, event.first});
  return {{"read", read},
          {"lost_tokens", lost_tokens},
          {"kept", kept},
          {"tokens", tokens},
          {"any_trained", any_trained},
          {"desirable", desirable},
          {"events", std::move(events)}};
}

Counts Counts::from_json(const base::Json& json) try {
  Counts out;
  out.read = json.at("read");
  out.lost_tokens = json.at("lost_tokens");
  out.kept = json.at("kept");
  out.tokens = json.at("tokens");
  out.any_trained = json.at("any_trained");
  out.desirable = json.at("desirable");
  for (size_t event = 0; event < Event::count; ++event) {
    const base::Json& met = json.at("events").at(event);
    out.met[event] = {met.at(0), met.at(1)};
  }
  return out;
} catch (const base::Json::exception& error) {
  fail(Status::format, "counts of prepared rows: {}", error.what());
}

void Counts::report_left_out(std::string_view name, base::LogSink& log) const {
  const Met& rows = met[Event::left_out];
  if (rows.rows == 0) return;
  log.warning("data",
              "{}: in {} the chat template renders nothing of a message, which is then not trained on: does "
              "it know the message's role? (the first: {})",
              name, of_read(rows.rows), rows.first);
}

void Counts::report_short_rows(std::string_view name, base::LogSink& log) const {
  const Met& rows = met[Event::short_row];
  if (rows.rows == 0) return;
  log.warning("data",
              "{}: {} {} fewer cells than the header has names; the missing ones are null (the first: {})",
              name, of_read(rows.rows), rows.rows == 1 ? "has" : "have", rows.first);
}

}  // namespace trl::data
