// usage: tokenizer_bench MODEL_DIR TEXT [--peer PYTHON] [--megabytes N] [--threads N]
// Bytes a second of encoding the lines of TEXT (English, say) and of decoding them, with the tokenizer of
// MODEL_DIR and with a Unigram and a WordPiece tokenizer of the same vocabulary; the same with several
// threads at once; and of texts that are one word: a letter again and again, TEXT without its spaces, random
// letters. With
// --peer beside Hugging Face's `tokenizers`, each run in a process of its own, A B B A. A JSON line each.
#include <fstream>
#include <random>
#include <thread>

#include "base/files/files.h"
#include "support/command.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "support/scratch.h"
#include "text/derived_tokenizers.h"
#include "text/tokenizer/tokenizer.h"

#include <zlib.h>

namespace {

using namespace trl::bench;

struct Settings : PeerSettings {
  std::string model, text, peer;
  double seconds = 2;
  int megabytes = 10;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

uint32_t checksum(const std::vector<std::vector<int32_t>>& rows) {
  uLong sum = crc32(0, nullptr, 0);
  for (const auto& row : rows)
    sum = crc32(sum, reinterpret_cast<const Bytef*>(row.data()), static_cast<uInt>(4 * row.size()));
  return static_cast<uint32_t>(sum);
}

// What one process does.
Json run_child_work(const Json& work) {
  const auto tokenizer = trl::text::Tokenizer::from_files(work.at("folder").get<std::string>());
  const std::string text = trl::base::read_file(work.at("text"));
  const std::vector<std::string> lines =
      work.at("lines").get<bool>() ? lines_of(text) : std::vector<std::string>{text};
  std::vector<std::vector<int32_t>> rows(lines.size());
  const auto encode = [&] {
    for (size_t i = 0; i < lines.size(); ++i) rows[i] = tokenizer->encode(lines[i], true);
  };
  const auto encode_apart = [&] {
    for (const std::string& line : lines) tokenizer->encode(line, true);
  };
  const int threads = work.at("threads");
  Json out;
  out["seconds"] = repeat(work.at("seconds"), [&] {
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(encode_apart);
    encode();
    for (std::thread& other : others) other.join();
  });
  out["peak_bytes"] = peak_resident();
  out["checksum"] = checksum(rows);
  if (work.at("decode").get<bool>()) {
    out["decode_seconds"] = repeat(work.at("seconds"), [&] {
      for (const auto& row : rows) tokenizer->decode(row, true);
    });
  }
  return out;
}

struct Case {
  std::string model;   // for the report
  std::string folder;  // of the tokenizer
  std::string what;
  std::string file;
  bool lines;
  int threads;
};

double median_seconds(const std::vector<Json>& runs, const char* key) {
  std::vector<double> all;
  for (const Json& run : runs)
    for (const Json& value : run.at(key)) all.push_back(value.get<double>());
  return median(all);
}

void measure(const Settings& s, const Case& c) {
  const bool decode = c.lines && c.threads == 1;
  const Json work = {{"folder", c.folder},   {"text", c.file},   {"lines", c.lines},
                     {"threads", c.threads}, {"decode", decode}, {"seconds", s.seconds}};
  std::vector<std::string> sides = {"libtrl"};
  if (!s.peer.empty()) sides.push_back("tokenizers");
  std::vector<std::vector<Json>> runs(sides.size());
  interleave(sides.size(), s.rounds, [&](size_t i) {
    runs[i].push_back(i == 0 ? run_json({"/proc/self/exe", kChildFlag, work.dump()})
                             : run_json({s.peer, TRL_TOKENIZER_PEER, work.dump()}));
  });
  const double bytes = static_cast<double>(std::filesystem::file_size(c.file)) * c.threads;
  for (size_t i = 0; i < sides.size(); ++i) {
    Json line = {{"bench", "tokenizer"},
                 {"by", sides[i]},
                 {"model", c.model},
                 {"text", c.what},
                 {"threads", c.threads}};
    line["encode_mb_per_s"] = 1e-6 * bytes / median_seconds(runs[i], "seconds");
    if (decode) line["decode_mb_per_s"] = 1e-6 * bytes / median_seconds(runs[i], "decode_seconds");
    line["peak_mb"] = 1e-6 * median_of(runs[i], "peak_bytes");
    if (i > 0) line["same_ids"] = runs[i][0].at("checksum") == runs[0][0].at("checksum");
    print(line);
  }
}

// Texts without a place to cut.
std::vector<std::pair<std::string, std::string>> write_long_words(const Settings& s, const Scratch& scratch) {
  const size_t size = static_cast<size_t>(s.megabytes) * 1'000'000;
  std::mt19937_64 random(1);
  std::string letters(size, 'a'), letter(size, 'a'), joined;
  for (char& c : letters) c = static_cast<char>('a' + random() % 26);
  const std::string text = trl::base::read_file(s.text);
  for (size_t i = 0; joined.size() < size && !text.empty(); ++i) {
    const char c = text[i % text.size()];
    if (c != ' ' && c != '\n') joined += c;
  }
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& [name, bytes] : {std::pair<std::string, const std::string&>{"one letter", letter},
                                    {"random letters", letters},
                                    {"no spaces", joined}}) {
    files.emplace_back(name, scratch.file(std::to_string(files.size())));
    std::ofstream(files.back().second, std::ios::binary) << bytes;
  }
  return files;
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("Encoding and decoding text");
  app.add_option("model", s.model, "a model directory with a byte-level tokenizer.json");
  app.add_option("text", s.text, "a file of text");
  app.add_option("--peer", s.peer, "a Python that has tokenizers");
  app.add_option("--seconds", s.seconds, "of a process")->check(CLI::PositiveNumber);
  app.add_option("--megabytes", s.megabytes, "of each text that is one word")->check(CLI::Range(1, 1000));
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return print(run_child_work(Json::parse(s.child))), 0;
  if (s.text.empty()) throw std::runtime_error("MODEL_DIR and TEXT are needed");
  const Scratch scratch(s.scratch);
  std::vector<std::pair<std::string, std::string>> models = {{"as given", s.model}};
  for (const char* type : {"Unigram", "WordPiece"})
    models.emplace_back(type, write_derived_tokenizer(s.model, type, scratch.file(type)));
  const auto words = write_long_words(s, scratch);
  for (const auto& [name, folder] : models) {
    measure(s, {name, folder, "lines", s.text, true, 1});
    if (s.threads > 1) measure(s, {name, folder, "lines", s.text, true, s.threads});
    for (const auto& [what, file] : words) measure(s, {name, folder, what, file, false, 1});
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("tokenizer_bench", [&] { return run(argc, argv); });
}
