#include <cstdio>
#include <hip/hip_runtime.h>

#define MUST(call)                                                        \
  if (hipError_t status = (call); status != hipSuccess) {                 \
    std::printf("%s returns %s\n", #call, hipGetErrorName(status));       \
    return 1;                                                             \
  }

int main() {
  hipStream_t stream;
  hipGraph_t graph;
  void *memory, *block = nullptr;
  MUST(hipMalloc(&memory, 4096));
  MUST(hipStreamCreate(&stream));
  MUST(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  MUST(hipMemsetAsync(memory, 1, 4096, stream));
  // It may succeed or be refused, because the null stream waits for the captured one.
  hipError_t status = hipMallocAsync(&block, 65536, nullptr);
  std::printf("hipMallocAsync returns %s\n", hipGetErrorName(status));
  status = hipStreamEndCapture(stream, &graph);
  std::printf("hipStreamEndCapture returns %s\n", hipGetErrorName(status));
  return 0;
}
