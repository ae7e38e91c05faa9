// Functions and types for random kernels. The same text is compiled for the GPU as HIP and for the host as C. Functions
// that are builtins on the GPU are defined in C for the host.

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef _Float16 f16;
typedef float f32;
typedef double f64;
#define VECTOR(type, lanes) typedef type type##x##lanes __attribute__((vector_size(lanes * sizeof(type))))
VECTOR(u8, 4);
VECTOR(i8, 4);
VECTOR(u16, 2);
VECTOR(i16, 2);
VECTOR(u16, 4);
VECTOR(i16, 4);
VECTOR(u32, 2);
VECTOR(i32, 2);
VECTOR(u32, 4);
VECTOR(i32, 4);
VECTOR(u64, 2);
VECTOR(i64, 2);
VECTOR(f16, 2);
VECTOR(f16, 4);
VECTOR(f32, 2);
VECTOR(f32, 4);
VECTOR(f64, 2);

#ifdef __HIP__
#define DEV static __device__ inline __attribute__((always_inline))
#define CALLED static __device__ __attribute__((noinline))
#define TABLE static __device__ const
#define ON_GPU(gpu, host) gpu
#else
#define DEV static inline
#define CALLED static
#define TABLE static const
#define ON_GPU(gpu, host) host
#endif

TABLE u32 table[16] = {0x00000000, 0xffffffff, 0x00000001, 0x80000000, 0x7fffffff, 0x3c003c00, 0x3f800000, 0xbf800001,
                       0x7f800000, 0x00000400, 0x00800000, 0x12345678, 0xdeadbeef, 0x0000ffff, 0xfbff7bff, 0x40490fdb};

DEV f32 as_f32(u32 x) { f32 y; __builtin_memcpy(&y, &x, 4); return y; }
DEV f64 as_f64(u64 x) { f64 y; __builtin_memcpy(&y, &x, 8); return y; }
DEV f16 as_f16(u16 x) { f16 y; __builtin_memcpy(&y, &x, 2); return y; }
// The sign and the payload of a NaN are not specified, so all NaNs are replaced by the same NaN.
DEV u16 of_f16(f16 x) { u16 y; __builtin_memcpy(&y, &x, 2); return x != x ? 0x7e00 : y; }
DEV u32 of_f32(f32 x) { u32 y; __builtin_memcpy(&y, &x, 4); return x != x ? 0x7fc00000u : y; }
DEV u64 of_f64(f64 x) { u64 y; __builtin_memcpy(&y, &x, 8); return x != x ? 0x7ff8000000000000ull : y; }

// Conversions to integers. C defines them only for values in range. The result for any other value is 7.
DEV u16 f16_u16(f16 x) { return x > (f16)-1 && x < (f16)65504 ? (u16)x : 7; }
DEV i16 f16_i16(f16 x) { return x > (f16)-32768 && x < (f16)32768 ? (i16)x : 7; }
DEV u32 f32_u32(f32 x) { return x > -1.0f && x < 4294967296.0f ? (u32)x : 7; }
DEV i32 f32_i32(f32 x) { return x > -2147483648.0f && x < 2147483648.0f ? (i32)x : 7; }
DEV u64 f32_u64(f32 x) { return x > -1.0f && x < 18446744073709551616.0f ? (u64)x : 7; }
DEV i64 f32_i64(f32 x) { return x > -9223372036854775808.0f && x < 9223372036854775808.0f ? (i64)x : 7; }
DEV u32 f64_u32(f64 x) { return x > -1.0 && x < 4294967296.0 ? (u32)x : 7; }
DEV i32 f64_i32(f64 x) { return x > -2147483649.0 && x < 2147483648.0 ? (i32)x : 7; }
DEV u64 f64_u64(f64 x) { return x > -1.0 && x < 18446744073709551616.0 ? (u64)x : 7; }
DEV i64 f64_i64(f64 x) { return x > -9223372036854775808.0 && x < 9223372036854775808.0 ? (i64)x : 7; }

DEV f32 bf16_f32(u16 x) { return as_f32((u32)x << 16); }
DEV u16 f32_bf16(f32 x) {
#if defined(__HIP__) && __clang_major__ >= 19
  __bf16 y = (__bf16)x;
  u16 z;
  __builtin_memcpy(&z, &y, 2);
  return x != x ? 0x7fc0 : z;
#else
  u32 y = of_f32(x);
  return x != x ? 0x7fc0 : (u16)((y + 0x7fff + (y >> 16 & 1)) >> 16);
#endif
}

DEV f16 fma16(f16 a, f16 b, f16 c) { return ON_GPU(__builtin_fmaf16(a, b, c), (f16)((f64)a * (f64)b + (f64)c)); }
// GCC 12 compiles -fma(a, b, c) to one instruction, which gives another sign if the sum is zero. `SEEN` hides the value
// from the compiler.
#define SEEN(x) ON_GPU(x, ({ __asm__("" : "+x"(x)); x; }))
DEV f32 fma32(f32 a, f32 b, f32 c) {
  f32 x = __builtin_fmaf(a, b, c);
  return SEEN(x);
}
DEV f64 fma64(f64 a, f64 b, f64 c) {
  f64 x = __builtin_fma(a, b, c);
  return SEEN(x);
}
DEV f16 sqrt16(f16 x) { return (f16)__builtin_sqrtf((f32)x); }
DEV f32 sqrt32(f32 x) { return __builtin_sqrtf(x); }
DEV f64 sqrt64(f64 x) { return __builtin_sqrt(x); }
#define EACH_FLOAT(name, of32, of64) \
  DEV f16 name##16(f16 x) { return (f16)of32((f32)x); } \
  DEV f32 name##32(f32 x) { return of32(x); } \
  DEV f64 name##64(f64 x) { return of64(x); }
EACH_FLOAT(floor, __builtin_floorf, __builtin_floor)
EACH_FLOAT(ceil, __builtin_ceilf, __builtin_ceil)
EACH_FLOAT(trunc, __builtin_truncf, __builtin_trunc)
EACH_FLOAT(rint, __builtin_rintf, __builtin_rint)
EACH_FLOAT(abs, __builtin_fabsf, __builtin_fabs)
// The minimum of +0 and -0 may be either of them, so zeros are replaced by +0.
DEV f32 min32(f32 a, f32 b) { return a != a || b != b ? 3.0f : __builtin_fminf(a, b) + 0.0f; }
DEV f32 max32(f32 a, f32 b) { return a != a || b != b ? 3.0f : __builtin_fmaxf(a, b) + 0.0f; }
DEV f64 min64(f64 a, f64 b) { return a != a || b != b ? 3.0 : __builtin_fmin(a, b) + 0.0; }
DEV f64 max64(f64 a, f64 b) { return a != a || b != b ? 3.0 : __builtin_fmax(a, b) + 0.0; }
DEV f16 min16(f16 a, f16 b) { return (f16)min32((f32)a, (f32)b); }
DEV f16 max16(f16 a, f16 b) { return (f16)max32((f32)a, (f32)b); }
// Older compilers implement `__builtin_ldexp` only as a library call.
DEV f32 ldexp32(f32 x, i32 n) {
  n = (n & 255) - 128;
  return ON_GPU(__builtin_amdgcn_ldexpf(x, n), __builtin_ldexpf(x, n));
}
DEV f64 ldexp64(f64 x, i32 n) {
  n = (n & 2047) - 1024;
  return ON_GPU(__builtin_amdgcn_ldexp(x, n), __builtin_ldexp(x, n));
}
DEV f32 sign32(f32 a, f32 b) { return __builtin_copysignf(a, b != b ? 1.0f : b); }
DEV f64 sign64(f64 a, f64 b) { return __builtin_copysign(a, b != b ? 1.0 : b); }

DEV u32 rotate32(u32 x, u32 n) { return x << (n & 31) | x >> (-n & 31); }
DEV u64 rotate64(u64 x, u32 n) { return x << (n & 63) | x >> (-n & 63); }
DEV u32 clz32(u32 x) { return x ? (u32)__builtin_clz(x) : 32; }
DEV u32 ctz32(u32 x) { return x ? (u32)__builtin_ctz(x) : 32; }
DEV u32 clz64(u64 x) { return x ? (u32)__builtin_clzll(x) : 64; }
DEV u32 ctz64(u64 x) { return x ? (u32)__builtin_ctzll(x) : 64; }
DEV u32 count32(u32 x) { return (u32)__builtin_popcount(x); }
DEV u32 count64(u64 x) { return (u32)__builtin_popcountll(x); }
DEV u32 swap32(u32 x) { return __builtin_bswap32(x); }
// Swaps two 32-bit halves. For a 64-bit swap, LLVM 22 at -O0 emits `v_mov_b16 v0.l, v1.l; v_perm_b32 v0, 0, v0, s2` for
// GFX11, which loses the upper half of each word.
DEV u64 swap64(u64 x) {
  return ON_GPU((u64)swap32((u32)x) << 32 | swap32((u32)(x >> 32)), __builtin_bswap64(x));
}
DEV u32 reverse32(u32 x) {
  x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(x);
}
DEV u32 high_u32(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
DEV i32 high_i32(i32 a, i32 b) { return (i32)((i64)a * b >> 32); }
DEV u64 high_u64(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
DEV u64 wide_u32(u32 a, u32 b, u64 c) { return (u64)a * b + c; }
DEV i64 wide_i32(i32 a, i32 b, i64 c) { return (i64)((u64)((i64)a * b) + (u64)c); }
DEV u32 mad24(u32 a, u32 b, u32 c) { return (a & 0xffffff) * (b & 0xffffff) + c; }
DEV i32 imad24(i32 a, i32 b, i32 c) { return (i32)((u32)((a << 8) >> 8) * (u32)((b << 8) >> 8) + (u32)c); }
DEV u32 field_u32(u32 x, u32 at, u32 bits) { return x >> (at & 31) & ((1u << (bits & 31)) - 1); }
DEV i32 field_i32(i32 x, u32 at) { return (i32)((u32)x << (at & 15)) >> ((at & 15) + 3); }
DEV u32 insert32(u32 mask, u32 a, u32 b) { return (mask & a) | (~mask & b); }
DEV u32 funnel32(u32 high, u32 low, u32 n) { return (u32)(((u64)high << 32 | low) >> (n & 31)); }
DEV u32 sad32(u32 a, u32 b, u32 c) { return (a > b ? a - b : b - a) + c; }
DEV u32 sad8(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 32; i += 8) {
    u32 x = a >> i & 255, y = b >> i & 255;
    c += x > y ? x - y : y - x;
  }
  return c;
}
DEV u32 dot_u8(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
}
DEV i32 dot_i8(u32 a, u32 b, i32 c) {
  u32 sum = (u32)c;
  for (u32 i = 0; i < 32; i += 8) sum += (u32)((i32)(i8)(a >> i) * (i32)(i8)(b >> i));
  return (i32)sum;
}
DEV u32 perm_of(u32 a, u32 b, u32 choice) {
  u32 all = 0;
  for (u32 i = 0; i < 32; i += 8) {
    u32 c = choice >> i & 7;
    all |= ((c < 4 ? b >> c * 8 : a >> (c - 4) * 8) & 255) << i;
  }
  return all;
}
DEV u32 perm32(u32 a, u32 b, u32 choice) {
  choice &= 0x07070707;
  return ON_GPU(__builtin_amdgcn_perm(a, b, choice), perm_of(a, b, choice));
}
DEV u32 psad8(u32 a, u32 b, u32 c) { return ON_GPU(__builtin_amdgcn_sad_u8(a, b, c), sad8(a, b, c)); }
DEV u32 byte_align(u32 a, u32 b, u32 n) {
  return ON_GPU(__builtin_amdgcn_alignbyte(a, b, n), funnel32(a, b, (n & 3) * 8));
}
#define EACH_INTEGER(type, least, most, wide) \
  DEV type min_##type(type a, type b) { return a < b ? a : b; } \
  DEV type max_##type(type a, type b) { return a > b ? a : b; } \
  DEV type med_##type(type a, type b, type c) { \
    return max_##type(min_##type(a, b), min_##type(max_##type(a, b), c)); \
  } \
  DEV type plus_##type(type a, type b) { \
    wide x = (wide)a + (wide)b; \
    return x < (wide)least ? least : x > (wide)most ? most : (type)x; \
  } \
  DEV type minus_##type(type a, type b) { \
    wide x = (wide)a - (wide)b; \
    return x < (wide)least ? least : x > (wide)most ? most : (type)x; \
  }
EACH_INTEGER(u8, 0, 255, i32)
EACH_INTEGER(i8, -128, 127, i32)
EACH_INTEGER(u16, 0, 65535, i32)
EACH_INTEGER(i16, -32768, 32767, i32)
EACH_INTEGER(u32, 0, 4294967295u, i64)
EACH_INTEGER(i32, (-2147483647 - 1), 2147483647, i64)
EACH_INTEGER(u64, 0, 18446744073709551615ull, __int128)
EACH_INTEGER(i64, (-9223372036854775807ll - 1), 9223372036854775807ll, __int128)
// Saturating arithmetic in the form that compilers recognise.
DEV u32 capped_plus(u32 a, u32 b) { return a + b < a ? 0xffffffffu : a + b; }
DEV u16 capped_plus16(u16 a, u16 b) { return (u16)(a + b) < a ? 0xffff : (u16)(a + b); }
DEV u32 floored_minus(u32 a, u32 b) { return a > b ? a - b : 0; }

// Operations on each element of a vector, which compilers turn into packed instructions.
#define EACH_VECTOR(type, lanes) \
  DEV type##x##lanes vmin_##type##x##lanes(type##x##lanes a, type##x##lanes b) { EACH_LANE(lanes, min_##type(a[i], b[i])) } \
  DEV type##x##lanes vmax_##type##x##lanes(type##x##lanes a, type##x##lanes b) { EACH_LANE(lanes, max_##type(a[i], b[i])) } \
  DEV type##x##lanes vplus_##type##x##lanes(type##x##lanes a, type##x##lanes b) { \
    VECTOR_BUILTIN(__builtin_elementwise_add_sat(a, b)) \
    EACH_LANE(lanes, plus_##type(a[i], b[i])) \
  } \
  DEV type##x##lanes vminus_##type##x##lanes(type##x##lanes a, type##x##lanes b) { \
    VECTOR_BUILTIN(__builtin_elementwise_sub_sat(a, b)) \
    EACH_LANE(lanes, minus_##type(a[i], b[i])) \
  }
#define EACH_LANE(lanes, text) \
  for (u32 i = 0; i < lanes; i++) a[i] = text; \
  return a;
#if defined(__HIP__) && __clang_major__ >= 19
#define VECTOR_BUILTIN(text) return text;
#else
#define VECTOR_BUILTIN(text)
#endif
EACH_VECTOR(u8, 4)
EACH_VECTOR(u16, 2)
EACH_VECTOR(i16, 2)
EACH_VECTOR(u16, 4)
EACH_VECTOR(u32, 2)
EACH_VECTOR(i32, 2)
EACH_VECTOR(u32, 4)
#define EACH_FLOAT_VECTOR(type, bits, lanes) \
  DEV type##x##lanes vmin_##type##x##lanes(type##x##lanes a, type##x##lanes b) { EACH_LANE(lanes, min##bits(a[i], b[i])) } \
  DEV type##x##lanes vmax_##type##x##lanes(type##x##lanes a, type##x##lanes b) { EACH_LANE(lanes, max##bits(a[i], b[i])) } \
  DEV type##x##lanes vfma_##type##x##lanes(type##x##lanes a, type##x##lanes b, type##x##lanes c) { \
    EACH_LANE(lanes, fma##bits(a[i], b[i], c[i])) \
  }
EACH_FLOAT_VECTOR(f16, 16, 2)
EACH_FLOAT_VECTOR(f16, 16, 4)
EACH_FLOAT_VECTOR(f32, 32, 2)
EACH_FLOAT_VECTOR(f32, 32, 4)

// Dot products, with and without saturation. Each architecture has instructions for some of them.
#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || \
    defined(__gfx950__) || defined(__gfx1030__)
#define SIGNED_DOT(n, a, b, c, clamp, host) __builtin_amdgcn_sdot##n((i32)(a), (i32)(b), c, clamp)
#define OLDER_DOT(gpu, host) gpu
#else
#define SIGNED_DOT(n, a, b, c, clamp, host) ON_GPU(__builtin_amdgcn_sudot##n(1, (i32)(a), 1, (i32)(b), c, clamp), host)
#define OLDER_DOT(gpu, host) host
#endif
#define EACH_DOT(n, bits, clamp, unsigned_end, signed_end) \
  DEV u32 udot##n##_of_##clamp(u32 a, u32 b, u32 c) { \
    u64 sum = c; \
    for (u32 i = 0; i < 32; i += bits) sum += (u64)(a >> i & ((1u << bits) - 1)) * (b >> i & ((1u << bits) - 1)); \
    return unsigned_end; \
  } \
  DEV i32 sdot##n##_of_##clamp(u32 a, u32 b, i32 c) { \
    i64 sum = c; \
    for (u32 i = 0; i < 32; i += bits) { \
      sum += (i64)((i32)(a << (32 - bits - i)) >> (32 - bits)) * ((i32)(b << (32 - bits - i)) >> (32 - bits)); \
    } \
    return signed_end; \
  }
#define EACH_DOT_TWICE(n, bits) \
  EACH_DOT(n, bits, 0, (u32)sum, (i32)sum) \
  EACH_DOT(n, bits, 1, sum > 0xffffffffull ? 0xffffffffu : (u32)sum, \
           sum > 2147483647ll ? 2147483647 : sum < -2147483648ll ? (-2147483647 - 1) : (i32)sum)
EACH_DOT_TWICE(2, 16)
EACH_DOT_TWICE(4, 8)
EACH_DOT_TWICE(8, 4)
#define DOTS(clamp) \
  DEV u32 udot4_##clamp(u32 a, u32 b, u32 c) { return ON_GPU(__builtin_amdgcn_udot4(a, b, c, clamp), udot4_of_##clamp(a, b, c)); } \
  DEV u32 udot8_##clamp(u32 a, u32 b, u32 c) { return ON_GPU(__builtin_amdgcn_udot8(a, b, c, clamp), udot8_of_##clamp(a, b, c)); } \
  DEV i32 sdot4_##clamp(u32 a, u32 b, i32 c) { return SIGNED_DOT(4, a, b, c, clamp, sdot4_of_##clamp(a, b, c)); } \
  DEV i32 sdot8_##clamp(u32 a, u32 b, i32 c) { return SIGNED_DOT(8, a, b, c, clamp, sdot8_of_##clamp(a, b, c)); } \
  DEV u32 udot2_##clamp(u32 a, u32 b, u32 c) { \
    return OLDER_DOT(__builtin_amdgcn_udot2(pair_u16(a), pair_u16(b), c, clamp), udot2_of_##clamp(a, b, c)); \
  } \
  DEV i32 sdot2_##clamp(u32 a, u32 b, i32 c) { \
    return OLDER_DOT(__builtin_amdgcn_sdot2(pair_i16(a), pair_i16(b), c, clamp), sdot2_of_##clamp(a, b, c)); \
  }
#ifdef __HIP__
typedef u16 pair_of_u16 __attribute__((ext_vector_type(2)));
typedef i16 pair_of_i16 __attribute__((ext_vector_type(2)));
DEV pair_of_u16 pair_u16(u32 x) { pair_of_u16 y; __builtin_memcpy(&y, &x, 4); return y; }
DEV pair_of_i16 pair_i16(u32 x) { pair_of_i16 y; __builtin_memcpy(&y, &x, 4); return y; }
#endif
DOTS(0)
DOTS(1)

DEV u32 lerp_of(u32 a, u32 b, u32 c) {
  u32 all = 0;
  for (u32 i = 0; i < 32; i += 8) all |= ((a >> i & 255) + (b >> i & 255) + (c >> i & 1)) >> 1 << i;
  return all;
}
DEV u32 lerp8(u32 a, u32 b, u32 c) { return ON_GPU(__builtin_amdgcn_lerp(a, b, c), lerp_of(a, b, c)); }
DEV u32 sad16(u32 a, u32 b, u32 c) {
  return ON_GPU(__builtin_amdgcn_sad_u16(a, b, c), sad32(a & 0xffff, b & 0xffff, sad32(a >> 16, b >> 16, c)));
}
DEV u32 sad_high8(u32 a, u32 b, u32 c) { return ON_GPU(__builtin_amdgcn_sad_hi_u8(a, b, c), (sad8(a, b, 0) << 16) + c); }
DEV u32 msad_of(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 32; i += 8) {
    u32 x = a >> i & 255, y = b >> i & 255;
    if (y) c += x > y ? x - y : y - x;
  }
  return c;
}
DEV u32 msad8(u32 a, u32 b, u32 c) { return ON_GPU(__builtin_amdgcn_msad_u8(a, b, c), msad_of(a, b, c)); }
DEV u32 bits_u32(u32 x, u32 at, u32 n) {
  at &= 31, n &= 31;
  return ON_GPU(__builtin_amdgcn_ubfe(x, at, n), x >> at & ((1u << n) - 1));
}
DEV i32 bits_i32(i32 x, u32 at, u32 n) {
  at &= 31, n &= 31;
  return ON_GPU(__builtin_amdgcn_sbfe(x, at, n),
                !n ? 0 : at + n < 32 ? (i32)((u32)x << (32 - at - n)) >> (32 - n) : x >> at);
}
DEV u64 reverse64(u64 x) {
  return ON_GPU(__builtin_bitreverse64(x), (u64)reverse32((u32)x) << 32 | reverse32((u32)(x >> 32)));
}
DEV u32 sign_bits(i32 x) { return (u32)__builtin_clrsb(x); }
// Conversion to two halves, rounded towards zero.
DEV u32 to_zero(f32 x) {
  f16 y = (f16)x;
  u32 z = of_f16(y);
  f32 size = __builtin_fabsf(x), back = __builtin_fabsf((f32)y);
  return back > size ? z - 1 : z;
}
DEV u32 pack_to_zero(f32 a, f32 b) {
  a = a != a ? 1.0f : a, b = b != b ? 2.0f : b;
#ifdef __HIP__
  auto pair = __builtin_amdgcn_cvt_pkrtz(a, b);
  u32 all;
  __builtin_memcpy(&all, &pair, 4);
  return all;
#else
  return to_zero(a) | to_zero(b) << 16;
#endif
}
DEV u32 class_of(f32 x) {
  u32 y = of_f32(x), size = y & 0x7fffffff, negative = y >> 31;
  if (size > 0x7f800000) return 3;
  if (size == 0x7f800000) return negative ? 4 : 0x200;
  if (size >= 0x00800000) return negative ? 8 : 0x100;
  if (size) return negative ? 0x10 : 0x80;
  return negative ? 0x20 : 0x40;
}
DEV u32 class32(f32 x, u32 mask) { return ON_GPU((u32)__builtin_amdgcn_classf(x, (i32)mask), (class_of(x) & mask) != 0); }
// The results for infinities and NaNs are not specified, so they are replaced by 5.
DEV f32 finite32(f32 x) { return (class_of(x) & 0x207) ? 5.0f : x; }
#ifdef __HIP__
DEV i32 exponent32(f32 x) { return __builtin_amdgcn_frexp_expf(finite32(x)); }
DEV f32 mantissa32(f32 x) { return __builtin_amdgcn_frexp_mantf(finite32(x)); }
DEV f32 fract32(f32 x) { return __builtin_amdgcn_fractf(finite32(x)); }
DEV f32 med32(f32 a, f32 b, f32 c) { return __builtin_amdgcn_fmed3f(finite32(a), finite32(b), finite32(c)) + 0.0f; }
#else
DEV i32 exponent32(f32 x) { i32 n; __builtin_frexpf(finite32(x), &n); return n; }
DEV f32 mantissa32(f32 x) { i32 n; return __builtin_frexpf(finite32(x), &n); }
DEV f32 fract32(f32 x) {
  x = finite32(x) - __builtin_floorf(finite32(x));
  return x < as_f32(0x3f7fffff) ? x : as_f32(0x3f7fffff);
}
DEV f32 med32(f32 a, f32 b, f32 c) {
  a = finite32(a), b = finite32(b), c = finite32(c);
  f32 least = a < b ? a : b, most = a < b ? b : a;
  return (c < least ? least : c > most ? most : c) + 0.0f;
}
#endif

// Returns the lane, in the group of 32 lanes, that a lane reads with DPP. 32 means that the lane reads zero, and `lane
// + 64` that the lane keeps its old value.
DEV u32 dpp_source(u32 lane, u32 control, u32 rows, u32 banks, u32 zero) {
  u32 row = lane & ~15u, at = lane & 15, source = 32;
  if (!(rows >> ((lane >> 4) & 3) & 1) || !(banks >> (at >> 2) & 1)) return lane + 64;
  if (control < 0x100) source = (lane & ~3u) | (control >> (lane & 3) * 2 & 3);
  else if (control < 0x110) source = at + (control & 15) < 16 ? lane + (control & 15) : 33;
  else if (control < 0x120) source = at >= (control & 15) ? lane - (control & 15) : 33;
  else if (control < 0x130) source = row | ((at - (control & 15)) & 15);
  else if (control == 0x140) source = row | (15 - at);
  else source = (lane & ~7u) | (7 - (lane & 7));
  return source != 33 ? source : zero ? 32 : lane + 64;
}

#ifdef __HIP__
#if __has_builtin(__builtin_amdgcn_wavefrontsize)
#define WAVE __builtin_amdgcn_wavefrontsize()
#else
#define WAVE __AMDGCN_WAVEFRONT_SIZE
#endif
// Ballot of the group of 32 lanes that contains the lane. The same function is used for both wave sizes.
#define BALLOT(x) ((u32)(__ballot((i32)(x)) >> (WAVE == 64 ? t & 32 : 0)))
DEV u32 read_lane(u32 low, u32 high, u32 t) { return t & 32 ? high : low; }
#define READ_LANE(x, n) \
  read_lane((u32)__builtin_amdgcn_readlane((i32)(x), n), \
            (u32)__builtin_amdgcn_readlane((i32)(x), n + WAVE - 32), t)
#else
DEV u32 lane_of(const u32 *seen, u32 t, u32 lane, u32 old) {
  return lane >= 64 ? old : lane >= 32 ? 0 : seen[(t & ~31u) | lane];
}
DEV u32 ballot_of(const u32 *seen, u32 t, u32 bit) {
  u32 all = 0;
  for (u32 i = 0; i < 32; i++) all |= (seen[(t & ~31u) | i] >> bit & 1) << i;
  return all;
}
#endif
// v_permlane16: four bits select, for each lane, a lane of the same row of 16 lanes. v_permlanex16: a lane of the other
// row.
DEV u32 perm_lane0(u32 t, u32 low, u32 high) { return (t & 16) | ((t & 8 ? high : low) >> (t & 7) * 4 & 15); }
DEV u32 perm_lane1(u32 t, u32 low, u32 high) { return perm_lane0(t ^ 16, low, high); }
#if defined(__HIP__) && (defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__))
#define PERM_LANE0(x, low, high) (u32)__builtin_amdgcn_permlane16(x, x, low, high, 0, 0)
#define PERM_LANE1(x, low, high) (u32)__builtin_amdgcn_permlanex16(x, x, low, high, 0, 0)
#else
#define PERM_LANE0(x, low, high) (u32)__builtin_amdgcn_ds_bpermute(((t & 32) | perm_lane0(t, low, high)) << 2, x)
#define PERM_LANE1(x, low, high) (u32)__builtin_amdgcn_ds_bpermute(((t & 32) | perm_lane1(t, low, high)) << 2, x)
#endif

// Atomics on words that belong to one work-item. They return the old value.
#define EACH_OLD(type) \
  DEV type before_Add_##type(type *at, type x) { type y = *at; *at = (type)((u64)y + (u64)x); return y; } \
  DEV type before_Sub_##type(type *at, type x) { type y = *at; *at = (type)((u64)y - (u64)x); return y; } \
  DEV type before_And_##type(type *at, type x) { type y = *at; *at = y & x; return y; } \
  DEV type before_Or_##type(type *at, type x) { type y = *at; *at = y | x; return y; } \
  DEV type before_Xor_##type(type *at, type x) { type y = *at; *at = y ^ x; return y; } \
  DEV type before_Min_##type(type *at, type x) { type y = *at; *at = x < y ? x : y; return y; } \
  DEV type before_Max_##type(type *at, type x) { type y = *at; *at = x > y ? x : y; return y; } \
  DEV type before_Exch_##type(type *at, type x) { type y = *at; *at = x; return y; } \
  DEV type before_Inc_##type(type *at, type x) { type y = *at; *at = y >= x ? 0 : y + 1; return y; } \
  DEV type before_Dec_##type(type *at, type x) { type y = *at; *at = y == 0 || y > x ? x : y - 1; return y; } \
  DEV type before_CAS_##type(type *at, type is, type x) { type y = *at; *at = y == is ? x : y; return y; }
EACH_OLD(u32)
EACH_OLD(i32)
EACH_OLD(u64)
#define OLD_Add(type, at, x) ON_GPU(atomicAdd(at, x), before_Add_##type(at, x))
#define OLD_Sub(type, at, x) ON_GPU(atomicSub(at, x), before_Sub_##type(at, x))
#define OLD_And(type, at, x) ON_GPU(atomicAnd(at, x), before_And_##type(at, x))
#define OLD_Or(type, at, x) ON_GPU(atomicOr(at, x), before_Or_##type(at, x))
#define OLD_Xor(type, at, x) ON_GPU(atomicXor(at, x), before_Xor_##type(at, x))
#define OLD_Min(type, at, x) ON_GPU(atomicMin(at, x), before_Min_##type(at, x))
#define OLD_Max(type, at, x) ON_GPU(atomicMax(at, x), before_Max_##type(at, x))
#define OLD_Exch(type, at, x) ON_GPU(atomicExch(at, x), before_Exch_##type(at, x))
#define OLD_Inc(type, at, x) ON_GPU(atomicInc(at, x), before_Inc_##type(at, x))
#define OLD_Dec(type, at, x) ON_GPU(atomicDec(at, x), before_Dec_##type(at, x))
#define OLD_CAS(type, at, is, x) ON_GPU(atomicCAS(at, is, x), before_CAS_##type(at, is, x))

// Atomics on shared words. In a phase, all work-items use the same atomic operation, so that their order does not
// matter.
#define ATOMIC_Add(at, value) ON_GPU(atomicAdd(at, value), *(at) += (value))
#define ATOMIC_Or(at, value) ON_GPU(atomicOr(at, value), *(at) |= (value))
#define ATOMIC_Xor(at, value) ON_GPU(atomicXor(at, value), *(at) ^= (value))
#define ATOMIC_And(at, value) ON_GPU(atomicAnd(at, value), *(at) &= (value))
#define ATOMIC_Min(at, value) ON_GPU(atomicMin(at, value), least(at, value))
#define ATOMIC_Max(at, value) ON_GPU(atomicMax(at, value), most(at, value))
DEV void least(u32 *at, u32 value) { *at = value < *at ? value : *at; }
DEV void most(u32 *at, u32 value) { *at = value > *at ? value : *at; }
