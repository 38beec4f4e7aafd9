// trl_runtime_mount without an engine: names, lifetimes, and files that a tokenizer is read from.
#include <fcntl.h>
#include <unistd.h>
#include <stdexcept>

#include "mounted.h"

namespace {

using host::Error;
using host::Mounted;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/tokenizer.json")

struct Opened {
  trl_status status;
  std::string message;
  int32_t code;
  std::string file;  // the place of the error
  host::Tokenizer tokenizer;
};

Opened open_mounted(const std::string& path, trl_runtime* runtime = nullptr) {
  trl_tokenizer* made = nullptr;
  Error error;
  const trl_status status = trl_tokenizer_open(runtime, path.c_str(), nullptr, &made, error);
  const char* file = nullptr;
  trl_error_place(error.get(), &file, nullptr, nullptr, nullptr);
  return {status, error.message(), trl_error_callback_code(error.get()), file != nullptr ? file : "",
          host::Tokenizer(made)};
}

size_t tokens(const trl_tokenizer* tokenizer) {
  const std::string text = "The quick brown fox";
  size_t count = 0;
  EXPECT_EQ(trl_tokenizer_encode(tokenizer, text.data(), text.size(), 0, 0, nullptr, 0, &count, nullptr),
            TRL_OK);
  return count;
}

TEST(Mount, NamesAreLettersDigitsAndMarks) {
  const auto runtime = host::runtime();
  for (const char* name : {"", "a/b", "a b", "..", "host://a", "\xc3\xa4"}) {
    Mounted files(name);
    Error error;
    EXPECT_EQ(files.mount(runtime.get(), error), TRL_E_INVALID_ARGUMENT) << name;
    EXPECT_EQ(files.destroyed, 1) << name;
  }
  Mounted good("az-AZ_09");
  EXPECT_EQ(good.mount(runtime.get()), TRL_OK);
}

TEST(Mount, ANameBelongsToTheProcessWhileItIsMounted) {
  Mounted first("one"), second("one");
  auto runtime = host::runtime();
  const auto other = host::runtime();
  ASSERT_EQ(first.mount(runtime.get()), TRL_OK);
  Error error;
  EXPECT_EQ(second.mount(other.get(), error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("'one' is mounted already")) << error.message();
  EXPECT_EQ(second.destroyed, 1);
  EXPECT_EQ(first.destroyed, 0);
  runtime.reset();
  EXPECT_EQ(first.destroyed, 1);
  EXPECT_EQ(second.mount(other.get()), TRL_OK);
}

TEST(Mount, ARuntimeIsNeeded) {
  Mounted files("none");
  Error error;
  EXPECT_EQ(files.mount(nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(files.destroyed, 1);
}

TEST(Mount, ATokenizerIsThatOfTheDirectory) {
  NEED_MODEL();
  const std::string directory = host::golden("models/qwen2");
  Mounted files("tokens");
  files.take(directory, "folder");
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  const Opened want = open_mounted(directory), got = open_mounted(files.path("folder"));
  ASSERT_EQ(got.status, TRL_OK) << got.message;
  EXPECT_EQ(tokens(got.tokenizer.get()), tokens(want.tokenizer.get()));
  EXPECT_EQ(open_mounted(files.path("folder/")).status, TRL_OK);
}

TEST(Mount, ObjectsOfItsRuntimeKeepIt) {
  NEED_MODEL();
  Mounted files("kept");
  files.take(host::golden("models/qwen2"));
  auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  Opened own = open_mounted(files.path(), runtime.get());
  ASSERT_EQ(own.status, TRL_OK) << own.message;
  runtime.reset();
  EXPECT_EQ(files.destroyed, 0);
  EXPECT_EQ(open_mounted(files.path()).status, TRL_OK);
  own.tokenizer.reset();
  EXPECT_EQ(files.destroyed, 1);
  const Opened gone = open_mounted(files.path());
  EXPECT_EQ(gone.status, TRL_E_NOT_FOUND);
  EXPECT_NE(gone.message.find("nothing is mounted as 'kept'"), std::string::npos) << gone.message;
}

TEST(Mount, FailingReadsAreNamed) {
  NEED_MODEL();
  Mounted files("faulty");
  files.take(host::golden("models/qwen2"));
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  const std::string place = files.path("tokenizer.json");
  using Read = decltype(files.on_read);
  const auto refused = [&](const Read& read) {
    files.on_read = [&](const std::string& file, uint64_t offset, size_t size) {
      return file == "tokenizer.json" ? read(file, offset, size) : Mounted::kGoOn;
    };
    Opened opened = open_mounted(files.path());
    files.on_read = nullptr;
    EXPECT_NE(opened.message.find(place), std::string::npos) << opened.message;
    return opened;
  };
  const Opened failed = refused([](auto&&...) -> int64_t { return -77; });
  EXPECT_EQ(failed.status, TRL_E_CALLBACK);
  EXPECT_EQ(failed.code, -77);
  EXPECT_EQ(failed.file, place);
  const Opened far = refused([](auto&&...) -> int64_t { return -(1LL << 40); });
  EXPECT_EQ(far.status, TRL_E_CALLBACK);
  EXPECT_EQ(far.code, INT32_MIN);
  EXPECT_NE(far.message.find("returned -1099511627776"), std::string::npos) << far.message;
  const Opened threw = refused([](auto&&...) -> int64_t { throw std::runtime_error("the vault is locked"); });
  EXPECT_EQ(threw.status, TRL_E_CALLBACK);
  EXPECT_NE(threw.message.find("the vault is locked"), std::string::npos) << threw.message;
  const Opened absent = refused([](auto&&...) -> int64_t { return TRL_E_NOT_FOUND; });
  EXPECT_EQ(absent.status, TRL_E_NOT_FOUND);
  // It ends before the size that it has said.
  const Opened ended =
      refused([](const std::string&, uint64_t, size_t size) -> int64_t { return size == 0 ? 100 : 0; });
  EXPECT_EQ(ended.status, TRL_E_IO);
  const Opened beyond =
      refused([](const std::string&, uint64_t, size_t size) -> int64_t { return size == 0 ? 100 : 101; });
  EXPECT_EQ(beyond.status, TRL_E_CALLBACK);
  files.put("tokenizer.json", "{\"model\": ");
  EXPECT_EQ(open_mounted(files.path()).status, TRL_E_FORMAT);
}

// A host may give less than it was asked for, as read() does.
TEST(Mount, ShortReadsGoOn) {
  NEED_MODEL();
  static constexpr size_t kAtOnce = 1000;
  struct Slow {
    std::string bytes;
    static int64_t read(void* self, const char* file, uint64_t offset, void* buffer, size_t size) {
      const std::string& bytes = static_cast<Slow*>(self)->bytes;
      if (std::string(file) != "tokenizer.json") return TRL_E_NOT_FOUND;
      if (buffer == nullptr) return static_cast<int64_t>(bytes.size());
      const size_t count = std::min({size, kAtOnce, bytes.size() - static_cast<size_t>(offset)});
      std::memcpy(buffer, bytes.data() + offset, count);
      return static_cast<int64_t>(count);
    }
  };
  Slow slow{host::read_file(host::golden("models/qwen2/tokenizer.json"))};
  ASSERT_GT(slow.bytes.size(), 2 * kAtOnce);
  const auto runtime = host::runtime();
  ASSERT_EQ(trl_runtime_mount(runtime.get(), "slow", Slow::read, nullptr, &slow, nullptr, nullptr), TRL_OK);
  const Opened opened = open_mounted("host://slow");
  EXPECT_EQ(opened.status, TRL_OK) << opened.message;
}

TEST(Mount, PathsStayWithin) {
  NEED_MODEL();
  Mounted files("within");
  files.take(host::golden("models/qwen2"));
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  for (const char* path : {"host://within/../within", "host://within//a", "host://within/./a"}) {
    const Opened opened = open_mounted(path);
    EXPECT_EQ(opened.status, TRL_E_INVALID_ARGUMENT) << opened.message;
  }
  for (const char* path : {"host://", "host:///within"}) {
    const Opened opened = open_mounted(path);
    EXPECT_EQ(opened.status, TRL_E_INVALID_ARGUMENT) << opened.message;
    EXPECT_NE(opened.message.find("the name of a mount is missing: give host://NAME or host://NAME/FOLDER"),
              std::string::npos)
        << opened.message;
  }
  const Opened wrong = open_mounted("host://with in/a");
  EXPECT_EQ(wrong.status, TRL_E_INVALID_ARGUMENT) << wrong.message;
  EXPECT_NE(wrong.message.find("'with in' is not the name of a mount"), std::string::npos) << wrong.message;
  const Opened other = open_mounted("host://other");
  EXPECT_EQ(other.status, TRL_E_NOT_FOUND) << other.message;
  EXPECT_NE(other.message.find("nothing is mounted as 'other'"), std::string::npos) << other.message;
}

TEST(Mount, OtherPathsAreRefused) {
  Mounted files("other");
  files.put("rows.jsonl", "{\"text\": \"a\"}\n");
  files.put("recipe.yaml", "seed: 1\n");
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  Error error;
  trl_dataset* rows = nullptr;
  EXPECT_EQ(trl_dataset_open(nullptr, files.path("rows.jsonl").c_str(), nullptr, &rows, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names(files.path("rows.jsonl"))) << error.message();
  const auto config = host::config();
  EXPECT_EQ(trl_config_load(config.get(), files.path("recipe.yaml").c_str(), error), TRL_E_UNSUPPORTED);
  EXPECT_TRUE(error.names(files.path("recipe.yaml"))) << error.message();
  EXPECT_TRUE(files.bytes_read.empty());
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    EXPECT_GE(number_, 0) << path;
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  std::string path(const char* folder) const { return folder + std::to_string(number_); }

 private:
  const int number_;
};

TEST(Descriptors, ArePathsOfRowsAndTokenizers) {
  NEED_MODEL();
  const host::Scratch scratch;
  host::write_file(scratch / "rows", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  const Descriptor rows((scratch / "rows").string()), model(host::golden("models/qwen2"));
  for (const char* folder : {"/proc/self/fd/", "/dev/fd/"}) {
    const host::Dataset opened = host::open_rows(rows.path(folder));
    int64_t count = 0;
    EXPECT_EQ(trl_dataset_get_row_count(opened.get(), &count, nullptr), TRL_OK);
    EXPECT_EQ(count, 2);
    const Opened tokenizer = open_mounted(model.path(folder));
    EXPECT_EQ(tokenizer.status, TRL_OK) << tokenizer.message;
  }
}

}  // namespace
