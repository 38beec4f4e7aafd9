#include "train/scoring/reference_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace trl::train {

namespace {

constexpr std::string_view kReferenceMagic = "TRLREF01";
constexpr uint64_t kReferenceFooter = 3 * sizeof(uint64_t);

template <typename T>
std::string_view raw(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

ReferenceFile::ReferenceFile(const std::string& path) : file_(path) {
  const std::string_view bytes = file_.bytes();
  const auto damaged = [&](const char* what) {
    fail(Status::format, "{}: {}: not a file of a reference's log-probabilities, or damaged", path, what);
  };
  if (bytes.size() < kReferenceMagic.size() + kReferenceFooter || !bytes.starts_with(kReferenceMagic))
    damaged("its first bytes differ");
  const std::string_view body = bytes.substr(0, bytes.size() - kReferenceFooter);
  uint64_t footer[3];
  std::memcpy(footer, body.data() + body.size(), sizeof footer);
  const uint64_t room = body.size() - kReferenceMagic.size();
  if (footer[0] > room / sizeof(float) || footer[1] > room / sizeof(ReferenceEntry) ||
      footer[0] * sizeof(float) + footer[1] * sizeof(ReferenceEntry) != room)
    damaged("its length differs");
  if (footer[2] != base::xxh3_64(body)) damaged("its checksum differs");
  values_ = footer[0];
  entries_ = footer[1];
}

ReferenceEntry ReferenceFile::entry(uint64_t index) const {
  ReferenceEntry entry;
  const size_t begin = kReferenceMagic.size() + values_ * sizeof(float);
  std::memcpy(&entry, file_.bytes().data() + begin + index * sizeof entry, sizeof entry);
  return entry;
}

std::optional<std::span<const float>> ReferenceFile::find(uint64_t digest) const {
  uint64_t low = 0, high = entries_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (entry(middle).digest < digest)
      low = middle + 1;
    else
      high = middle;
  }
  const ReferenceEntry found = low < entries_ ? entry(low) : ReferenceEntry{};
  if (low == entries_ || found.digest != digest || found.first > values_ ||
      found.count > values_ - found.first)
    return std::nullopt;
  file_.check();
  const char* const values = file_.bytes().data() + kReferenceMagic.size();
  return std::span(reinterpret_cast<const float*>(values) + found.first, found.count);
}

void write_reference_file(const std::string& path, const std::function<void(const AddReference&)>& body,
                          const base::WriteFault* fault) {
  const auto write = [&](base::FileWriter& out) {
    std::vector<ReferenceEntry> entries;
    uint64_t values = 0;
    out.write(kReferenceMagic);
    body([&](uint64_t digest, std::span<const float> of_sequence) {
      entries.push_back({digest, values, of_sequence.size()});
      out.write(raw(of_sequence));
      values += of_sequence.size();
    });
    std::ranges::stable_sort(entries, [](const auto& a, const auto& b) { return a.digest < b.digest; });
    const auto last = std::unique(entries.begin(), entries.end(),
                                  [](const auto& a, const auto& b) { return a.digest == b.digest; });
    entries.erase(last, entries.end());
    out.write(raw(std::span<const ReferenceEntry>(entries)));
    const uint64_t footer[] = {values, entries.size(), out.xxh3()};
    out.write(raw(std::span<const uint64_t>(footer)));
  };
  base::replace_file(path, write, fault);
}

}  // namespace trl::train
