// A capture that failed can be made again on the same stream.
// What goes wrong: hipMemcpyAsync (line 39) returned hipErrorInvalidValue.
// Upstream: ROCm/ROCm#4614
//
// Tested on ROCm 7.2.4 (debian:7.2.4) with the emulated gfx1151, 2026-11-21: verified 3/3.
// Verified: it ends as its trial does, by the same HIP calls in the same order.
// An emulated device, not a GPU result.
// Printed by rocrepro from capture/retry-after-invalidated-capture[node=copy].
//
// Build: g++ -std=c++17 -pthread -D__HIP_PLATFORM_AMD__ -I/opt/rocm/include repro.cpp -o repro -L/opt/rocm/lib -lamdhip64 -lhiprtc
// Run:   LD_LIBRARY_PATH=/opt/rocm/lib ./repro

#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

// Every buffer lies between guard bytes that nothing may touch, and starts as poison.
constexpr size_t GUARD = 256;
constexpr unsigned char GUARD_BYTE = 0x5C, POISON = 0xA5;

static std::string name_of(hipError_t status) { return hipGetErrorName(status); }

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

// Notes a call whose status is none of the expected ones, and goes on; says whether the call succeeded.
#define HIP_EXPECT(call, ...) expect_status(call, #call, __LINE__, {__VA_ARGS__})

template <class Status>
static bool expect_status(Status status, const char* call, int line, std::initializer_list<Status> right) {
  if (std::find(right.begin(), right.end(), status) != right.end()) return status == Status(0);
  failures++;
  std::printf("FAIL: %s returned %s; expected was", function_of(call).c_str(), name_of(status).c_str());
  for (Status one : right) std::printf(" %s", name_of(one).c_str());
  std::printf(" (line %d)\n", line);
  std::fflush(stdout);
  return status == Status(0);
}

// Notes a value that is not the expected one, and goes on.
static void expect_value(const char* function, const std::string& got, const char* right, bool fits) {
  if (fits) return;
  failures++;
  std::printf("FAIL: %s gave %s; expected was %s\n", function, got.c_str(), right);
  std::fflush(stdout);
}

// Pageable host memory, aligned as device memory is.
static unsigned char* host_alloc(size_t bytes) {
  return static_cast<unsigned char*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
}

static void poison_host(unsigned char* buffer, size_t bytes) {
  std::memset(buffer - GUARD, GUARD_BYTE, GUARD);
  std::memset(buffer, POISON, bytes);
  std::memset(buffer + bytes, GUARD_BYTE, GUARD);
}

// Fills memory with words that differ with every seed and position, so that stale or misplaced bytes are recognised.
static void fill_pattern(void* to, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; i += 4) {
    uint64_t z = seed * 0x9E3779B97F4A7C15u + i / 4 + 1;  // splitmix64's finaliser
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    const uint32_t word = std::max(uint32_t(z >> 40), 1u);
    std::memcpy(static_cast<unsigned char*>(to) + i, &word, std::min<size_t>(4, bytes - i));
  }
}

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

static void check_guards(const char* what, const unsigned char* buffer, size_t bytes) {
  std::vector<unsigned char> guards(buffer - GUARD, buffer), right(2 * GUARD, GUARD_BYTE);
  guards.insert(guards.end(), buffer + bytes, buffer + bytes + GUARD);
  check(what, guards.data(), right.data(), guards.size());
}

static void check_device_guards(const char* what, const unsigned char* buffer, size_t bytes) {
  std::vector<unsigned char> guards(2 * GUARD), right(2 * GUARD, GUARD_BYTE);
  HIP_CHECK(hipMemcpy(guards.data(), buffer - GUARD, GUARD, hipMemcpyDeviceToHost));
  HIP_CHECK(hipMemcpy(guards.data() + GUARD, buffer + bytes, GUARD, hipMemcpyDeviceToHost));
  check(what, guards.data(), right.data(), guards.size());
}

int main() {
  int runtime = 0;
  hipDeviceProp_t device;
  HIP_CHECK(hipRuntimeGetVersion(&runtime));
  HIP_CHECK(hipGetDeviceProperties(&device, 0));
  std::printf("HIP runtime %d on %s (%s)\n", runtime, device.name, device.gcnArchName);
  std::fflush(stdout);
  // What the buffers must hold, kept on the host beside the calls.
  std::vector<unsigned char> want_out(4096, POISON);
  std::vector<unsigned char> want_out_back(4096, POISON);
  std::vector<unsigned char> want_src(4096, POISON);
  auto replay_broken = [&] { want_out = want_src; };
  auto replay_g = [&] { want_out = want_src; };

  // Set-up.
  hipStream_t s = nullptr;
  HIP_CHECK(hipStreamCreateWithFlags(&s, hipStreamDefault));
  unsigned char *dst = nullptr;
  HIP_CHECK(hipMalloc(&dst, 4096 + 2 * GUARD));
  dst += GUARD;
  HIP_CHECK(hipMemset(dst - GUARD, GUARD_BYTE, 4096 + 2 * GUARD));
  HIP_CHECK(hipMemset(dst, POISON, 4096));
  unsigned char *dst_initial = nullptr;
  dst_initial = host_alloc(4096 + 2 * GUARD);
  dst_initial += GUARD;
  poison_host(dst_initial, 4096);
  fill_pattern(dst_initial, 4096, 27);
  HIP_CHECK(hipMemcpy(dst, dst_initial, 4096, hipMemcpyHostToDevice));
  unsigned char *out = nullptr;
  HIP_CHECK(hipMalloc(&out, 4096 + 2 * GUARD));
  out += GUARD;
  HIP_CHECK(hipMemset(out - GUARD, GUARD_BYTE, 4096 + 2 * GUARD));
  HIP_CHECK(hipMemset(out, POISON, 4096));
  unsigned char *out_back = nullptr;
  out_back = host_alloc(4096 + 2 * GUARD);
  out_back += GUARD;
  poison_host(out_back, 4096);
  unsigned char *src = nullptr;
  HIP_CHECK(hipHostMalloc(&src, 4096 + 2 * GUARD, hipHostMallocDefault));
  src += GUARD;
  poison_host(src, 4096);
  fill_pattern(src, 4096, 41);
  want_src.assign(src, src + 4096);
  HIP_CHECK(hipDeviceSynchronize());

  // What this is about.
  HIP_CHECK(hipMemcpyAsync(out, src, 4096, hipMemcpyHostToDevice, s));
  want_out = want_src;
  HIP_CHECK(hipStreamSynchronize(s));
  HIP_CHECK(hipMemcpy(out_back, out, 4096, hipMemcpyDeviceToHost));
  want_out_back = want_out;
  check("out.back", out_back, want_out_back.data(), 4096);
  HIP_CHECK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  HIP_CHECK(hipMemcpyAsync(out, src, 4096, hipMemcpyHostToDevice, s));
  HIP_EXPECT(hipStreamQuery(s), hipErrorStreamCaptureUnsupported);
  hipGraph_t broken = nullptr;
  HIP_EXPECT(hipStreamEndCapture(s, &broken), hipErrorStreamCaptureInvalidated);
  (void)hipGetLastError();
  HIP_CHECK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  HIP_CHECK(hipMemcpyAsync(out, src, 4096, hipMemcpyHostToDevice, s));
  hipGraph_t g = nullptr;
  HIP_CHECK(hipStreamEndCapture(s, &g));
  size_t nodes = 0;
  HIP_CHECK(hipGraphGetNodes(g, nullptr, &nodes));
  expect_value("hipGraphGetNodes", std::to_string(nodes), "1", nodes == 1);
  hipGraphExec_t x = nullptr;
  hipGraphNode_t error_node = nullptr;
  HIP_CHECK(hipGraphInstantiate(&x, g, &error_node, nullptr, 0));
  HIP_CHECK(hipGraphLaunch(x, s));
  replay_g();
  HIP_CHECK(hipStreamSynchronize(s));
  HIP_CHECK(hipMemcpy(out_back, out, 4096, hipMemcpyDeviceToHost));
  want_out_back = want_out;
  check("out.back", out_back, want_out_back.data(), 4096);

  // Nothing may have been written around the buffers.
  HIP_CHECK(hipDeviceSynchronize());
  check_device_guards("dst.guards", dst, 4096);
  check_device_guards("out.guards", out, 4096);
  check_guards("out.back.guards", out_back, 4096);
  check_guards("src.guards", src, 4096);

  std::printf(failures == 0 ? "PASS\n" : "FAILED: %d expectations were not met\n", failures);
  std::fflush(stdout);

  // Teardown.
  HIP_CHECK(hipGraphExecDestroy(x));
  HIP_CHECK(hipGraphDestroy(g));
  HIP_CHECK(hipStreamDestroy(s));
  HIP_CHECK(hipFree(dst - GUARD));
  HIP_CHECK(hipFree(out - GUARD));
  std::free(out_back - GUARD);
  HIP_CHECK(hipHostFree(src - GUARD));
  std::free(dst_initial - GUARD);
  return failures == 0 ? 0 : 1;
}
