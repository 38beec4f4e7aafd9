// What a length profile looks like: JSON, the plot, and that the picture and the page are well-formed and
// stand alone.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "base/text/utf8.h"
#include "report/length_report.h"
#include "report/well_formed.h"

namespace trl::report {
namespace {

telemetry::LengthDistribution distribution(std::string name) {
  telemetry::LengthDistribution out;
  out.name = std::move(name);
  out.rows = 10;
  out.tokens = 1234567;
  out.min = 1;
  out.max = 3000;
  out.mean = 123456.7;
  out.percentiles = {2, 10, 20.5, 30, 40, 50, 60};
  out.histogram = {0, 20, {1, 5, 3, 0}, 1};
  return out;
}

telemetry::LengthProfile profile() {
  telemetry::LengthProfile out;
  out.name = "folder/<rows> & \"more\".jsonl";
  out.format = "text";
  out.rows = 10;
  out.tokens = 1000;
  out.batch_size = 4;
  out.accumulation = 2;
  out.lengths = {distribution("total"), distribution("prompt"), distribution("completion")};
  telemetry::LengthLimit limit;
  limit.max_length = 64;
  limit.rows_cut = 3;
  limit.rows_dropped = 1;
  limit.tokens_cut = 150;
  for (const telemetry::Layout layout : telemetry::kLayouts)
    limit.layouts.push_back({layout, 9, 3, 2, 800, 200, 200});
  out.limits = {limit};
  return out;
}

TEST(LengthProfile, JsonHasEveryNumber) {
  const base::Json json = base::parse_json(to_json(profile()), "profile");
  EXPECT_EQ(json["rows"], 10);
  EXPECT_EQ(json["per_device_train_batch_size"], 4);
  const base::Json& total = json["lengths"]["total"];
  EXPECT_EQ(total["median"], 20.5);
  EXPECT_EQ(total["p99"], 60);
  EXPECT_EQ(total["histogram"]["counts"], base::Json::array({1, 5, 3, 0}));
  const base::Json& limit = json["max_lengths"][0];
  EXPECT_EQ(limit["rows_cut_share"], 0.3);
  EXPECT_EQ(limit["tokens_cut_share"], 0.15);
  const base::Json& padded = limit["strategies"]["padded"];
  EXPECT_EQ(padded["rows"], 9);
  EXPECT_EQ(padded["padding_share"], 0.2);
  EXPECT_EQ(padded["lost_share"], 0.2);
  EXPECT_FALSE(padded.contains("fill"));
  const base::Json& bfd = limit["strategies"]["bfd"];
  EXPECT_EQ(bfd["packed_rows"], 9);
  EXPECT_DOUBLE_EQ(bfd["fill"].get<double>(), 800.0 / (9 * 64));
}

TEST(LengthProfile, ThePlotFitsItsColumns) {
  for (const int64_t columns : {60, 80, 132}) {
    const std::string text = to_text(profile(), columns);
    size_t lines = 0;
    for (size_t at = 0; at < text.size(); ++lines) {
      const size_t end = text.find('\n', at);
      ASSERT_NE(end, std::string::npos);
      const std::string line = text.substr(at, end - at);
      EXPECT_LE(static_cast<int64_t>(base::count_code_points(line)), columns) << line;
      at = end + 1;
    }
    EXPECT_GT(lines, 30u);
  }
  const std::string text = to_text(profile(), 80);
  for (const char* part : {"10 rows (text), 1 000 tokens", "rows by tokens: completion", "20.5",
                           "batches of 4 × 2", "rows beyond the bars, of up to 3 000 tokens: 1",
                           "max_length 64: 30.0% of rows cut", "group_by_length", "20.0%"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(LengthProfile, ThePictureStandsAlone) {
  const std::string svg = to_svg(profile());
  expect_well_formed(svg);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  for (const char* part : {"<title id=", "<desc id=", "prefers-color-scheme: dark", "40 to 59 tokens: 3 rows",
                           "&lt;rows&gt; &amp; &quot;more&quot;.jsonl", "bfd_split"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  for (const char* part : {"<script", "href", "url(", "nan", "inf", "var("})
    EXPECT_EQ(svg.find(part), std::string::npos) << part;
}

TEST(LengthProfile, ThePageStandsAlone) {
  const std::string html = to_html(profile());
  expect_well_formed(html);
  for (const char* part : {"<!DOCTYPE html>", "<svg", "Tokens per row", "wrapped", "20.5"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  for (const char* part : {"<script", "href", "url(", "src="})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
  // What the page says of the picture, the picture does not say again.
  for (const char* part : {"class=\"title\"", ">percentiles<", "<title id="})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("10 rows (text)"), std::string::npos);
}

TEST(LengthProfile, OneLengthAndNoLayouts) {
  telemetry::LengthProfile one = profile();
  one.lengths.resize(1);
  one.lengths[0].histogram = {7, 1, {10}, 0};
  one.lengths[0].percentiles.fill(7);
  one.limits[0].layouts.clear();
  expect_well_formed(to_svg(one));
  expect_well_formed(to_html(one));
  EXPECT_EQ(to_svg(one).find("nan"), std::string::npos);
  EXPECT_EQ(to_text(one, 80).find("padded"), std::string::npos);
}

TEST(LengthProfile, PeaksStandWhereTheyAreKnown) {
  for (const std::string& text : {to_text(profile(), 80), to_html(profile()), to_json(profile())})
    EXPECT_EQ(text.find("peak"), std::string::npos);
  telemetry::LengthProfile known = profile();
  known.limits[0].peak_bytes = 2310000000;
  EXPECT_NE(to_text(known, 80).find("of tokens cut off; peak 2.31 GB\n"), std::string::npos)
      << to_text(known, 80);
  EXPECT_EQ(base::parse_json(to_json(known), "profile")["max_lengths"][0]["peak_bytes"], 2310000000);
  for (const std::string& picture : {to_svg(known), to_html(known)}) {
    expect_well_formed(picture);
    EXPECT_NE(picture.find("peak 2.31 GB"), std::string::npos);
  }
  telemetry::LengthProfile falls = known;
  falls.limits.push_back(falls.limits[0]);
  falls.limits[1].max_length *= 2;
  for (const auto& [peak, told] : {std::pair{2320000000, false}, {2300000000, true}}) {
    falls.limits[1].peak_bytes = peak;
    for (const std::string& text : {to_text(falls, 80), to_html(falls)})
      EXPECT_EQ(text.find("A longer max_length can have a lower peak") != std::string::npos, told) << text;
  }
  telemetry::LengthProfile unknown = profile();
  unknown.no_peaks = "<model>/config.json: it is not there" + std::string(60, '.') + " and so on";
  EXPECT_NE(to_text(unknown, 80).find("\nno peak is predicted: <model>/config.json: it is not\n"),
            std::string::npos)
      << to_text(unknown, 80);
  EXPECT_EQ(base::parse_json(to_json(unknown), "profile")["no_peaks"], unknown.no_peaks);
  EXPECT_NE(to_html(unknown).find("&lt;model&gt;/config.json"), std::string::npos);
  expect_well_formed(to_html(unknown));
}

TEST(LengthProfile, SharesNeverLookLikeNothingOrAll) {
  EXPECT_EQ(percent(0, 10), "0%");
  EXPECT_EQ(percent(0, 0), "0%");
  EXPECT_EQ(percent(10, 10), "100%");
  EXPECT_EQ(percent(1, 100000), "<0.1%");
  EXPECT_EQ(percent(99999, 100000), ">99.9%");
  EXPECT_EQ(percent(1, 3), "33.3%");
}

}  // namespace
}  // namespace trl::report
