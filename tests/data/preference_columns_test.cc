// Conversions of preference rows against TRL's own helpers, and what is said of rows that they do not fit.
#include "data/row/preference_columns.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "data/row/conversions.h"
#include "data/row/row_text.h"
#include "data/source/table.h"
#include "preference_shop.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/letter_tokenizer.h"

namespace trl::data {
namespace {

Row row_of(base::Json value) { return {std::move(value), "t.jsonl:3", 0}; }

base::Json extracted(const base::Json& columns) {
  Row row = row_of(columns);
  extract_prompt(row);
  return row.value;
}

bool conversational(const base::Json& columns) {
  for (const auto& [name, value] : columns.items()) {
    if (name != "text" && name != "conversations") return is_messages(value);
  }
  return false;
}

// TRL's helper takes rows, and what is prepared of them here are ids: of one byte each.
base::Json unpaired_texts(size_t rows) {
  std::string jsonl;
  for (size_t i = 0; i < rows; ++i)
    jsonl += fmt::format("{{\"prompt\":\"p{0}\",\"chosen\":\"c{0}\",\"rejected\":\"r{0}\"}}\n", i);
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>());
  const auto list = prepare_kto(shop.table(jsonl), shop.context);
  base::Json out;
  for (int64_t i = 0; i < list->size(); ++i) {
    const UnpairedExample example = (*list)[i];
    out["prompt"].push_back(shop.tokenizer->decode(example.prompt_ids, true));
    out["completion"].push_back(shop.tokenizer->decode(example.completion_ids, true));
    out["label"].push_back(example.label);
  }
  return out;
}

// Where one text begins with the other, TRL's helper leaves the end of what they share in both.
const std::map<std::string, std::pair<std::string, std::string>> kOneWithinTheOther = {
    {"same", {"", ""}}, {"x", {" ", ""}}, {"one two", {" three", ""}}};

TEST(PreferenceColumns, AsTrlsHelpers) {
  TRL_NEED_GOLDEN("data/prepared/helpers.json");
  std::map<std::string, int> run;
  for (const base::Json& item : test::golden_json("data/prepared/helpers.json")["cases"]) {
    SCOPED_TRACE(item.dump());
    const std::string function = item["fn"];
    const base::Json& in = item["in"];
    if (function == "extract_prompt") {
      const base::Json out = extracted(in);
      const std::string rejected = in["rejected"];
      if (const auto own = kOneWithinTheOther.find(rejected); own != kOneWithinTheOther.end()) {
        ++run["of those, one within the other"];
        EXPECT_EQ(out["prompt"], rejected);
        EXPECT_EQ(out["chosen"], own->second.first);
        EXPECT_EQ(out["rejected"], own->second.second);
        EXPECT_NE(item["out"]["prompt"], rejected);
        continue;
      }
      for (const char* name : {"prompt", "chosen", "rejected"}) EXPECT_EQ(out[name], item["out"][name]);
    } else if (function == "is_conversational") {
      EXPECT_EQ(conversational(in), item["is_conversational"] == true);
      Row row = row_of(in);
      convert_conversations(row);
      EXPECT_EQ(row.value.contains("messages") && !in.contains("messages"),
                item["is_conversational_from_value"] == true);
    } else if (function == "common_prefix_length") {
      const auto ids = in.get<std::vector<std::vector<int32_t>>>();
      EXPECT_EQ(common_prefix_length(ids[0], ids[1]), item["out"].get<size_t>());
    } else {
      ASSERT_EQ(function, "unpair_preference_dataset");
      EXPECT_EQ(unpaired_texts(in.get<size_t>()), item["out"]);
    }
    ++run[function];
  }
  EXPECT_EQ(run, (std::map<std::string, int>{{"extract_prompt", 8},
                                             {"of those, one within the other", 3},
                                             {"is_conversational", 9},
                                             {"common_prefix_length", 5},
                                             {"unpair_preference_dataset", 1}}));
}

TEST(PreferenceColumns, PromptOfTextEndsAtACodePoint) {
  const auto prompt = [](const char* chosen, const char* rejected) {
    return extracted({{"chosen", chosen}, {"rejected", rejected}})["prompt"].get<std::string>();
  };
  EXPECT_EQ(prompt("na\u00efve", "na\u00e9"), "na");                  // differ in the last byte of two
  EXPECT_EQ(prompt("\u65e5\u672c", "\u65e5\u672c"), "\u65e5\u672c");  // all that is common
  EXPECT_EQ(prompt("\U0001F600", "\U0001F600a"), "\U0001F600");
  EXPECT_EQ(prompt("The sky is blue", "The sky is blue and vast"), "The sky is blue");
  EXPECT_EQ(prompt("The sky is ", "The sky is blue"), "The sky is ");
  EXPECT_EQ(prompt("x ", "y "), "");  // TRL looks at the last character before the first
  EXPECT_EQ(prompt(" a", " b"), "");
  EXPECT_EQ(prompt("a  b", "a  c"), "a ");
}

base::Json message(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }

TEST(PreferenceColumns, PromptOfMessagesEndsWhereTheyDiffer) {
  const base::Json user = message("user", "q"),
                   swapped = {{"content", "q"}, {"role", "user"}, {"name", nullptr}};
  const base::Json a = message("assistant", "a"), b = message("assistant", "b");
  const base::Json out = extracted({{"chosen", {user, a}}, {"rejected", {swapped, b}}});
  EXPECT_EQ(out["prompt"], base::Json::array({user}));
  EXPECT_EQ(out["chosen"], base::Json::array({a}));
  EXPECT_EQ(out["rejected"], base::Json::array({b}));
  const base::Json same = extracted({{"chosen", {user, a}}, {"rejected", {user, a}}});
  EXPECT_EQ(same["prompt"], base::Json::array({user, a}));
  EXPECT_EQ(same["rejected"], base::Json::array());
  const base::Json longer = extracted({{"chosen", {user, a, user, b}}, {"rejected", {user, a}}});
  EXPECT_EQ(longer["prompt"], base::Json::array({user, a}));
  EXPECT_EQ(longer["chosen"], base::Json::array({user, b}));
  EXPECT_EQ(longer["rejected"], base::Json::array());
}

TEST(PreferenceColumns, RowsWithoutAPrompt) {
  const base::Json user = message("user", "q");
  EXPECT_EQ(test::message_of([] {
              extracted({{"chosen", ""}, {"rejected", "b"}});
            }),
            "t.jsonl:3: column 'chosen' is empty, but text that begins with the prompt is expected");
  EXPECT_EQ(test::message_of([] {
              extracted({{"chosen", "a"}, {"rejected", ""}});
            }),
            "t.jsonl:3: column 'rejected' is empty, but text that begins with the prompt is expected");
  const base::Json other = message("user", "p");
  const std::string none =
      "t.jsonl:3: columns 'chosen' and 'rejected': their prompt cannot be determined; they must begin with "
      "the same messages, or there must be a column 'prompt'";
  EXPECT_EQ(test::message_of([&] {
              extracted({{"chosen", base::Json::array({user})}, {"rejected", base::Json::array({other})}});
            }),
            none);
}

TEST(PreferenceColumns, TextPromptBesideMessages) {
  const base::Json chosen = {message("user", "q"), message("assistant", "a")};
  const base::Json rejected = {message("user", "q"), message("assistant", "b")};
  Row row = row_of({{"prompt", "q"}, {"chosen", chosen}, {"rejected", rejected}});
  drop_text_prompt(row);
  EXPECT_FALSE(row.value.contains("prompt"));
  row = row_of({{"prompt", "other"}, {"chosen", chosen}, {"rejected", rejected}});
  EXPECT_EQ(test::message_of([&] { drop_text_prompt(row); }),
            "t.jsonl:3: column 'prompt' is a string, but a list of messages (as in 'chosen' and "
            "'rejected', which do "
            "not begin with it) is expected; the row's columns: prompt, chosen, rejected");
}

TEST(PreferenceColumns, CellsOfCsvStandForWhatIsCalledFor) {
  const auto source = open_memory_source("csv", "label,margin\nTrue,0.5\nfalse,\n1,x\nyes,1\n", "m.csv");
  const auto table = spool_rows(*source, {});
  std::vector<RowText> texts;
  table->fetch(std::vector<int64_t>{0, 1, 2, 3}, texts);
  std::vector<Row> rows;
  for (const RowText& text : texts) rows.push_back(parse_row(text));
  EXPECT_TRUE(label_column(rows[0], "label"));
  EXPECT_EQ(number_column(rows[0], "margin"), 0.5f);
  EXPECT_FALSE(label_column(rows[1], "label"));
  EXPECT_EQ(number_column(rows[1], "margin"), std::nullopt);
  EXPECT_TRUE(label_column(rows[2], "label"));
  EXPECT_TRUE(test::error_of([&] {
                number_column(rows[2], "margin");
              }).second.starts_with("m.csv:4: column 'margin'"));
  EXPECT_TRUE(
      test::error_of([&] { label_column(rows[3], "label"); }).second.starts_with("m.csv:5: column 'label'"));
  Row number = rows[0];
  number.value["label"] = 1.0;
  EXPECT_TRUE(label_column(number, "label"));
  number.value["label"] = 0.5;
  EXPECT_EQ(test::error_of([&] { label_column(number, "label"); }).first, Status::format);
  Row typed = rows[0];
  typed.untyped = false;
  EXPECT_EQ(test::error_of([&] { label_column(typed, "label"); }).first, Status::format);
}

}  // namespace
}  // namespace trl::data
