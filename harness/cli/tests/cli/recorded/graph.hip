// A captured graph that is launched twice, and ten kernels one after another.
#include <cstdio>
#include <hip/hip_runtime.h>
#include <vector>

__device__ int calls;

__global__ void add(float *out, const float *in, float term, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += in[i] + term;
  if (i == 0) calls++;
}

__global__ void read_calls(int *out) { *out = calls; }

template <int N> __global__ void step(float *out) { out[threadIdx.x] = out[threadIdx.x] * 2 + N; }

#define CHECK(x) do { hipError_t e = (x); if (e) { printf("%s: %s\n", #x, hipGetErrorString(e)); return 2; } } while (0)

int main() {
  const int n = 256;
  std::vector<float> host(n, 1.5f), back(n), last(n);
  float *in, *out;
  int *count, counted = 0;
  CHECK(hipSetDevice(0));
  hipFuncAttributes attributes;
  CHECK(hipFuncGetAttributes(&attributes, reinterpret_cast<const void *>(&read_calls)));
  CHECK(hipMalloc(&in, n * 4)); CHECK(hipMalloc(&out, n * 4)); CHECK(hipMalloc(&count, 4));
  hipStream_t s;
  CHECK(hipStreamCreate(&s));
  CHECK(hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice));
  CHECK(hipMemset(out, 0, n * 4));
  hipGraph_t graph;
  hipGraphExec_t exec;
  CHECK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  add<<<2, 128, 0, s>>>(out, in, 0.5f, n);
  CHECK(hipMemcpyAsync(back.data(), out, n * 4, hipMemcpyDeviceToHost, s));
  CHECK(hipStreamEndCapture(s, &graph));
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  int wrong = 0;
  for (int launch = 1; launch <= 2; launch++) {
    CHECK(hipGraphLaunch(exec, s));
    CHECK(hipStreamSynchronize(s));
    for (float value : back) wrong += value != 2.0f * launch;
  }
  step<0><<<1, n, 0, s>>>(out); step<1><<<1, n, 0, s>>>(out); step<2><<<1, n, 0, s>>>(out);
  step<3><<<1, n, 0, s>>>(out); step<4><<<1, n, 0, s>>>(out); step<5><<<1, n, 0, s>>>(out);
  step<6><<<1, n, 0, s>>>(out); step<7><<<1, n, 0, s>>>(out); step<8><<<1, n, 0, s>>>(out);
  step<9><<<1, n, 0, s>>>(out);
  read_calls<<<1, 1, 0, s>>>(count);
  CHECK(hipGetLastError());
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(last.data(), out, n * 4, hipMemcpyDeviceToHost));
  CHECK(hipMemcpy(&counted, count, 4, hipMemcpyDeviceToHost));
  float right = 4;
  for (int i = 0; i < 10; i++) right = right * 2 + i;
  for (float value : last) wrong += value != right;
  wrong += counted != 2;
  printf("%d wrong\n", wrong);
  return wrong ? 1 : 0;
}
