// Kernels with the instructions that are new in CDNA 4. Compiled together with kernels.hip.
typedef int v2i __attribute__((ext_vector_type(2)));
typedef int v3i __attribute__((ext_vector_type(3)));
typedef int v4i __attribute__((ext_vector_type(4)));
typedef int v8i __attribute__((ext_vector_type(8)));
typedef int v16i __attribute__((ext_vector_type(16)));
typedef u32 v2u __attribute__((ext_vector_type(2)));
typedef u32 v6u __attribute__((ext_vector_type(6)));
typedef short v2s __attribute__((ext_vector_type(2)));
typedef short v4s __attribute__((ext_vector_type(4)));
typedef float v2f __attribute__((ext_vector_type(2)));
typedef float v4f __attribute__((ext_vector_type(4)));
typedef float v16f __attribute__((ext_vector_type(16)));
typedef float v32f __attribute__((ext_vector_type(32)));
typedef _Float16 v2h __attribute__((ext_vector_type(2)));
typedef _Float16 v8h __attribute__((ext_vector_type(8)));
typedef _Float16 v16h __attribute__((ext_vector_type(16)));
typedef _Float16 v32h __attribute__((ext_vector_type(32)));
typedef __bf16 v2b __attribute__((ext_vector_type(2)));
typedef __bf16 v8b __attribute__((ext_vector_type(8)));

template <class V> __device__ V get(const u32 *from) {
  V v;
  __builtin_memcpy(&v, from + threadIdx.x * (sizeof(V) / 4), sizeof(V));
  return v;
}
// Stores the first N words of `v`. N is needed because vectors of 3 and 6 words are padded to a larger size.
template <class V, int N = sizeof(V) / 4> __device__ void put(u32 *to, V v) {
  __builtin_memcpy(to + threadIdx.x * N, &v, 4 * N);
}

// Matrix products. `x` holds the scales of A, then those of B.
#define SCALED(name, shape, C, fa, fb, sa, sb)                                                            \
  K name(const u32 *a, const u32 *b, const u32 *c, const u32 *x, u32 *o) {                                \
    u32 i = threadIdx.x;                                                                                  \
    put<C>(o, __builtin_amdgcn_mfma_scale_f32_##shape##_f8f6f4(get<v8i>(a), get<v8i>(b), get<C>(c),       \
                                                               fa, fb, sa, x[i], sb, x[64 + i]));         \
  }
SCALED(scaled_16_00, 16x16x128, v4f, 0, 0, 0, 0)
SCALED(scaled_16_14, 16x16x128, v4f, 1, 4, 1, 2)
SCALED(scaled_16_32, 16x16x128, v4f, 3, 2, 3, 1)
SCALED(scaled_32_11, 32x32x64, v16f, 1, 1, 2, 0)
SCALED(scaled_32_20, 32x32x64, v16f, 2, 0, 0, 3)
SCALED(scaled_32_43, 32x32x64, v16f, 4, 3, 1, 1)
// For constant scales of 0, compilers emit the instruction without scales.
#define UNSCALED(name, shape, C, fa, fb)                                                                  \
  K name(const u32 *a, const u32 *b, const u32 *c, const u32 *x, u32 *o) {                                \
    put<C>(o, __builtin_amdgcn_mfma_scale_f32_##shape##_f8f6f4(get<v8i>(a), get<v8i>(b), get<C>(c),       \
                                                               fa, fb, 0, 0, 0, 0));                      \
  }
UNSCALED(plain_16_04, 16x16x128, v4f, 0, 4)
UNSCALED(plain_32_32, 32x32x64, v16f, 3, 2)
#define DENSE(name, shape, A, C)                                                                     \
  K name(const u32 *a, const u32 *b, const u32 *c, const u32 *x, u32 *o) {                           \
    put<C>(o, __builtin_amdgcn_mfma_##shape(get<A>(a), get<A>(b), get<C>(c), 0, 0, 0)); \
  }
DENSE(dense_16_f16, f32_16x16x32_f16, v8h, v4f)
DENSE(dense_32_f16, f32_32x32x16_f16, v8h, v16f)
DENSE(dense_16_bf16, f32_16x16x32_bf16, v8b, v4f)
DENSE(dense_32_bf16, f32_32x32x16_bf16, v8b, v16f)
DENSE(dense_16_i8, i32_16x16x64_i8, v4i, v4i)
DENSE(dense_32_i8, i32_32x32x32_i8, v4i, v16i)

// Converts to 4, 6 and 8 bit formats and back. `o` contains the first result of all lanes, then the second result of
// all lanes, and so on.
#define NARROW_PAIRS(name, fp8)                                                                             \
  K name(const float *a, const u32 *seeds, const float *scales, u32 *o) {                                   \
    u32 i = I, n = 64; float x = a[2 * i], y = a[2 * i + 1], s = scales[i];                                 \
    v2s d = {0, 0};                                                                                         \
    d = __builtin_amdgcn_cvt_scalef32_pk_##fp8##_f32(d, x, y, s, false);                                    \
    d = __builtin_amdgcn_cvt_scalef32_pk_##fp8##_f16(d, v2h{(_Float16)x, (_Float16)y}, s, true);            \
    o[i] = (u32)(unsigned short)d.x | (u32)(unsigned short)d.y << 16;                                       \
    int r = 0;                                                                                              \
    r = __builtin_amdgcn_cvt_scalef32_sr_##fp8##_f32(r, x, seeds[i], s, 0);                                 \
    r = __builtin_amdgcn_cvt_scalef32_sr_##fp8##_f32(r, y, seeds[i], s, 3);                                 \
    r = __builtin_amdgcn_cvt_scalef32_sr_##fp8##_f16(r, (_Float16)x, seeds[i], s, 1);                       \
    r = __builtin_amdgcn_cvt_scalef32_sr_##fp8##_bf16(r, (__bf16)y, seeds[i], s, 2);                        \
    o[i + n] = r;                                                                                           \
    v2f back = __builtin_amdgcn_cvt_scalef32_pk_f32_##fp8(o[i], s, false);                                  \
    o[i + 2 * n] = __float_as_uint(back.x);                                                                 \
    o[i + 3 * n] = __float_as_uint(back.y);                                                                 \
    o[i + 4 * n] = __float_as_uint(__builtin_amdgcn_cvt_scalef32_f32_##fp8(o[i], s, 2));                    \
  }
NARROW_PAIRS(narrow_fp8, fp8)
NARROW_PAIRS(narrow_bf8, bf8)
K narrow_fp4(const float *a, const u32 *seeds, const float *scales, u32 *o) {
  u32 i = I, n = 64; float x = a[2 * i], y = a[2 * i + 1], s = scales[i];
  u32 d = 0;
  d = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(d, x, y, s, 0);
  d = __builtin_amdgcn_cvt_scalef32_pk_fp4_f16(d, v2h{(_Float16)x, (_Float16)y}, s, 3);
  o[i] = d;
  // LLVM 22 does not keep the other bytes of `d`.
  o[i + 4 * n] = __builtin_amdgcn_cvt_scalef32_sr_pk_fp4_f32(d, v2f{x, y}, seeds[i], s, 1) & 0xff00;
  v2h both = {(_Float16)x, (_Float16)y};
  o[i + 5 * n] = __builtin_amdgcn_cvt_scalef32_sr_pk_fp4_f16(d, both, seeds[i], s, 3) & 0xff000000;
  v2f back = __builtin_amdgcn_cvt_scalef32_pk_f32_fp4(d, s, 3);
  o[i + n] = __float_as_uint(back.x); o[i + 2 * n] = __float_as_uint(back.y);
  v2h half = __builtin_amdgcn_cvt_scalef32_pk_f16_fp4(d, s, 0);
  u32 bits; __builtin_memcpy(&bits, &half, 4); o[i + 3 * n] = bits;
}
#define NARROW_MANY(name, fp6)                                                              \
  K name(const u32 *a, const u32 *seeds, const float *scales, u32 *o, u32 *back) {          \
    v32f x = get<v32f>(a); v16f even, odd; v32h half; float s = scales[threadIdx.x];        \
    for (int k = 0; k < 16; k++) { even[k] = x[2 * k]; odd[k] = x[2 * k + 1]; }             \
    for (int k = 0; k < 32; k++) half[k] = (_Float16)x[k];                                  \
    v6u d = __builtin_amdgcn_cvt_scalef32_2xpk16_##fp6##_f32(even, odd, s);                 \
    put<v6u, 6>(o, d);                                                                         \
    put<v6u, 6>(o + 6 * 64, __builtin_amdgcn_cvt_scalef32_pk32_##fp6##_f16(half, s));          \
    put<v6u, 6>(o + 12 * 64, __builtin_amdgcn_cvt_scalef32_sr_pk32_##fp6##_f32(x, seeds[threadIdx.x], s)); \
    put<v32f>(back, __builtin_amdgcn_cvt_scalef32_pk32_f32_##fp6(d, s));                    \
  }
NARROW_MANY(narrow_fp6, fp6)
NARROW_MANY(narrow_bf6, bf6)

K odds(const u32 *a, const u32 *b, const u32 *c, u32 *o) {
  u32 i = threadIdx.x, n = 64, x = a[i], y = b[i], z = c[i];
  o[i] = __builtin_amdgcn_prng_b32(x);
  o[i + n] = __builtin_amdgcn_bitop3_b32(x, y, z, 0x6c);
  o[i + 2 * n] = (unsigned short)__builtin_amdgcn_bitop3_b16((short)x, (short)y, (short)z, 0xd1);
  o[i + 3 * n] = (unsigned short)__builtin_amdgcn_ashr_pk_i8_i32(x, y, z);
  o[i + 4 * n] = (unsigned short)__builtin_amdgcn_ashr_pk_u8_i32(x, y, z);
  v2u near = __builtin_amdgcn_permlane16_swap(x, y, false, false);
  v2u far = __builtin_amdgcn_permlane32_swap(x, y, false, false);
  o[i + 5 * n] = near.x; o[i + 6 * n] = near.y; o[i + 7 * n] = far.x; o[i + 8 * n] = far.y;
}

// Transposing loads from the LDS, of 16-bit, 8-bit, 4-bit and 6-bit elements.
K transposes(const u32 *a, u32 *o) {
  __shared__ __attribute__((aligned(16))) u32 d[64 * 4];
  u32 i = threadIdx.x;
  for (int k = 0; k < 4; k++) d[64 * k + i] = a[64 * k + i];
  __syncthreads();
  typedef __attribute__((address_space(3))) v4s *S;
  typedef __attribute__((address_space(3))) v2i *P;
  typedef __attribute__((address_space(3))) v3i *T;
  v4s h = __builtin_amdgcn_ds_read_tr16_b64_v4i16((S)(d + 2 * i));
  v2i b = __builtin_amdgcn_ds_read_tr8_b64_v2i32((P)(d + 2 * i));
  v2i q = __builtin_amdgcn_ds_read_tr4_b64_v2i32((P)(d + 2 * i));
  v3i x = __builtin_amdgcn_ds_read_tr6_b96_v3i32((T)(d + 4 * i));
  put<v4s>(o, h); put<v2i>(o + 128, b); put<v2i>(o + 256, q); put<v3i, 3>(o + 384, x);
}

K loads_to_lds(const u32 *a, u32 *o) {
  __shared__ u32 d[64 * 9];
  u32 i = threadIdx.x;
  for (int k = 0; k < 9; k++) d[64 * k + i] = 7;
  __syncthreads();
  typedef __attribute__((address_space(1))) u32 *G;
  typedef __attribute__((address_space(3))) u32 *L;
  __builtin_amdgcn_global_load_lds((G)(a + 4 * (63 - i)), (L)d, 16, 0, 0);
  __builtin_amdgcn_global_load_lds((G)(a + 3 * i), (L)(d + 256), 12, 0, 0);
  __builtin_amdgcn_global_load_lds((G)(a + (i ^ 1)), (L)(d + 512), 4, 0, 0);
  __syncthreads();
  for (int k = 0; k < 9; k++) o[64 * k + i] = d[64 * k + i];
}

// A workgroup with 160 KiB of LDS, which is more than other architectures have.
K large_lds(u32 *o) {
  extern __shared__ u32 e[];
  u32 i = threadIdx.x, n = 160 * 256;
  for (u32 k = i; k < n; k += 256) e[k] = k * 7;
  __syncthreads();
  u32 sum = 0;
  for (u32 k = i; k < n; k += 256) sum += e[n - 1 - k];
  o[i] = sum;
}
