/*
 * Custom attention kernels for libtrl. Apache-2.0.
 *
 * `attn_implementation: plugin:PATH` trains with the attention of a shared library that exports one
 * function, trl_kernel_attention. It includes this header and does not link libtrl. When a trainer is
 * created, before rows and weights are read, it is loaded and its numbers are compared with those of the
 * built-in attention. Tokens are always generated with the built-in attention, so log-probabilities of
 * generated tokens differ from those in training by rounding. examples/c/attention_plugin is a complete
 * plug-in.
 *
 * It computes, for each document and each query head h (kv head g = h / (heads / kv_heads)):
 *
 *   s[i][j]  = scale * sum_c q[i][h][c] * k[j][g][c]    where i sees j, else -infinity
 *   lse[i]   = log sum_j exp(s[i][j])                   natural logarithm
 *   p[i][j]  = exp(s[i][j] - lse[i])
 *   out[i]   = sum_j p[i][j] * v[j][g]
 *
 * i and j count from 0 in the document; i sees j when j <= i and, with a window, i - j < window. Of a
 * document with a prefix, i and j count from 0 in the prefix and continue in the document: with P tokens in
 * the prefix, its own tokens are i = P, P + 1, ..., and j runs over both, so a window reaches back into the
 * prefix. A prefix has no prefix itself, and its own tokens see the same as without others. Backward (Dao et
 * al. 2022, FlashAttention, appendix B.2):
 *
 *   dp[i][j] = sum_c d_out[i][h][c] * v[j][g][c]
 *   ds[i][j] = p[i][j] * (dp[i][j] - sum_c d_out[i][h][c] * out[i][h][c])
 *   dq[i]    = scale * sum_j ds[i][j] * k[j][g]
 *   dk[j]    = scale * sum_i ds[i][j] * q[i][h]         summed over the heads h that share g
 *   dv[j]    = sum_i p[i][j] * d_out[i][h]              summed over the heads h that share g
 *
 * dk and dv of a token sum over all i that see it, whatever their document: those of a prefix over its own
 * tokens and over those of every document that has it as its prefix.
 *
 * Sums and exponentials are computed in float32 at least, whatever the arrays hold; with arrays of bfloat16
 * the operands of a product, p and ds among them, may be rounded to it. out, dq, dk and dv may differ from
 * those of the built-in attention, computed in float32, by 2e-5 of the largest absolute value in that array
 * for float32, and by 2e-2 of it for bfloat16; a kernel that differs more when a trainer is created is
 * refused. lse is not compared, since only the kernel itself reads it. With a model that caps its scores, or
 * drops weights in training, every plug-in is refused.
 *
 * Every element of an output is written; what was there before is undefined. Nothing else is: not the inputs
 * (of backward, out and lse are inputs), and no byte outside the workspace. data of every array, and lse,
 * begin at multiples of 64 bytes; the strides place heads and tokens, so of them only the alignment
 * of an element is certain. An output overlaps no other array; inputs may overlap one another.
 *
 * Ownership: the table that trl_kernel_attention returns, and all that it points to, belong to the plug-in
 * and stay as they are while it is loaded, which is as long as a trainer uses it. Everything a call is given
 * belongs to libtrl and is valid only during the call.
 *
 * Threads: calls may come from any thread, and at the same time from several trainers. A call computes the
 * whole batch, with `threads` threads at most, and returns when all is written. libtrl does not divide the
 * work. A plug-in that leaves threads running must be linked with -z nodelete. For the same arguments a
 * kernel should give the same bits, so that a resumed run continues bit by bit.
 *
 * Errors: a call returns 0, or any other number after writing why to `message`; the step then fails with
 * TRL_E_CALLBACK, that number (trl_error_callback_code) and the text. A plug-in throws nothing, and neither
 * prints nor exits.
 *
 * Growth: this is version 1. A later header adds members only at the end of trl_kernel_batch, and a member
 * that asks for more is set only for a kernel that declares with a flag that it knows the member.
 */
#ifndef TRL_KERNEL_H
#define TRL_KERNEL_H

#include <stdint.h>

#if defined(__GNUC__)
#define TRL_KERNEL_EXPORT __attribute__((visibility("default")))
#else
#define TRL_KERNEL_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* trl_kernel_attention_v1.abi_version of this header. */
#define TRL_KERNEL_ABI_VERSION 1u

/* Types of elements: trl_kernel_batch.dtype is one, trl_kernel_attention_v1.dtypes the sum of several. */
enum {
  TRL_KERNEL_FLOAT32 = 1,
  TRL_KERNEL_BFLOAT16 = 2 /* the upper half of a float32, in 16 bits; stored rounded to nearest even */
};

/* The abilities of a kernel beyond causal attention inside each document: trl_kernel_attention_v1.flags. */
enum {
  TRL_KERNEL_WINDOW = 1, /* sliding windows: without it, `window` is always 0 */
  TRL_KERNEL_PREFIX = 2  /* documents that share a prefix: without it, `prefix` is always NULL, and a batch
                            that needs one is an error */
};

/* The rows of a step, and the other inputs of a call besides its arrays. */
typedef struct trl_kernel_batch {
  uint32_t struct_size; /* bytes of this struct as libtrl knows it: at least those of version 1 */
  uint32_t dtype;       /* of every array but lse: TRL_KERNEL_FLOAT32 or TRL_KERNEL_BFLOAT16 */
  int64_t tokens;       /* of all documents, one after the other */
  int64_t documents;
  const int32_t* cu_seqlens; /* [documents + 1], from 0 to tokens: document i is the tokens from cu_seqlens[i]
                                to before cu_seqlens[i + 1]; it may be empty */
  const int32_t* prefix; /* NULL, or [documents]: an earlier document that has no prefix itself, all of which
                            the tokens of document i see before their own (positions continue from its last
                            one), or -1 */
  int64_t max_length;    /* tokens of the longest document, or more */
  int64_t heads;         /* of q */
  int64_t kv_heads;      /* of k and v; divides heads */
  int64_t head_dim;      /* elements of a head, any number from 1 to max_head_dim */
  int64_t window;        /* a token sees the last `window` ones, itself among them; 0: all before it */
  double scale;          /* of q k^T */
  int32_t threads;       /* how many a call may use, itself among them; at least 1 */
  int32_t message_size;  /* bytes of message */
  char* message;         /* where a call that fails writes why: a line of UTF-8 that ends in NUL; empty
                            at first */
  void* workspace;       /* the bytes that `workspace` asked for, 64-byte aligned and undefined; NULL for 0 */
  int64_t workspace_size; /* bytes */
} trl_kernel_batch;

/* Arrays of [tokens, heads, head_dim] (k, v, dk, dv: [tokens, kv_heads, head_dim]). Element c of head h of
   token t is data[t * token_stride + h * head_stride + c], both in elements. */
typedef struct trl_kernel_input {
  const void* data;
  int64_t token_stride;
  int64_t head_stride;
} trl_kernel_input;
typedef struct trl_kernel_output {
  void* data;
  int64_t token_stride;
  int64_t head_stride;
} trl_kernel_output;

/* lse of head h of token t is lse[h * lse_head_stride + t], in float32; it is kept for backward. */
typedef struct trl_kernel_attention_forward {
  trl_kernel_input q, k, v;
  trl_kernel_output out;
  float* lse; /* written */
  int64_t lse_head_stride;
} trl_kernel_attention_forward;

typedef struct trl_kernel_attention_backward {
  trl_kernel_input d_out, q, k, v;
  trl_kernel_input out; /* as forward wrote it, for the same batch; so is lse */
  const float* lse;
  int64_t lse_head_stride;
  trl_kernel_output dq, dk, dv;
} trl_kernel_attention_backward;

/* `pass` of trl_kernel_attention_v1.workspace. */
enum { TRL_KERNEL_PASS_FORWARD = 0, TRL_KERNEL_PASS_BACKWARD = 1 };

/* The table of a plug-in. */
typedef struct trl_kernel_attention_v1 {
  uint32_t abi_version; /* TRL_KERNEL_ABI_VERSION */
  uint32_t struct_size; /* sizeof(trl_kernel_attention_v1) */
  const char* name;     /* for messages, with its version if it has one: a line of UTF-8, not empty */
  uint32_t dtypes;      /* sum of TRL_KERNEL_FLOAT32 and TRL_KERNEL_BFLOAT16 */
  uint32_t flags;       /* sum of TRL_KERNEL_WINDOW and TRL_KERNEL_PREFIX */
  int64_t max_head_dim; /* the largest head_dim; 0: any */
  /* Bytes of workspace that a pass over the batch needs, 0 to 2^40 (workspace and message are not set yet).
     Called before each call, on its thread, and so from any thread; each call gets other memory. It is
     counted in the memory that libtrl reports and limits. NULL: never any. */
  int64_t (*workspace)(const trl_kernel_batch* batch, int32_t pass);
  int32_t (*forward)(const trl_kernel_batch* batch, const trl_kernel_attention_forward* arrays);
  int32_t (*backward)(const trl_kernel_batch* batch, const trl_kernel_attention_backward* arrays);
} trl_kernel_attention_v1;

/* The one function that a plug-in exports. abi_version: the newest version that libtrl supports.
   Returns the table of that version or of an older one, or NULL: it has none. */
TRL_KERNEL_EXPORT const trl_kernel_attention_v1* trl_kernel_attention(uint32_t abi_version);

#ifdef __cplusplus
}
#endif

#endif
