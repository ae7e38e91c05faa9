// A graph of a long chain of kernels instantiates and runs.
// What goes wrong: the process died of SIGABRT in hipGraphInstantiate (line 13).
// Upstream: ROCm/ROCm#6602, pytorch/pytorch#155720
//
// Tested on ROCm 7.2.4 (debian:7.2.4) with the emulated gfx1151, 2026-11-21: verified 3/3.
// Verified: it ends as its trial does, by the same HIP calls in the same order.
// An emulated device, not a GPU result.
// Printed by rocrepro from case.
//
// Build: g++ -std=c++17 -pthread -D__HIP_PLATFORM_AMD__ -I/opt/rocm/include repro.cpp -o repro -L/opt/rocm/lib -lamdhip64 -lhiprtc
// Run:   LD_LIBRARY_PATH=/opt/rocm/lib ./repro

#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// Every buffer lies between guard bytes that nothing may touch, and starts as poison.
constexpr size_t GUARD = 256;
constexpr unsigned char GUARD_BYTE = 0x5C, POISON = 0xA5;

static std::string name_of(hipError_t status) { return hipGetErrorName(status); }

static std::string name_of(hiprtcResult status) { return hiprtcGetErrorString(status); }

static std::string function_of(const char* call) { return std::string(call, std::strcspn(call, "(")); }

// Ends the program at a call that fails. 0 is success in every ROCm library.
#define HIP_CHECK(call) require(call, #call, __LINE__)

template <class Status>
static void require(Status status, const char* call, int line) {
  if (status == Status(0)) return;
  std::printf("FAIL: %s returned %s; expected was success (line %d)\n", function_of(call).c_str(),
              name_of(status).c_str(), line);
  std::exit(1);
}

static int failures = 0;

// Compares a buffer with what it must hold; says how many bytes are wrong and where the first ones are.
static void check(const char* what, const unsigned char* got, const unsigned char* right, size_t bytes) {
  size_t wrong = 0, first = 0;
  for (size_t i = bytes; i-- > 0;)
    if (got[i] != right[i]) wrong++, first = i;
  if (wrong == 0) return;
  failures++;
  std::printf("FAIL: buffer %s: %zu of %zu bytes are wrong, the first at offset %zu\n", what, wrong, bytes, first);
  const size_t end = std::min(bytes, first + 16);
  std::printf("  got     ");
  for (size_t i = first; i < end; i++) std::printf(" %02x", got[i]);
  std::printf("\n  expected");
  for (size_t i = first; i < end; i++) std::printf(" %02x", right[i]);
  std::printf("\n");
  std::fflush(stdout);
}

static void check_device_guards(const char* what, const unsigned char* buffer, size_t bytes) {
  std::vector<unsigned char> guards(2 * GUARD), right(2 * GUARD, GUARD_BYTE);
  HIP_CHECK(hipMemcpy(guards.data(), buffer - GUARD, GUARD, hipMemcpyDeviceToHost));
  HIP_CHECK(hipMemcpy(guards.data() + GUARD, buffer + bytes, GUARD, hipMemcpyDeviceToHost));
  check(what, guards.data(), right.data(), guards.size());
}

// Compiles a kernel for the device.
static std::vector<char> compile(const char* name, const char* source, const std::string& arch) {
  hiprtcProgram program;
  HIP_CHECK(hiprtcCreateProgram(&program, source, name, 0, nullptr, nullptr));
  const std::string offload = "--offload-arch=" + arch;
  const char* options[] = {offload.c_str(), "-O3"};
  if (hiprtcCompileProgram(program, 2, options) != HIPRTC_SUCCESS) {
    size_t bytes = 0;
    HIP_CHECK(hiprtcGetProgramLogSize(program, &bytes));
    std::string log(bytes, '\0');
    HIP_CHECK(hiprtcGetProgramLog(program, &log[0]));
    std::printf("FAIL: kernel %s did not compile\n%s\n", name, log.c_str());
    std::exit(1);
  }
  size_t bytes = 0;
  HIP_CHECK(hiprtcGetCodeSize(program, &bytes));
  std::vector<char> code(bytes);
  HIP_CHECK(hiprtcGetCode(program, code.data()));
  HIP_CHECK(hiprtcDestroyProgram(&program));
  return code;
}

template <class... Args>
static hipError_t launch(hipFunction_t kernel, dim3 grid, dim3 block, hipStream_t stream, Args... args) {
  void* pointers[] = {&args...};
  return hipModuleLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, stream, pointers, nullptr);
}

static const char fill_u32_source[] = R"(
// dst[i] = value + i
extern "C" __global__ void fill_u32(unsigned int* dst, unsigned int n, unsigned int value) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = value + i;
}
)";

int main() {
  int runtime = 0;
  hipDeviceProp_t device;
  HIP_CHECK(hipRuntimeGetVersion(&runtime));
  HIP_CHECK(hipGetDeviceProperties(&device, 0));
  std::printf("HIP runtime %d on %s (%s)\n", runtime, device.name, device.gcnArchName);
  std::fflush(stdout);
  // Set-up.
  const std::vector<char> fill_u32_code = compile("fill_u32", fill_u32_source, device.gcnArchName);
  hipModule_t fill_u32_module = nullptr;
  HIP_CHECK(hipModuleLoadData(&fill_u32_module, fill_u32_code.data()));
  hipFunction_t fill_u32 = nullptr;
  HIP_CHECK(hipModuleGetFunction(&fill_u32, fill_u32_module, "fill_u32"));
  hipStream_t s = nullptr;
  HIP_CHECK(hipStreamCreateWithFlags(&s, hipStreamDefault));
  unsigned char *counter = nullptr;
  HIP_CHECK(hipMalloc(&counter, 4 + 2 * GUARD));
  counter += GUARD;
  HIP_CHECK(hipMemset(counter - GUARD, GUARD_BYTE, 4 + 2 * GUARD));
  HIP_CHECK(hipMemset(counter, POISON, 4));
  HIP_CHECK(hipMemset(counter, 0, 4));
  HIP_CHECK(hipDeviceSynchronize());

  // What this is about.
  HIP_CHECK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  for (int i = 0; i < 30000; i++) {
    HIP_CHECK(launch(fill_u32, 1, 256, s, counter, 1u, 1u));
  }
  hipGraph_t g = nullptr;
  HIP_CHECK(hipStreamEndCapture(s, &g));
  hipGraphExec_t x = nullptr;
  hipGraphNode_t error_node = nullptr;
  HIP_CHECK(hipGraphInstantiate(&x, g, &error_node, nullptr, 0));

  // Nothing may have been written around the buffers.
  HIP_CHECK(hipDeviceSynchronize());
  check_device_guards("counter.guards", counter, 4);

  std::printf(failures == 0 ? "PASS\n" : "FAILED: %d expectations were not met\n", failures);
  std::fflush(stdout);

  // Teardown.
  HIP_CHECK(hipGraphExecDestroy(x));
  HIP_CHECK(hipGraphDestroy(g));
  HIP_CHECK(hipModuleUnload(fill_u32_module));
  HIP_CHECK(hipStreamDestroy(s));
  HIP_CHECK(hipFree(counter - GUARD));
  return failures == 0 ? 0 : 1;
}
