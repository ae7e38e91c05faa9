// One program for each mistake that users make, selected by the argument. Each fails because of its own
// mistake.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <hip/hip_runtime.h>

static std::map<std::string, std::function<int()>> mistakes;

#define MISTAKE(name)                                                                                        \
  static int name();                                                                                         \
  static const bool registered_##name = mistakes.emplace(#name, name).second;                                \
  static int name()

// Reads a buffer on another stream while it is being set.
MISTAKE(race_streams) {
  const size_t n = 1 << 20;
  char *d;
  std::vector<char> h(n, 1);
  hipMalloc(&d, n);
  hipStream_t s;
  hipStreamCreateWithFlags(&s, hipStreamNonBlocking);
  hipMemset(d, 0, n);
  hipDeviceSynchronize();
  hipMemsetAsync(d, 7, n, 0);
  hipMemcpyAsync(h.data(), d, n, hipMemcpyDeviceToHost, s);
  hipStreamSynchronize(s);
  for (size_t i = 0; i < n; i++)
    if (h[i] != 7) {
      printf("wrong at %zu: %d\n", i, h[i]);
      return 1;
    }
  puts("ok");
  return 0;
}

// Copies on another stream what a kernel still writes.
__global__ void missing_sync_streams_k(int *p) { p[blockIdx.x * 256 + threadIdx.x] = 42; }
MISTAKE(missing_sync_streams) {
  int *d, *h;
  const int n = 65536;
  hipMalloc(&d, n * 4);
  hipHostMalloc(&h, n * 4, 0);
  memset(h, 0, n * 4);
  hipMemset(d, 0, n * 4);
  hipStream_t a, b;
  hipStreamCreateWithFlags(&a, hipStreamNonBlocking);
  hipStreamCreateWithFlags(&b, hipStreamNonBlocking);
  hipDeviceSynchronize();
  missing_sync_streams_k<<<n / 256, 256, 0, a>>>(d);
  hipMemcpyAsync(h, d, n * 4, hipMemcpyDeviceToHost, b);
  hipStreamSynchronize(b);
  for (int i = 0; i < n; i++)
    if (h[i] != 42) {
      printf("h[%d]=%d\n", i, h[i]);
      return 1;
    }
  puts("ok");
  return 0;
}

// Reads the target of an asynchronous copy without waiting.
__global__ void read_before_sync_k(int *p) {
  for (int i = 0; i < 1000; i++) p[threadIdx.x] += 1;
}
MISTAKE(read_before_sync) {
  int *d, *h;
  hipMalloc(&d, 1024);
  hipHostMalloc(&h, 1024, 0);
  memset(h, 0, 1024);
  hipMemset(d, 0, 1024);
  hipStream_t a;
  hipStreamCreateWithFlags(&a, hipStreamNonBlocking);
  hipDeviceSynchronize();
  read_before_sync_k<<<1, 256, 0, a>>>(d);
  hipMemcpyAsync(h, d, 1024, hipMemcpyDeviceToHost, a);
  if (h[0] != 1000) {
    printf("h[0]=%d\n", h[0]);
    return 1;
  }
  puts("ok");
  return 0;
}

// Uses a buffer after it was freed.
__global__ void use_after_free_k(int *p) { p[threadIdx.x] = 1; }
MISTAKE(use_after_free) {
  int *d, *other;
  int h[256];
  hipMalloc(&d, 1024);
  use_after_free_k<<<1, 256>>>(d);
  hipFree(d);
  hipMalloc(&other, 1024);
  hipMemset(other, 0, 1024);
  use_after_free_k<<<1, 256>>>(d);
  if (hipMemcpy(h, other, 1024, hipMemcpyDeviceToHost) != hipSuccess) {
    puts("copy failed");
    return 1;
  }
  return h[3] != 0;
}

// Frees a buffer twice.
MISTAKE(double_free) {
  int *d;
  hipMalloc(&d, 1024);
  if (hipFree(d) != hipSuccess) return 2;
  hipError_t e = hipFree(d);
  if (e != hipSuccess) {
    printf("hipFree: %s\n", hipGetErrorString(e));
    return 1;
  }
  puts("ok");
  return 0;
}

// Copies more than the buffer holds.
MISTAKE(copy_too_large) {
  int *d;
  std::vector<int> h(4096, 1);
  hipMalloc(&d, 4096);
  hipError_t e = hipMemcpy(d, h.data(), 4 * 4096, hipMemcpyHostToDevice);
  if (e != hipSuccess) {
    printf("hipMemcpy: %s\n", hipGetErrorString(e));
    return 1;
  }
  puts("ok");
  return 0;
}

// Starts more threads than the buffer has elements.
__global__ void kernel_out_of_bounds_k(int *p, int v) { p[blockIdx.x * 256 + threadIdx.x] = v; }
MISTAKE(kernel_out_of_bounds) {
  int *a, *b;
  hipMalloc(&a, 4000);
  hipMalloc(&b, 4000);
  hipMemset(b, 0, 4000);
  kernel_out_of_bounds_k<<<40, 256>>>(a, 9);
  std::vector<int> h(1000);
  if (hipMemcpy(h.data(), b, 4000, hipMemcpyDeviceToHost) != hipSuccess) {
    puts("copy failed");
    return 1;
  }
  for (int i = 0; i < 1000; i++)
    if (h[i]) {
      printf("b[%d]=%d\n", i, h[i]);
      return 1;
    }
  puts("ok");
  return 0;
}

// Expects ones in memory that was never written.
__global__ void uninitialised_k(const int *a, int *b) { b[threadIdx.x] = a[threadIdx.x] + 1; }
MISTAKE(uninitialised) {
  int *a, *b;
  hipMalloc(&a, 1024);
  hipMalloc(&b, 1024);
  uninitialised_k<<<1, 256>>>(a, b);
  int h[256];
  hipMemcpy(h, b, 1024, hipMemcpyDeviceToHost);
  for (int i = 0; i < 256; i++)
    if (h[i] != 2) {
      printf("b[%d]=%d\n", i, h[i]);
      return 1;
    }
  puts("ok");
  return 0;
}

// Starts 2048 threads in a block, and ignores the error.
__global__ void block_too_large_k(int *p) { p[threadIdx.x] = 1; }
MISTAKE(block_too_large) {
  int *d;
  int h[2048] = {0};
  hipMalloc(&d, 8192);
  hipMemset(d, 0, 8192);
  block_too_large_k<<<1, 2048>>>(d);
  hipMemcpy(h, d, 8192, hipMemcpyDeviceToHost);
  for (int i = 0; i < 2048; i++)
    if (h[i] != 1) {
      printf("h[%d]=%d\n", i, h[i]);
      return 1;
    }
  puts("ok");
  return 0;
}

// Reduces in shared memory without a barrier.
__global__ void missing_syncthreads_sum(const int *a, int *o) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = a[t];
  for (int w = 128; w; w /= 2) {
    if (t < w) s[t] += s[t + w];
  }
  if (!t) *o = s[0];
}
MISTAKE(missing_syncthreads) {
  int *a, *o;
  std::vector<int> h(256);
  for (int i = 0; i < 256; i++) h[i] = i;
  hipMalloc(&a, 1024);
  hipMalloc(&o, 4);
  hipMemcpy(a, h.data(), 1024, hipMemcpyHostToDevice);
  missing_syncthreads_sum<<<1, 256>>>(a, o);
  int r;
  hipMemcpy(&r, o, 4, hipMemcpyDeviceToHost);
  printf("%d\n", r);
  return r != 32640;
}

// Ignores a failed allocation.
__global__ void null_from_failed_malloc_k(int *p) { p[threadIdx.x] = 1; }
MISTAKE(null_from_failed_malloc) {
  int *d = nullptr;
  hipMalloc(&d, 1ull << 50);
  null_from_failed_malloc_k<<<1, 64>>>(d);
  hipError_t e = hipDeviceSynchronize();
  printf("%s\n", hipGetErrorString(e));
  return e != hipSuccess;
}

// Gives a pointer of malloc to a kernel.
__global__ void host_pointer_in_kernel_k(int *p) { p[threadIdx.x] = 1; }
MISTAKE(host_pointer_in_kernel) {
  int *h = (int *)malloc(1024);
  memset(h, 0, 1024);
  host_pointer_in_kernel_k<<<1, 256>>>(h);
  hipError_t e = hipDeviceSynchronize();
  if (e != hipSuccess || h[3] != 1) {
    printf("%s %d\n", hipGetErrorString(e), h[3]);
    return 1;
  }
  puts("ok");
  return 0;
}

// Swaps the direction of a copy.
__global__ void wrong_direction_k(int *p) { p[threadIdx.x] = 1; }
MISTAKE(wrong_direction) {
  int *d;
  int h[256] = {0};
  hipMalloc(&d, 1024);
  hipMemset(d, 0, 1024);
  wrong_direction_k<<<1, 256>>>(d);
  hipMemcpy(d, h, 1024, hipMemcpyHostToDevice);
  hipMemcpy(h, d, 1024, hipMemcpyDeviceToHost);
  if (h[3] != 1) {
    printf("h[3]=%d\n", h[3]);
    return 1;
  }
  puts("ok");
  return 0;
}

// Launches on a destroyed stream.
__global__ void stream_after_destroy_k(int *p) { p[threadIdx.x] = 1; }
MISTAKE(stream_after_destroy) {
  int *d;
  hipMalloc(&d, 1024);
  hipStream_t s;
  hipStreamCreate(&s);
  hipStreamDestroy(s);
  stream_after_destroy_k<<<1, 256, 0, s>>>(d);
  hipError_t e = hipGetLastError();
  if (e == hipSuccess) e = hipStreamSynchronize(s);
  printf("%s\n", hipGetErrorString(e));
  return e != hipSuccess;
}

// Frees the source of a captured copy before the graph runs.
MISTAKE(graph_freed_host) {
  int *d;
  hipMalloc(&d, 4096);
  hipStream_t s;
  hipStreamCreate(&s);
  int *h = (int *)malloc(4096);
  for (int i = 0; i < 1024; i++) h[i] = 5;
  hipGraph_t g;
  hipGraphExec_t x;
  hipStreamBeginCapture(s, hipStreamCaptureModeGlobal);
  hipMemcpyAsync(d, h, 4096, hipMemcpyHostToDevice, s);
  hipStreamEndCapture(s, &g);
  hipGraphInstantiate(&x, g, nullptr, nullptr, 0);
  for (int i = 0; i < 1024; i++) h[i] = 0;
  free(h);
  char *z = (char *)malloc(4096);
  memset(z, 1, 4096);
  hipGraphLaunch(x, s);
  hipStreamSynchronize(s);
  int o[1024];
  hipMemcpy(o, d, 4096, hipMemcpyDeviceToHost);
  for (int i = 0; i < 1024; i++)
    if (o[i] != 5) {
      printf("o[%d]=%d\n", i, o[i]);
      return 1;
    }
  puts("ok");
  return 0;
}

// Synchronises a stream that captures.
__global__ void sync_in_capture_k(int *p) { p[threadIdx.x] = 1; }
MISTAKE(sync_in_capture) {
  int *d;
  hipMalloc(&d, 1024);
  hipStream_t s;
  hipStreamCreate(&s);
  hipGraph_t g;
  hipStreamBeginCapture(s, hipStreamCaptureModeGlobal);
  sync_in_capture_k<<<1, 256, 0, s>>>(d);
  hipError_t e = hipStreamSynchronize(s);
  if (e != hipSuccess) {
    printf("sync: %s\n", hipGetErrorString(e));
    return 1;
  }
  e = hipStreamEndCapture(s, &g);
  printf("%s\n", hipGetErrorString(e));
  return e != hipSuccess;
}

// Asks for too little shared memory.
__global__ void lds_too_small_k(int *o) {
  extern __shared__ int s[];
  s[threadIdx.x * 32] = threadIdx.x;
  __syncthreads();
  o[threadIdx.x] = s[(threadIdx.x + 1) % 256 * 32];
}
MISTAKE(lds_too_small) {
  int *o;
  int h[256];
  hipMalloc(&o, 1024);
  lds_too_small_k<<<1, 256, 256>>>(o);
  hipMemcpy(h, o, 1024, hipMemcpyDeviceToHost);
  for (int i = 0; i < 256; i++)
    if (h[i] != (i + 1) % 256) {
      printf("h[%d]=%d\n", i, h[i]);
      return 1;
    }
  puts("ok");
  return 0;
}

// Counts without atomics.
__global__ void counter_race_k(int *c) { *c += 1; }
MISTAKE(counter_race) {
  int *c;
  int r;
  hipMalloc(&c, 4);
  hipMemset(c, 0, 4);
  counter_race_k<<<4, 256>>>(c);
  hipMemcpy(&r, c, 4, hipMemcpyDeviceToHost);
  printf("%d\n", r);
  return r != 1024;
}

// Compares floats with doubles.
__global__ void wrong_expectation_k(float *p) { p[threadIdx.x] = p[threadIdx.x] * 0.1f; }
MISTAKE(wrong_expectation) {
  float *d;
  float h[64];
  for (int i = 0; i < 64; i++) h[i] = i;
  hipMalloc(&d, 256);
  hipMemcpy(d, h, 256, hipMemcpyHostToDevice);
  wrong_expectation_k<<<1, 64>>>(d);
  hipMemcpy(h, d, 256, hipMemcpyDeviceToHost);
  for (int i = 0; i < 64; i++)
    if (h[i] != i * 0.1) {
      printf("h[%d]=%.9g\n", i, h[i]);
      return 1;
    }
  puts("ok");
  return 0;
}

// Measures up to an event that was not recorded.
MISTAKE(event_not_recorded) {
  hipEvent_t a, b;
  hipEventCreate(&a);
  hipEventCreate(&b);
  float ms;
  hipEventRecord(a, 0);
  hipError_t e = hipEventElapsedTime(&ms, a, b);
  printf("%s\n", hipGetErrorString(e));
  return e != hipSuccess;
}

// Selects a device that is not there.
MISTAKE(second_device) {
  int *d;
  hipError_t e = hipSetDevice(1);
  if (e != hipSuccess) {
    printf("hipSetDevice: %s\n", hipGetErrorString(e));
    return 1;
  }
  puts("ok");
  return 0;
}

// Uses a buffer after its asynchronous release.
__global__ void free_async_used_k(int *p, int v) { p[threadIdx.x] = v; }
MISTAKE(free_async_used) {
  int *d, *e;
  int h[256];
  hipStream_t s;
  hipStreamCreate(&s);
  hipMallocAsync((void **)&d, 1024, s);
  hipFreeAsync(d, s);
  hipMallocAsync((void **)&e, 1024, s);
  free_async_used_k<<<1, 256, 0, s>>>(e, 1);
  free_async_used_k<<<1, 256, 0, s>>>(d, 2);
  hipMemcpyAsync(h, e, 1024, hipMemcpyDeviceToHost, s);
  hipStreamSynchronize(s);
  if (h[3] != 1) {
    printf("%d\n", h[3]);
    return 1;
  }
  puts("ok");
  return 0;
}

// Frees nothing.
MISTAKE(leak) {
  size_t f0, f1, t;
  hipMemGetInfo(&f0, &t);
  for (int i = 0; i < 50; i++) {
    int *d;
    hipMalloc(&d, 1 << 20);
  }
  hipMemGetInfo(&f1, &t);
  printf("%zu\n", f0 - f1);
  return f1 + (1 << 20) < f0;
}

// Loads a file that is not there.
__global__ void wrong_kernel_name_k(int *p) { p[0] = 1; }
MISTAKE(wrong_kernel_name) {
  hipModule_t m;
  hipError_t e = hipModuleLoad(&m, "missing.hsaco");
  printf("hipModuleLoad: %s\n", hipGetErrorString(e));
  return e != hipSuccess;
}

// Computes something else than it expects.
__global__ void signed_bug_k(int *p) { p[threadIdx.x] = threadIdx.x / 2; }
MISTAKE(signed_bug) {
  int *d;
  int h[64];
  hipMalloc(&d, 256);
  signed_bug_k<<<1, 64>>>(d);
  hipMemcpy(h, d, 256, hipMemcpyDeviceToHost);
  for (int i = 0; i < 64; i++)
    if (h[i] != i * 2) {
      printf("h[%d]=%d\n", i, h[i]);
      return 1;
    }
  puts("ok");
  return 0;
}

// Writes through a null pointer on the host.
MISTAKE(host_crash) {
  int *d;
  hipMalloc(&d, 1024);
  hipMemset(d, 0, 1024);
  int *x = nullptr;
  *x = 3;
  return 0;
}

// Calls HIP in a host function.
static int bad = 0;
void cb(void *) {
  int *e;
  if (hipMalloc(&e, 16) != hipSuccess) bad = 1;
}
MISTAKE(callback_calls_hip) {
  hipStream_t s;
  hipStreamCreate(&s);
  hipLaunchHostFunc(s, cb, nullptr);
  hipStreamSynchronize(s);
  printf("%d\n", bad);
  return 1 - bad;
}

static int healthy() {
  int *d, h[64] = {0}, back[64] = {0};
  for (int i = 0; i < 64; i++) h[i] = i + 1;
  hipMalloc(&d, sizeof h);
  hipMemcpy(d, h, sizeof h, hipMemcpyHostToDevice);
  hipMemcpy(back, d, sizeof h, hipMemcpyDeviceToHost);
  return memcmp(h, back, sizeof h) != 0;
}

int main(int count, char **arguments) {
  if (count == 2 && arguments[1] == std::string("healthy")) return healthy();
  if (count == 2 && mistakes.count(arguments[1])) return mistakes[arguments[1]]();
  for (auto &mistake : mistakes) puts(mistake.first.c_str());
  return count == 1 ? 0 : 2;
}
