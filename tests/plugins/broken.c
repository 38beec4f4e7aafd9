/* The example plug-in with one thing wrong, which a definition names; COUNTS: nothing is. */
#define trl_kernel_attention example_attention
#include EXAMPLE
#undef trl_kernel_attention

#include <stdlib.h>

TRL_KERNEL_EXPORT const trl_kernel_attention_v1* trl_kernel_attention(uint32_t abi_version);

/* The first element of the last token of the batch, in an array that was written. */
static inline void put(const trl_kernel_batch* b, trl_kernel_output x, float value) {
  const int64_t at = (b->tokens - 1) * x.token_stride;
  if (b->dtype == TRL_KERNEL_FLOAT32)
    ((float*)x.data)[at] = value;
  else
    ((uint16_t*)x.data)[at] = round_to_bfloat16(value);
}

/* The same in an array that it may only read. */
static inline void write_to(const trl_kernel_batch* b, trl_kernel_input x) {
  const trl_kernel_output other = {(void*)x.data, x.token_stride, x.head_stride};
  put(b, other, 0.5f);
}

static inline int32_t fail(const trl_kernel_batch* b, const char* why) {
  snprintf(b->message, (size_t)b->message_size, "%s", why);
  return 7;
}

#if defined(COUNTS)
TRL_KERNEL_EXPORT int32_t counted_forwards;
#endif

static int32_t wrong_forward(const trl_kernel_batch* b, const trl_kernel_attention_forward* a) {
  trl_kernel_batch other = *b;
#if defined(FAILS)
  return fail(b, "the accelerator is on fire");
#endif
#if defined(ODD_TEXT)
  return fail(b, "caf\xC3\xA9 on fire \xFF\n\x1B[2Jsecond line\xE2\x80\xA8third");
#endif
#if defined(FAILS_LATER) /* after the comparison, and two steps of a model of two layers */
  static int calls = 0;
  if (++calls > 12) return fail(b, "");
#endif
#if defined(COUNTS)
  __atomic_add_fetch(&counted_forwards, 1, __ATOMIC_RELAXED);
#endif
#if defined(WRONG_SCALE)
  other.scale *= 1.03;
#elif defined(WRONG_WINDOW)
  if (b->window > 0) other.window = b->window + 1;
#elif defined(WRONG_EVEN_WINDOW)
  if (b->window > 0 && b->window % 8 == 0) other.window = b->window + 1;
#elif defined(NO_WIDE_WINDOW)
  if (b->window > 128) other.window = 0;
#elif defined(NO_GROUPED_WINDOW)
  if (b->heads / b->kv_heads > 2) other.window = 0;
#elif defined(IGNORES_PREFIX)
  other.prefix = NULL;
#endif
#if defined(MISSES_DOCUMENTS)
  int32_t whole[2] = {0, (int32_t)b->tokens};
  other.cu_seqlens = whole;
  other.documents = 1;
  other.max_length = b->tokens;
  other.workspace_size = workspace(&other, TRL_KERNEL_PASS_FORWARD);
  other.workspace = malloc((size_t)other.workspace_size);
  forward(&other, a);
  free(other.workspace);
  return 0;
#endif
  if (forward(&other, a) != 0) return 1;
#if defined(NAN_LATE)
  put(b, a->out, NAN);
#elif defined(SEES_THE_FUTURE)
  put(b, a->out, 0.25f);
#elif defined(WRITES_V)
  write_to(b, a->v);
#elif defined(BEHIND_WORKSPACE)
  ((char*)b->workspace)[b->workspace_size] = 0;
#endif
  return 0;
}

static int32_t wrong_backward(const trl_kernel_batch* b, const trl_kernel_attention_backward* a) {
  trl_kernel_attention_backward other = *a;
  trl_kernel_batch batch = *b;
#if defined(WRONG_WINDOW_BACKWARD)
  if (b->window > 128) batch.window = b->window + 1;
#elif defined(NO_PREFIX_BACKWARD)
  batch.prefix = NULL;
#endif
#if defined(UNWRITTEN_DQ)
  int32_t code;
  other.dq.data = malloc((size_t)(b->tokens * b->heads * b->head_dim) * sizeof(float));
  code = backward(b, &other);
  free(other.dq.data);
  return code;
#endif
  if (backward(&batch, &other) != 0) return 1;
#if defined(WRONG_DK)
  put(b, a->dk, 3.0f);
#elif defined(NEGATIVE_DV)
  put(b, a->dv, -100.0f);
#elif defined(WRITES_OUT)
  write_to(b, a->out);
#elif defined(WRITES_LSE)
  ((float*)a->lse)[0] = 0;
#elif defined(BEFORE_WORKSPACE)
  ((char*)b->workspace)[-1] = 0;
#endif
  return 0;
}

static int64_t wrong_workspace(const trl_kernel_batch* b, int32_t pass) {
#if defined(NEGATIVE_WORKSPACE)
  if (pass == TRL_KERNEL_PASS_BACKWARD) return -5;
#elif defined(HUGE_WORKSPACE)
  return INT64_MAX;
#elif defined(LARGE_WORKSPACE)
  return (int64_t)1 << 40;
#endif
  return workspace(b, pass);
}

const trl_kernel_attention_v1* trl_kernel_attention(uint32_t abi_version) {
  static trl_kernel_attention_v1 table;
  table = *example_attention(abi_version);
  table.name = "broken";
  table.forward = wrong_forward;
  table.backward = wrong_backward;
  table.workspace = wrong_workspace;
#if defined(NO_TABLE)
  return NULL;
#elif defined(NEWER)
  table.abi_version = TRL_KERNEL_ABI_VERSION + 1;
#elif defined(SHORT_TABLE)
  table.struct_size = 8;
#elif defined(NO_NAME)
  table.name = NULL;
#elif defined(EMPTY_NAME)
  table.name = "";
#elif defined(ODD_TEXT)
  table.name = "odd\xFF\nname";
#elif defined(NO_BACKWARD)
  table.backward = NULL;
#elif defined(NO_TYPES)
  table.dtypes = 64;
#elif defined(ONLY_FLOAT32)
  table.dtypes = TRL_KERNEL_FLOAT32;
#elif defined(SMALL_HEADS)
  table.max_head_dim = 8;
#elif defined(NEGATIVE_HEADS)
  table.max_head_dim = -3;
#elif defined(NO_WINDOW)
  table.flags = 0;
#endif
  return &table;
}
