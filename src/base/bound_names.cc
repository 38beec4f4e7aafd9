// Replaces functions that the libraries inside libtrl.so and libtrl_engine.so would otherwise take from the
// process: a guest reads no environment variable (src/libraries.cmake binds getenv to trl_no_variable), and
// zstd's trace hooks do nothing.
#include <cstddef>

extern "C" {
char* trl_no_variable(const char*) noexcept { return nullptr; }
unsigned long long ZSTD_trace_compress_begin(const void*) noexcept { return 0; }
unsigned long long ZSTD_trace_decompress_begin(const void*) noexcept { return 0; }
void ZSTD_trace_compress_end(unsigned long long, const void*) noexcept {}
void ZSTD_trace_decompress_end(unsigned long long, const void*) noexcept {}
}
