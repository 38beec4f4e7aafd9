// Packs against trl.pack_dataset, and what holds for all packs.
#include "data/batch/packing.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "support/golden.h"

namespace trl::data {
namespace {

Packing strategy_of(const std::string& name) {
  return name == "bfd" ? Packing::bfd : name == "bfd_split" ? Packing::bfd_split : Packing::wrapped;
}

using Places = std::vector<std::vector<std::vector<int64_t>>>;

Places places(const std::vector<Pack>& packs) {
  Places out;
  for (const Pack& pieces : packs) {
    out.emplace_back();
    for (const Piece& p : pieces) out.back().push_back({p.row, p.start, p.length});
  }
  return out;
}

TEST(Packing, EqualsTrl) {
  TRL_NEED_GOLDEN("packing/cases.json");
  const base::Json file = test::golden_json("packing/cases.json");
  std::map<std::string, int> run;
  for (const base::Json& item : file["cases"]) {
    const auto lengths = item["lengths"].get<std::vector<int64_t>>();
    const std::string name = item["strategy"];
    const std::vector<Pack> packs = pack(lengths, item["seq_length"], strategy_of(name));
    ++run[name];
    if (item.contains("error")) {  // TRL cannot pack rows of nothing
      EXPECT_TRUE(packs.empty());
      continue;
    }
    ASSERT_EQ(places(packs), item["packs"].get<Places>()) << name << " " << item["seq_length"];
    if (name == "wrapped") continue;
    for (size_t i = 0; i < packs.size(); ++i) {
      for (size_t k = 0; k < packs[i].size(); ++k)
        EXPECT_EQ(packs[i][k].length, item["seq_lengths"][i][k].get<int64_t>());
    }
  }
  EXPECT_EQ(run, (std::map<std::string, int>{{"bfd", 41}, {"bfd_split", 41}, {"wrapped", 41}}));
}

// Every token lies in exactly one pack, but for those that bfd cuts off; no pack is too long.
TEST(Packing, KeepsEveryTokenOnce) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const int64_t capacity = 1 + static_cast<int64_t>(random() % 70);
    std::vector<int64_t> lengths(random() % 2500);
    for (int64_t& length : lengths) length = static_cast<int64_t>(random() % 90);
    for (const Packing strategy : {Packing::bfd, Packing::bfd_split, Packing::wrapped}) {
      std::vector<std::vector<int>> seen;
      for (const int64_t length : lengths) seen.emplace_back(static_cast<size_t>(length), 0);
      for (const Pack& pieces : pack(lengths, capacity, strategy)) {
        int64_t total = 0;
        for (const Piece& p : pieces) {
          total += p.length;
          ASSERT_GE(p.length, 1);
          for (int64_t i = 0; i < p.length; ++i)
            ++seen[static_cast<size_t>(p.row)][static_cast<size_t>(p.start + i)];
        }
        ASSERT_LE(total, capacity);
      }
      for (size_t row = 0; row < lengths.size(); ++row) {
        for (size_t i = 0; i < seen[row].size(); ++i) {
          const bool lost = strategy == Packing::bfd && static_cast<int64_t>(i) >= capacity;
          ASSERT_EQ(seen[row][i], lost ? 0 : 1);
        }
      }
    }
  }
}

// Best fit decreasing needs at most 11/9 of the fewest packs and a few more (Johnson et al. 1974). The fewest
// are only known from below here, hence another ninth.
TEST(Packing, BfdNeedsFewPacks) {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    const int64_t capacity = 64;
    std::vector<int64_t> lengths(1 + random() % 1000);
    for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(random() % 64);
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    int64_t halves = 0;
    for (const int64_t length : lengths) halves += length * 2 > capacity ? 1 : 0;
    const int64_t fewest = std::max((tokens + capacity - 1) / capacity, halves);
    EXPECT_LE(static_cast<int64_t>(pack(lengths, capacity, Packing::bfd).size()),
              fewest * 11 / 9 + fewest / 9 + 4);
  }
}

}  // namespace
}  // namespace trl::data
