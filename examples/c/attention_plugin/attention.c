/* A plain attention kernel as a plug-in of libtrl: every formula of trl/kernel.h as it stands there, in
   float32, with the documents and heads divided among OpenMP's threads. A place to start from, not a fast
   one. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <trl/kernel.h>

#ifdef _OPENMP
#include <omp.h>
static int thread_number(void) { return omp_get_thread_num(); }
#else
static int thread_number(void) { return 0; }
#endif

static float bits_to_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint16_t round_to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (isnan(value)) return 0x7fc0;
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16); /* to nearest, ties to even */
}

/* The head_dim elements of one head of one token, as float32. */
static void load(const trl_kernel_batch* b, trl_kernel_input x, int64_t token, int64_t head, float* to) {
  const int64_t at = token * x.token_stride + head * x.head_stride;
  if (b->dtype == TRL_KERNEL_FLOAT32) {
    memcpy(to, (const float*)x.data + at, (size_t)b->head_dim * sizeof *to);
  } else {
    for (int64_t c = 0; c < b->head_dim; ++c)
      to[c] = bits_to_float((uint32_t)((const uint16_t*)x.data)[at + c] << 16);
  }
}

static void store(const trl_kernel_batch* b, trl_kernel_output x, int64_t token, int64_t head,
                  const float* from) {
  const int64_t at = token * x.token_stride + head * x.head_stride;
  if (b->dtype == TRL_KERNEL_FLOAT32) {
    memcpy((float*)x.data + at, from, (size_t)b->head_dim * sizeof *from);
  } else {
    for (int64_t c = 0; c < b->head_dim; ++c) ((uint16_t*)x.data)[at + c] = round_to_bfloat16(from[c]);
  }
}

static float dot(const float* a, const float* b, int64_t size) {
  float sum = 0;
  for (int64_t c = 0; c < size; ++c) sum += a[c] * b[c];
  return sum;
}

static void add_scaled(float* sum, float factor, const float* x, int64_t size) {
  for (int64_t c = 0; c < size; ++c) sum[c] += factor * x[c];
}

static int64_t length_of(const trl_kernel_batch* b, int64_t document) {
  return b->cu_seqlens[document + 1] - b->cu_seqlens[document];
}

/* Tokens that a document sees before its own. */
static int64_t shared_by(const trl_kernel_batch* b, int64_t document) {
  return b->prefix != NULL && b->prefix[document] >= 0 ? length_of(b, b->prefix[document]) : 0;
}

/* The first token that token i of a document sees, both counted from the start of its prefix. */
static int64_t first_seen(const trl_kernel_batch* b, int64_t i) {
  return b->window > 0 && i >= b->window ? i - b->window + 1 : 0;
}

/* One document after its prefix and one kv head in float32, in one thread's space: k and v, their
   gradients, a row of scores, and four heads of one token. */
struct place {
  float *k, *v, *dk, *dv, *scores, *q, *out, *d_out, *dq;
};

static int64_t most_keys(const trl_kernel_batch* b) { return (b->prefix != NULL ? 2 : 1) * b->max_length; }

static int64_t place_floats(const trl_kernel_batch* b) {
  return 4 * most_keys(b) * b->head_dim + most_keys(b) + 4 * b->head_dim;
}

static struct place place_of(const trl_kernel_batch* b) {
  const int64_t matrix = most_keys(b) * b->head_dim;
  struct place p;
  p.k = (float*)b->workspace + thread_number() * place_floats(b);
  p.v = p.k + matrix;
  p.dk = p.v + matrix;
  p.dv = p.dk + matrix;
  p.scores = p.dv + matrix;
  p.q = p.scores + most_keys(b);
  p.out = p.q + b->head_dim;
  p.d_out = p.out + b->head_dim;
  p.dq = p.d_out + b->head_dim;
  return p;
}

static int64_t workspace(const trl_kernel_batch* b, int32_t pass) {
  (void)pass; /* forward could do with less */
  return b->threads * place_floats(b) * (int64_t)sizeof(float);
}

static int32_t check(const trl_kernel_batch* b) {
  if (b->workspace_size >= workspace(b, TRL_KERNEL_PASS_FORWARD)) return 0;
  snprintf(b->message, (size_t)b->message_size, "%lld bytes of workspace are too few",
           (long long)b->workspace_size);
  return 1;
}

static void load_keys(const trl_kernel_batch* b, trl_kernel_input k, trl_kernel_input v, int64_t document,
                      int64_t kv_head, const struct place* p) {
  const int64_t shared = shared_by(b, document), length = length_of(b, document);
  for (int64_t j = 0; j < shared + length; ++j) {
    const int64_t token =
        j < shared ? b->cu_seqlens[b->prefix[document]] + j : b->cu_seqlens[document] + j - shared;
    load(b, k, token, kv_head, p->k + j * b->head_dim);
    load(b, v, token, kv_head, p->v + j * b->head_dim);
  }
}

static void forward_document(const trl_kernel_batch* b, const trl_kernel_attention_forward* a,
                             int64_t document, int64_t kv_head) {
  const int64_t d = b->head_dim, group = b->heads / b->kv_heads;
  const int64_t shared = shared_by(b, document), length = length_of(b, document);
  const struct place p = place_of(b);
  load_keys(b, a->k, a->v, document, kv_head, &p);
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    for (int64_t i = shared; i < shared + length; ++i) {
      const int64_t first = first_seen(b, i), token = b->cu_seqlens[document] + i - shared;
      float top = -INFINITY, sum = 0;
      load(b, a->q, token, h, p.q);
      for (int64_t j = first; j <= i; ++j) {
        p.scores[j] = (float)b->scale * dot(p.q, p.k + j * d, d);
        if (p.scores[j] > top) top = p.scores[j];
      }
      for (int64_t j = first; j <= i; ++j) sum += expf(p.scores[j] - top);
      const float lse = top + logf(sum);
      memset(p.out, 0, (size_t)d * sizeof *p.out);
      for (int64_t j = first; j <= i; ++j) add_scaled(p.out, expf(p.scores[j] - lse), p.v + j * d, d);
      a->lse[h * a->lse_head_stride + token] = lse;
      store(b, a->out, token, h, p.out);
    }
  }
}

/* dq of a document; what its tokens add to dk and dv, those of its prefix among them. */
static void backward_tokens(const trl_kernel_batch* b, const trl_kernel_attention_backward* a,
                            int64_t document, int64_t kv_head, const struct place* p) {
  const int64_t d = b->head_dim, group = b->heads / b->kv_heads;
  const int64_t shared = shared_by(b, document), length = length_of(b, document);
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    for (int64_t i = shared; i < shared + length; ++i) {
      const int64_t token = b->cu_seqlens[document] + i - shared;
      load(b, a->q, token, h, p->q);
      load(b, a->out, token, h, p->out);
      load(b, a->d_out, token, h, p->d_out);
      const float lse = a->lse[h * a->lse_head_stride + token], mean = dot(p->d_out, p->out, d);
      memset(p->dq, 0, (size_t)d * sizeof *p->dq);
      for (int64_t j = first_seen(b, i); j <= i; ++j) {
        const float weight = expf((float)b->scale * dot(p->q, p->k + j * d, d) - lse);
        const float ds = (float)b->scale * weight * (dot(p->d_out, p->v + j * d, d) - mean);
        add_scaled(p->dq, ds, p->k + j * d, d);
        add_scaled(p->dk + j * d, ds, p->q, d);
        add_scaled(p->dv + j * d, weight, p->d_out, d);
      }
      store(b, a->dq, token, h, p->dq);
    }
  }
}

static void store_keys(const trl_kernel_batch* b, const trl_kernel_attention_backward* a, int64_t document,
                       int64_t kv_head, int64_t first, const struct place* p) {
  for (int64_t j = 0; j < length_of(b, document); ++j) {
    store(b, a->dk, b->cu_seqlens[document] + j, kv_head, p->dk + (first + j) * b->head_dim);
    store(b, a->dv, b->cu_seqlens[document] + j, kv_head, p->dv + (first + j) * b->head_dim);
  }
}

/* A document without a prefix, with all that have it as theirs: its dk and dv sum over them. */
static void backward_document(const trl_kernel_batch* b, const trl_kernel_attention_backward* a, int64_t root,
                              int64_t kv_head) {
  const struct place p = place_of(b);
  for (int64_t n = root; n < b->documents; ++n) {
    if (n != root && (b->prefix == NULL || b->prefix[n] != root)) continue;
    const int64_t shared = shared_by(b, n), at = shared * b->head_dim;
    const size_t own = (size_t)(length_of(b, n) * b->head_dim) * sizeof(float);
    load_keys(b, a->k, a->v, n, kv_head, &p);
    memset(p.dk + at, 0, own);
    memset(p.dv + at, 0, own);
    backward_tokens(b, a, n, kv_head, &p);
    if (n != root) store_keys(b, a, n, kv_head, shared, &p);
  }
  store_keys(b, a, root, kv_head, 0, &p);
}

static int32_t forward(const trl_kernel_batch* b, const trl_kernel_attention_forward* a) {
  if (check(b) != 0) return 1;
#pragma omp parallel for schedule(dynamic) num_threads(b->threads)
  for (int64_t n = 0; n < b->documents * b->kv_heads; ++n)
    forward_document(b, a, n / b->kv_heads, n % b->kv_heads);
  return 0;
}

static int32_t backward(const trl_kernel_batch* b, const trl_kernel_attention_backward* a) {
  if (check(b) != 0) return 1;
#pragma omp parallel for schedule(dynamic) num_threads(b->threads)
  for (int64_t n = 0; n < b->documents * b->kv_heads; ++n) {
    const int64_t document = n / b->kv_heads;
    if (b->prefix == NULL || b->prefix[document] < 0) backward_document(b, a, document, n % b->kv_heads);
  }
  return 0;
}

const trl_kernel_attention_v1* trl_kernel_attention(uint32_t abi_version) {
  static const trl_kernel_attention_v1 table = {TRL_KERNEL_ABI_VERSION,
                                                sizeof table,
                                                "plain example",
                                                TRL_KERNEL_FLOAT32 | TRL_KERNEL_BFLOAT16,
                                                TRL_KERNEL_WINDOW | TRL_KERNEL_PREFIX,
                                                0,
                                                workspace,
                                                forward,
                                                backward};
  return abi_version >= TRL_KERNEL_ABI_VERSION ? &table : NULL;
}
