// The interface of the private module libtrl_sentencepiece.so: SentencePiece's library behind a plain C
// interface, because that library's symbols collide with those of Debian's libtorch.
#pragma once
#include <cstddef>
#include <cstdint>

namespace trl::sentencepiece {

inline constexpr const char* kModuleFile = "libtrl_sentencepiece.so";
inline constexpr const char* kEntryName = "trl_sentencepiece_module";
inline constexpr int32_t kModuleVersion = 1;

enum class Kind : int32_t { normal, unknown, control, unused, byte };

// Receives text from a function of the module; valid for the call.
struct TextSink {
  void* to;
  void (*put)(void* to, const char* text, size_t size);
};
struct TokenSink {
  void* to;
  void (*put)(void* to, int32_t id, uint32_t begin, uint32_t end);
};

// The functions of a model, which is immutable: concurrent. Functions that may fail pass the reason to error
// and return null or false.
struct Module {
  int32_t version;
  void* (*open)(const char* bytes, size_t size, const TextSink* error);
  void (*close)(void* model);
  int32_t (*size)(const void* model);
  Kind (*kind)(const void* model, int32_t id);
  void (*piece)(const void* model, int32_t id, const TextSink* piece);
  int32_t (*find)(const void* model, const char* piece, size_t size);  // the unknown token's id if not found
  bool (*encode)(const void* model, const char* text, size_t size, const TokenSink* tokens,
                 const TextSink* error);
  bool (*decode)(const void* model, const int32_t* ids, size_t count, const TextSink* text,
                 const TextSink* error);
};

}  // namespace trl::sentencepiece
