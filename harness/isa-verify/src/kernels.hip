#define K extern "C" __global__ void
typedef unsigned int u32;
typedef unsigned long long u64;
#define I (blockIdx.x * blockDim.x + threadIdx.x)

K fill(u32 *o, u32 v, u32 n) { u32 i = I; if (i < n) o[i] = v; }
K copy(u32 *o, const u32 *a, u32 n) { u32 i = I; if (i < n) o[i] = a[i]; }
K add(u32 *o, const u32 *a, const u32 *b, u32 n) { u32 i = I; if (i < n) o[i] = a[i] + b[i]; }
K saxpy(float a, const float *x, float *y, int n) { int i = I; if (i < n) y[i] = a * x[i] + y[i]; }
K lcg(u32 *o, u32 rounds) {
    u32 i = I; u32 x = i * 2654435761u + 1; u64 y = i + 1;
    for (u32 k = 0; k < rounds; k++) {
        x = x * 1664525u + 1013904223u; y = y * 6364136223846793005ull + 1442695040888963407ull;
        x ^= (u32)(y >> 33); x = (x << 7) | (x >> 25);
    }
    o[i] = x ^ (u32)(y >> 32);
}
K reduce(const float *x, float *y, int n) {
    __shared__ float s[256]; int t = threadIdx.x; float a = 0;
    for (int i = t; i < n; i += 256) a += x[i];
    s[t] = a; __syncthreads();
    for (int k = 128; k > 0; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
    if (t == 0) y[0] = s[0];
}
K histogram(const u32 *x, u32 *h, float *f, u32 n) {
    u32 i = I; if (i < n) { atomicAdd(&h[x[i] & 15], 1u); atomicAdd(&f[x[i] & 15], 0.5f); }
}
K matmul(const float *A, const float *B, float *C, int n) {
    int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
    __shared__ float a[16][16], b[16][16]; float s = 0;
    for (int k = 0; k < n; k += 16) {
        a[threadIdx.y][threadIdx.x] = A[r * n + k + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * n + c];
        __syncthreads();
        for (int j = 0; j < 16; j++) s += a[threadIdx.y][j] * b[j][threadIdx.x];
        __syncthreads();
    }
    C[r * n + c] = s;
}
K daxpy(double a, const double *x, double *y, int n) { int i = I; if (i < n) y[i] = a * x[i] + y[i] / 3.0; }
K halves(const float *a, const float *b, u32 *o) {
    u32 i = I; __half x = __float2half(a[i]), y = __float2half(b[i]);
    __half s = __hadd(x, y), p = __hmul(x, y), q = __hfma(x, y, s);
    o[i] = (u32)__half_as_ushort(s) | (u32)__half_as_ushort(p) << 16;
    o[i + 256] = (u32)__half_as_ushort(q) | (u32)__half_as_ushort(__hsub(x, y)) << 16;
    o[i + 512] = __float_as_uint(__half2float(x));
}
K half2s(const u32 *a, const u32 *b, u32 *o) {
    u32 i = I; union { u32 u; __half2 h; } x, y, r; x.u = a[i]; y.u = b[i];
    r.h = __hadd2(x.h, y.h); o[i] = r.u;
    r.h = __hmul2(x.h, y.h); o[i + 256] = r.u;
    r.h = __hfma2(x.h, y.h, x.h); o[i + 512] = r.u;
}
K bf16s(const float *a, unsigned short *o) {
    u32 i = I; u32 b = __float_as_uint(a[i]); b += 0x7fff + ((b >> 16) & 1); o[i] = b >> 16;
}
K shuffles(u32 *o) {
    u32 t = threadIdx.x, x = t * 3 + 1; u32 s = x;
    for (int k = 16; k > 0; k >>= 1) s += __shfl_xor((int)s, k, 32);
    o[t] = s;
    o[t + 64] = __shfl_down((int)x, 3, 32);
    o[t + 128] = __shfl_up((int)x, 1, 32);
    o[t + 192] = __shfl((int)x, 5, 32);
    u64 b = __ballot((t % 3) == 0); o[t + 256] = (u32)b; o[t + 320] = __popcll(b);
    o[t + 384] = __any(t == 7) | __all(t < 64) << 1;
}
K divisions(const int *a, const int *b, u32 *o) {
    u32 i = I; int x = a[i], y = b[i];
    o[i] = x / y; o[i + 256] = x % y; o[i + 512] = (u32)x / (u32)y; o[i + 768] = (u32)x % (u32)y;
    long long p = (long long)x * 1000003, q = (long long)y * 7 + 1;
    o[i + 1024] = (u32)(p / q); o[i + 1280] = (u32)(p % q);
}
K fdivs(const float *a, const float *b, float *o) {
    u32 i = I; o[i] = a[i] / b[i]; o[i + 256] = sqrtf(a[i] < 0 ? -a[i] : a[i]); o[i + 512] = 1.0f / b[i];
}
K ddivs(const double *a, const double *b, double *o) {
    u32 i = I; o[i] = a[i] / b[i]; o[i + 256] = sqrt(a[i] < 0 ? -a[i] : a[i]);
}
K maths(const float *a, float *o) {
    u32 i = I; float x = a[i];
    o[i] = expf(x); o[i + 256] = logf(fabsf(x) + 1e-3f); o[i + 512] = sinf(x * 100); o[i + 768] = powf(fabsf(x), 1.5f);
    o[i + 1024] = floorf(x) + ceilf(x) * 3 + truncf(x) * 5 + rintf(x) * 7;
    o[i + 1280] = fminf(x, 0.5f) + fmaxf(x, -0.25f); o[i + 1536] = tanhf(x); o[i + 1792] = cosf(x * 1e6f);
}
__device__ int gvar = 7;
__device__ u32 gtable[16] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
K globals(u32 *o) { u32 t = threadIdx.x; o[t] = gvar + gtable[t & 15]; if (t == 0) gvar = 8; }
K gives_up(u32 *o) { if (o[threadIdx.x] != 0) __builtin_trap(); }
K narrow(const unsigned char *a, const short *b, unsigned char *c, short *d) {
    u32 i = I; c[i] = a[i] * 3 + (unsigned char)b[i]; d[i] = b[i] * 2 + (signed char)a[i];
}
K atomics64(u64 *o, u32 *p) {
    u32 i = I; atomicAdd(&o[0], (u64)i << 20); atomicMax(&o[1], (u64)i * 77); atomicCAS(&o[2], 5ull, (u64)i);
    atomicExch(&o[3], 9ull); atomicAnd(&p[0], ~(1u << (i & 31))); atomicOr(&p[1], 1u << (i & 31));
    atomicXor(&p[2], 1u << (i & 31)); atomicMin((int *)&p[3], -(int)i); p[4 + i] = atomicSub(&p[4 + 256], 1u) != 0;
}
K dims(u32 *o) {
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
        z = blockIdx.z * blockDim.z + threadIdx.z;
    o[(z * gridDim.y * blockDim.y + y) * gridDim.x * blockDim.x + x] = x | y << 8 | z << 16;
}
K locals(const u32 *a, u32 *o) {
    u32 buf[32]; u32 i = I;
    for (int k = 0; k < 32; k++) buf[(k * 7 + i) & 31] = a[(i + k) & 255] + k;
    u32 s = 0; for (int k = 0; k < 32; k++) s = s * 31 + buf[(a[k] + i) & 31];
    o[i] = s;
}
__device__ __attribute__((noinline)) u32 fib(u32 n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
K calls(u32 *o) { o[threadIdx.x] = fib(threadIdx.x & 7); }
K flats(u32 *o, int which) {
    __shared__ u32 s[64]; u32 t = threadIdx.x; u32 mine[2] = {t, t * 2};
    s[t] = t + 100; __syncthreads();
    u32 *p = which == 0 ? &s[t ^ 1] : which == 1 ? &mine[t & 1] : &o[64 + t];
    o[t] = *(volatile u32 *)p + 1;
}
K lds64(u64 *o) {
    __shared__ u64 s[128]; u32 t = threadIdx.x; s[t] = t * 0x100000001ull; s[t + 64] = ~s[t]; __syncthreads();
    o[t] = s[63 - t] + s[64 + (t ^ 5)]; __syncthreads(); atomicAdd(&s[0], (u64)t); __syncthreads(); if (t == 0) o[64] = s[0];
}
K bits(const u32 *a, u32 *o) {
    u32 i = I; u32 x = a[i]; u64 y = (u64)x << 13 | x;
    o[i] = __popc(x) + __clz(x) * 64 + __ffs(x) * 4096; o[i + 256] = __brev(x);
    o[i + 512] = __popcll(y) + __clzll(y) * 128 + __ffsll(y) * 16384;
    o[i + 768] = (x >> 5 & 0x3ff) + ((int)(x << 3) >> 20); o[i + 1024] = (u32)(y >> (x & 63)) ^ (u32)((long long)y >> 3);
    o[i + 1280] = __umulhi(x, 0x9e3779b9u) + __mulhi((int)x, -77) + __mul24((int)x, 1234) + (u32)__umul64hi(y, y);
}
// Barrier of the grid: after the barrier, each workgroup reads the value that the next workgroup wrote before the
// barrier.
__device__ void meet(u32 *count, u32 all, bool sleeps) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(count, 1);
    while (__hip_atomic_load(count, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) < all) {
      if (sleeps) __builtin_amdgcn_s_sleep(2);
    }
    __threadfence();
  }
  __syncthreads();
}
K meets(u32 *o, u32 *slots, u32 *counts, u32 rounds, u32 sleeps) {
  u32 sum = 0, n = gridDim.x;
  for (u32 r = 0; r < rounds; r++) {
    if (threadIdx.x == 0) slots[r * n + blockIdx.x] = r * 100 + blockIdx.x;
    meet(counts + r, n, sleeps);
    sum += __hip_atomic_load(slots + r * n + (blockIdx.x + 1) % n, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  }
  o[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// Decoupled look-back, from the last workgroup to the first: each workgroup waits for the sum of those that start after
// it.
K looks_back(u32 *o, u64 *states) {
  u32 n = gridDim.x, me = blockIdx.x;
  if (threadIdx.x == 0) {
    u64 before = 0;
    if (me + 1 < n) {
      u64 state;
      do state = __hip_atomic_load(states + me + 1, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
      while (!(state >> 32));
      before = (u32)state;
    }
    __hip_atomic_store(states + me, 1ull << 32 | (before + me), __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    o[me] = before + me;
  }
}
K locks(u32 *lock, volatile u32 *sum, u32 times) {
  if (threadIdx.x != 0) return;
  for (u32 i = 0; i < times; i++) {
    while (atomicCAS(lock, 0, 1) != 0) __builtin_amdgcn_s_sleep(1);
    __threadfence();
    *sum = *sum + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}
K spin(volatile u32 *f) { while (f[0] == 0) {} }
K dynamic(u32 *o, u32 n) { extern __shared__ u32 d[]; u32 t = threadIdx.x; d[t] = t * t; __syncthreads(); o[t] = d[n - 1 - t]; }
K converts(const double *a, u32 *o) {
    u32 i = I; double x = a[i]; float f = (float)x; 
    o[i] = (u32)(int)x; o[i + 256] = (u32)fabs(x); o[i + 512] = (u32)(long long)(x * 1e6); o[i + 768] = __float_as_uint((float)(long long)(x * 1e9));
    o[i + 1024] = __float_as_uint(f); o[i + 1280] = (u32)(int)rint(x) ^ (u32)floor(x * 3); o[i + 1536] = (u32)(unsigned char)(int)f;
}
#define IN_MODE(mode, out) "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), " #mode "\nv_mul_f32 " #out ", %4, %5\n"
K rounds(const float *a, float *o) {
    u32 i = I; float x = a[i], y = a[i + 256], r[4];
    asm volatile(IN_MODE(5, %0) IN_MODE(10, %1) IN_MODE(15, %2) IN_MODE(0, %3)
                 : "=&v"(r[0]), "=&v"(r[1]), "=&v"(r[2]), "=&v"(r[3]) : "v"(x), "v"(y));
    for (int k = 0; k < 4; k++) o[i * 4 + k] = r[k];
}
