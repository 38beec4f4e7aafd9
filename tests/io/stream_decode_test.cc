// gzip and zstd undone by content; truncation and damage told from the end.
#include "io/stream.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdio>
#include <thread>

#include "base/error.h"
#include "base/files/files.h"
#include "io/temporary_file.h"

namespace trl::io {
namespace {

std::string gzip(const std::string& text) {
  z_stream state{};
  EXPECT_EQ(deflateInit2(&state, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(compressBound(text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i * 7919) + "\n";
  return text;
}

std::string read_all(ByteStream& stream, size_t piece = 1000) {
  std::string all, buffer(piece, '\0');
  while (const size_t got = stream.read(buffer.data(), buffer.size())) all.append(buffer, 0, got);
  return all;
}

std::string decode_error(std::string bytes) {
  try {
    read_all(*open_memory_stream(std::move(bytes), "x"));
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::format);
    return error.message();
  }
  return "no error";
}

// Of a pipe, as of a file; but only once.
TEST(Stream, DecodesAPipe) {
  const test::TemporaryDirectory directory;
  const std::string pipe = directory.file("pipe"), text = numbers(40000);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(is_read_once(pipe));
  EXPECT_FALSE(is_read_once(directory.path()));
  EXPECT_FALSE(is_read_once(directory.file("none")));
  for (const std::string& bytes : {text, gzip(text), zstd(text), std::string("x")}) {
    std::thread writer([&] { directory.write("pipe", bytes); });
    const auto stream = open_file_stream(pipe);
    EXPECT_EQ(read_all(*stream), bytes.size() == 1 ? bytes : text);
    writer.join();
    if (bytes.size() == 1) continue;
    try {
      stream->rewind();
      ADD_FAILURE() << "rewound";
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), pipe + ": cannot be rewound: what was read of a pipe is gone");
    }
  }
}

TEST(Stream, DecodesByContentAndRewinds) {
  const std::string text = numbers(40000);
  for (const std::string& bytes :
       {text, gzip(text), zstd(text), std::string(), std::string("\x1F"), gzip(""), zstd("")}) {
    const std::unique_ptr<ByteStream> stream = open_memory_stream(bytes, "x");
    const std::string first = read_all(*stream);
    EXPECT_EQ(first, bytes.size() > 100 ? text : bytes == "\x1F" ? bytes : "");
    stream->rewind();
    EXPECT_EQ(read_all(*stream, 77), first);
  }
}

TEST(Stream, ReadsSeveralMembers) {
  const std::string a = numbers(300), b = numbers(5);
  EXPECT_EQ(read_all(*open_memory_stream(gzip(a) + gzip(b), "x"), 64), a + b);
  EXPECT_EQ(read_all(*open_memory_stream(zstd(a) + zstd(b), "x"), 64), a + b);
  for (const char kind : {'\x50', '\x5F'}) {  // skippable frames
    const std::string skipped = kind + std::string("\x2A\x4D\x18\x03\0\0\0abc", 10);
    EXPECT_EQ(read_all(*open_memory_stream(skipped + zstd(a) + skipped + zstd(b), "x"), 64), a + b);
  }
}

TEST(Stream, ZeroBytesBehindAGzipMemberArePadding) {
  const std::string text = numbers(300);
  EXPECT_EQ(read_all(*open_memory_stream(gzip(text) + std::string(700'000, '\0'), "x")), text);
  EXPECT_EQ(read_all(*open_memory_stream(gzip(text) + std::string(9, '\0') + gzip("b"), "x")), text + "b");
  EXPECT_NE(decode_error(gzip("a") + std::string(9, '\0') + "tail").find("damaged gzip stream"),
            std::string::npos);
}

TEST(Stream, EveryTruncationIsAnError) {
  const std::string text = numbers(300);
  for (const std::string& whole : {gzip(text), zstd(text)}) {
    for (size_t length = 4; length < whole.size(); ++length) {
      EXPECT_NE(decode_error(whole.substr(0, length)).find("ends early: the file is truncated"),
                std::string::npos)
          << length;
    }
  }
}

TEST(Stream, DamageIsAnError) {
  std::string bytes = gzip(numbers(300));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x40);
  EXPECT_NE(decode_error(bytes).find("damaged gzip stream"), std::string::npos);
  EXPECT_NE(decode_error(gzip("a") + "tail").find("damaged gzip stream"), std::string::npos);
  bytes = zstd(numbers(300));
  bytes[6] = static_cast<char>(bytes[6] ^ 0x7F);
  EXPECT_NE(decode_error(bytes).find("zstd stream"), std::string::npos);
}

TEST(Stream, FilesThatCannotBeRead) {
  const std::string directory = testing::TempDir() + "trl_stream_test";
  base::make_directories(directory);
  for (const auto& [path, status] :
       {std::pair{directory + "/none.jsonl", Status::not_found}, {directory, Status::io}}) {
    try {
      open_file_stream(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), status);
      EXPECT_NE(error.message().find(path), std::string::npos);
    }
  }
  base::write_file(directory + "/a", gzip("hello"));
  EXPECT_EQ(read_all(*open_file_stream(directory + "/a")), "hello");
  for (const std::string name : {"/a.gz", "/a.jsonl.zst"}) {  // too short for what the name says
    base::write_file(directory + name, gzip("hello").substr(0, name == "/a.gz" ? 1 : 0));
    try {
      open_file_stream(directory + name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::format);
      EXPECT_EQ(error.message(),
                directory + name + ": the compressed stream ends early: the file is truncated");
    }
    base::write_file(directory + name, "plain");  // as in datasets, the first bytes count
    EXPECT_EQ(read_all(*open_file_stream(directory + name)), "plain");
  }
  base::remove_tree(directory);
}

}  // namespace
}  // namespace trl::io
