// Three streams with events between them. The kernels share an input, and one gets a struct with an address.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
__global__ void scale(const int *in, int *out, int factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * factor;
}
template <typename T> __global__ void add(const T *a, const T *b, T *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
struct Range { int *data; int from, to; };
__global__ void fill(Range r, int value) {
  int i = r.from + threadIdx.x;
  if (i < r.to) r.data[i] = value;
}
#define CHECK(x) do { hipError_t e = (x); if (e) { printf("%s: %s\n", #x, hipGetErrorString(e)); return 2; } } while (0)
int main() {
  const int n = 1000;
  std::vector<int> host(n), back(n), other(n);
  for (int i = 0; i < n; i++) host[i] = i * 7;
  int *in, *a, *b, *c;
  CHECK(hipMalloc(&in, n * 4)); CHECK(hipMalloc(&a, n * 4)); CHECK(hipMalloc(&b, n * 4)); CHECK(hipMalloc(&c, n * 4));
  hipStream_t s[3];
  for (auto &one : s) CHECK(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
  hipEvent_t ready, done;
  CHECK(hipEventCreateWithFlags(&ready, hipEventDisableTiming)); CHECK(hipEventCreateWithFlags(&done, hipEventDisableTiming));
  CHECK(hipMemcpyAsync(in, host.data(), n * 4, hipMemcpyHostToDevice, s[0]));
  CHECK(hipEventRecord(ready, s[0]));
  CHECK(hipStreamWaitEvent(s[1], ready, 0));
  CHECK(hipStreamWaitEvent(s[2], ready, 0));
  scale<<<4, 256, 0, s[1]>>>(in, a, 2, n);
  scale<<<4, 256, 0, s[2]>>>(in, b, 3, n);
  CHECK(hipEventRecord(done, s[2]));
  CHECK(hipStreamWaitEvent(s[1], done, 0));
  add<int><<<4, 256, 0, s[1]>>>(a, b, c, n);
  fill<<<1, 64, 0, s[1]>>>(Range{c, 10, 20}, 99);
  CHECK(hipGetLastError());
  CHECK(hipMemcpyAsync(back.data(), c, n * 4, hipMemcpyDeviceToHost, s[1]));
  CHECK(hipStreamSynchronize(s[1]));
  CHECK(hipMemcpy(other.data(), a, n * 4, hipMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < n; i++) { int want = i >= 10 && i < 20 ? 99 : i * 35; wrong += back[i] != want || other[i] != i * 14; }
  printf("%d wrong\n", wrong);
  for (auto &one : s) CHECK(hipStreamDestroy(one));
  CHECK(hipEventDestroy(ready)); CHECK(hipEventDestroy(done));
  CHECK(hipFree(in)); CHECK(hipFree(a)); CHECK(hipFree(b)); CHECK(hipFree(c));
  return wrong ? 1 : 0;
}
