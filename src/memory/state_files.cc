// A file: a header, the states as they are or as one zstd frame, and the XXH3 of both.
#include "memory/state_files.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <ctime>

#include "base/error.h"

namespace trl::memory {

namespace {

constexpr uint64_t kMagic = 0x3173657461747374;  // "tstates1"
constexpr std::string_view kAside = ".tmp";
constexpr int64_t kAbandonedSeconds = 24 * 60 * 60;  // a temporary file this old has no writer any more

struct Header {
  uint64_t magic, raw, stored;
};
static_assert(sizeof(Header) == 24);

std::string_view bytes_of(const auto& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

// Returns the compressed bytes; empty: they would not be smaller.
std::string compressed(std::string_view raw) {
  std::string out(ZSTD_compressBound(raw.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 1);
  out.resize(ZSTD_isError(size) != 0u || size >= raw.size() ? 0 : size);
  return out;
}

// Writes a temporary file and renames it, without a sync: after a power cut the checksum shows the damage.
void place_file(const std::string& path, const base::WriteFault* fault,
                const std::function<void(base::FileWriter&)>& body) {
  static std::atomic<uint64_t> number{0};  // two trainers of a process may write the same file
  const std::string aside = fmt::format("{}.{}-{}{}", path, ::getpid(), number++, kAside);
  try {
    {
      base::FileWriter writer(aside, fault);
      body(writer);
    }
    if (fault != nullptr && *fault) (*fault)(path, 0);
    if (::rename(aside.c_str(), path.c_str()) != 0) base::fail_errno(path, "cannot be replaced");
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
}

// The defect of the file; empty: none.
std::string_view unpack(std::string_view file, std::span<char> states) {
  Header header{};
  uint64_t sum = 0;
  if (file.size() < sizeof header + sizeof sum) return "it ends early";
  std::memcpy(&header, file.data(), sizeof header);
  if (header.magic != kMagic) return "it does not begin with the expected bytes";
  if (header.stored != file.size() - sizeof header - sizeof sum)
    return "its length is not the one in its header";
  std::memcpy(&sum, file.data() + file.size() - sizeof sum, sizeof sum);
  if (sum != base::xxh3_64(file.substr(0, file.size() - sizeof sum))) return "its checksum is wrong";
  if (header.raw != states.size()) return "it holds states of another size";
  const char* const from = file.data() + sizeof header;
  if (header.stored == header.raw) {
    std::memcpy(states.data(), from, states.size());
  } else if (ZSTD_decompress(states.data(), states.size(), from, header.stored) != states.size()) {
    return "it cannot be decompressed";
  }
  return {};
}

}  // namespace

StateFiles::StateFiles(Options options, const base::Json& about)
    : options_(std::move(options)), about_(about.dump(2) + "\n") {
  check_owner(about);
}

void StateFiles::check_owner(const base::Json& about) const {
  if (!base::file_exists(file_of_owner())) return;
  const base::Json there = base::read_json_file(file_of_owner());
  const auto text = [](const base::Json& json, const std::string& name) {
    const base::Json value = json.is_object() ? json.value(name, base::Json()) : base::Json();
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const auto& [name, value] : about.items()) {
    if (name == "model" || text(there, name) == text(about, name)) continue;
    fail_key(
        "cache_frozen_layers",
        "cache_frozen_layers: {} holds states of {} with {}: {}, and those of this run ({}) have {}: {}; "
        "give another directory, or remove that one",
        options_.directory, text(there, "model"), name, text(there, name), text(about, "model"), name,
        text(about, name));
  }
}

std::string StateFiles::path(const std::string& key) const {
  return base::join_path(base::join_path(options_.directory, key.substr(0, 2)), key.substr(2) + ".states");
}

bool StateFiles::has(const std::string& key) const { return base::file_exists(path(key)); }

bool StateFiles::read(const std::string& key, std::span<char> states) const {
  const std::string file = path(key);
  std::string why;
  try {
    why = unpack(base::read_file(file), states);
    if (why.empty()) return true;
    why = fmt::format("{}: damaged: {}", file, why);
  } catch (const Error& error) {
    if (error.status() == Status::not_found) return false;
    why = error.message();
  }
  if (options_.log != nullptr)
    options_.log->warning("cache", "cache_frozen_layers: {}; its states are computed anew", why);
  return false;
}

void StateFiles::write(const std::string& key, std::string_view states) {
  if (failed_) return;
  try {
    std::call_once(begun_, [&] { begin(); });
    const std::string packed = options_.zstd ? compressed(states) : std::string();
    const std::string_view stored = packed.empty() ? states : packed;
    const Header header{kMagic, states.size(), stored.size()};
    const std::string file = path(key);
    base::make_directories(base::join_path(options_.directory, key.substr(0, 2)));
    place_file(file, options_.write_fault, [&](base::FileWriter& out) {
      out.write(bytes_of(header));
      out.write(stored);
      out.write(bytes_of(out.xxh3()));
    });
  } catch (const Error& error) {
    if (failed_.exchange(true) || options_.log == nullptr) return;
    options_.log->warning("cache",
                          "cache_frozen_layers: {}; nothing more is kept, and the run continues without it",
                          error.message());
  }
}

void StateFiles::begin() {
  base::make_directories(options_.directory);
  clear();
  if (!base::file_exists(file_of_owner())) base::replace_file(file_of_owner(), about_, options_.write_fault);
}

// Removes temporary files that killed runs left behind.
void StateFiles::clear() const {
  const int64_t now = ::time(nullptr);
  for (const std::string& folder : base::list_directory(options_.directory)) {
    const std::string inside = base::join_path(options_.directory, folder);
    if (folder.size() != 2 || !base::is_directory(inside)) continue;
    for (const std::string& name : base::list_directory(inside)) {
      const std::string file = base::join_path(inside, name);
      struct stat info {};
      if (name.ends_with(kAside) && ::stat(file.c_str(), &info) == 0 &&
          now - info.st_mtime > kAbandonedSeconds)
        ::unlink(file.c_str());
    }
  }
}

}  // namespace trl::memory
