// report_to tensorboard: event files as TensorBoard reads them. A file is a row of TFRecords (length, masked
// CRC-32C of the length, bytes, masked CRC-32C of the bytes), each one an Event of event.proto, written here
// field by field. Tags are those of transformers' TensorBoardCallback: train/loss, eval/loss.
//
// A resumed run writes another file into the folder of its earlier files. The file begins with a session
// start at the next step, which tells TensorBoard to forget the contents of earlier files from there on.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <ctime>

#include "base/files/files.h"
#include "telemetry/recorder.h"

namespace trl::telemetry {

namespace {

// CRC-32C (Castagnoli), reflected polynomial 0x82f63b78.
constexpr std::array<uint32_t, 256> kCrc = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = value;
  }
  return table;
}();

uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = (crc >> 8) ^ kCrc[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename T>
std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  for (size_t i = 0; i < sizeof value; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string framed(const std::string& event) {
  const std::string length = little_endian<uint64_t>(event.size());
  return length + little_endian(masked_crc(length)) + event + little_endian(masked_crc(event));
}

// The wire format of protocol buffers: (field << 3 | type), then the value.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string integer_field(int field, int64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(static_cast<uint64_t>(value));
}
std::string double_field(int field, double value) {
  return varint(static_cast<uint64_t>(field) << 3 | 1) + little_endian(std::bit_cast<uint64_t>(value));
}
std::string float_field(int field, float value) {
  return varint(static_cast<uint64_t>(field) << 3 | 5) + little_endian(std::bit_cast<uint32_t>(value));
}
std::string bytes_field(int field, std::string_view bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}

// Event: wall_time 1, step 2, then one of file_version 3, summary 5, session_log 7.
std::string event(int64_t step, const std::string& what) {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return framed(double_field(1, now) + integer_field(2, step) + what);
}

std::string tag(const std::string& name) {
  for (const std::string prefix : {"eval", "test"})
    if (name.starts_with(prefix + "_")) return prefix + "/" + name.substr(prefix.size() + 1);
  return "train/" + name;
}

// Summary: value 1 { tag 1, simple_value 2 }.
std::string summary(const Record& record) {
  std::string values;
  for (const Entry& entry : record.entries()) {
    if (entry.name == "step") continue;
    values +=
        bytes_field(1, bytes_field(1, tag(entry.name)) + float_field(2, static_cast<float>(entry.value)));
  }
  return values;
}

int64_t step_of(const Record& record) {
  for (const Entry& entry : record.entries())
    if (entry.name == "step") return static_cast<int64_t>(entry.value);
  return 0;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}_{:02}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

class TensorBoard final : public Recorder {
 public:
  TensorBoard(const std::string& output_dir, const std::string& logging_dir)
      : runs_(logging_dir.empty() ? base::join_path(output_dir, "runs") : logging_dir),
        own_folder_(logging_dir.empty()) {
    base::make_directories(runs_);
  }
  std::string_view name() const override { return "tensorboard"; }

  void begin(const TrainerState& state) override {
    const bool resumed = state.global_step > 0;
    const std::string folder = own_folder_ ? base::join_path(runs_, folder_name(resumed)) : runs_;
    base::make_directories(folder);
    for (int n = 0; path_.empty() || base::file_exists(path_); ++n) {
      path_ = base::join_path(folder, fmt::format("events.out.tfevents.{:010}.{}.{}.{}", std::time(nullptr),
                                                  host_name(), ::getpid(), n));
    }
    std::string start = event(0, bytes_field(3, "brain.Event:2"));
    if (resumed) start += event(state.global_step + 1, bytes_field(7, integer_field(1, 1)));  // status START
    base::append_file(path_, start);
  }

  void add(const TrainerState& state) override {
    const Record& record = state.log_history.back();
    base::append_file(path_, event(step_of(record), bytes_field(5, summary(record))));
  }

 private:
  // Returns the newest folder if resumed, else a new name: names begin with the time, so the last one is the
  // newest.
  std::string folder_name(bool resumed) const {
    if (resumed) {
      const std::vector<std::string> before = base::list_directory(runs_);
      if (!before.empty()) return before.back();
    }
    return time_text() + "_" + host_name();
  }

  const std::string runs_;
  const bool own_folder_;
  std::string path_;
};

}  // namespace

std::unique_ptr<Recorder> make_tensorboard(const std::string& output_dir, const std::string& logging_dir) {
  return std::make_unique<TensorBoard>(output_dir, logging_dir);
}

}  // namespace trl::telemetry
