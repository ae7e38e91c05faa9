// hipGraphInstantiate returns, and the process goes on.
// Failure: the process was killed by SIGSEGV in hipGraphInstantiate.
// Upstream: ROCm/ROCm#6602
// Failed as described in 3 of 3 runs on ROCm 7.2.4 (debian:7.2.4), emulated gfx1151, not a GPU, 2026-11-29.
// Passed in 3 of 3 runs on ROCm 6.4.3 (debian:6.4.3), emulated gfx1151, not a GPU.
// Printed by rocrepro from graphs/long-chain[nodes=30000].
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
  hipGraph_t g = nullptr;
  CHECK(hipGraphCreate(&g, 0), hipSuccess);
  hipGraphNode_t before = nullptr, node = nullptr;
  for (int n = 0; n < 30000; n++, before = node)
    CHECK(hipGraphAddEmptyNode(&node, g, &before, n > 0), hipSuccess);
  hipGraphExec_t x = nullptr;
  hipGraphNode_t error_node = nullptr;
  CHECK(hipGraphInstantiate(&x, g, &error_node, nullptr, 0), hipSuccess);
  std::puts("PASS");
}
