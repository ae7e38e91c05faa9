// hipMemcpyAsync returns hipSuccess.
// A failing run ended with: FAIL: hipMemcpyAsync(out, src, 4, hipMemcpyHostToDevice, s) returned hipErrorInvalidValue; expected hipSuccess (line 36)
// Upstream: ROCm/ROCm#4614
// Failed as described in 3 of 3 runs on ROCm 7.2.4 (debian:7.2.4), emulated gfx1151, not a GPU, 2026-11-29.
// Passed in 3 of 3 runs on ROCm 5.7.1 (debian:5.7.1), emulated gfx1100, not a GPU.
// Printed by rocrepro from capture/retry-after-invalidated-capture[node=copy].
// Build: g++ -std=c++17 -pthread -D__HIP_PLATFORM_AMD__ -I/opt/rocm/include repro.cpp -o repro -L/opt/rocm/lib -lamdhip64
// Run:   LD_LIBRARY_PATH=/opt/rocm/lib ./repro

#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

// Ends the program if a call does not return the right status.
#define CHECK(call, right)                                                                               \
  if (const auto status = (call); status != (right)) {                                                   \
    std::printf("FAIL: %s returned %s; expected %s (line %d)\n", #call, hipGetErrorName(status), #right, \
                __LINE__);                                                                               \
    std::exit(1);                                                                                        \
  }

int main() {
  hipStream_t s = nullptr;
  CHECK(hipStreamCreateWithFlags(&s, hipStreamDefault), hipSuccess);
  unsigned char* out = nullptr;
  CHECK(hipMalloc(&out, 4), hipSuccess);
  unsigned char* src = nullptr;
  CHECK(hipHostMalloc(&src, 4, hipHostMallocDefault), hipSuccess);
  CHECK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal), hipSuccess);
  CHECK(hipMemcpyAsync(out, src, 4, hipMemcpyHostToDevice, s), hipSuccess);
  (void)hipStreamQuery(s);  // returns hipErrorStreamCaptureUnsupported
  hipGraph_t broken = nullptr;
  (void)hipStreamEndCapture(s, &broken);  // returns hipErrorStreamCaptureInvalidated
  CHECK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal), hipSuccess);
  CHECK(hipMemcpyAsync(out, src, 4, hipMemcpyHostToDevice, s), hipSuccess);
  std::puts("PASS");
}
