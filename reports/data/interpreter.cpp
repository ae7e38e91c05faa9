// How long kernels take on the emulated device: processor time of the process around a launch and its wait, in
// milliseconds.
//
// Build: g++ -O2 -std=c++17 -D__HIP_PLATFORM_AMD__ -I/opt/rocm/include interpreter.cpp -o interpreter
//          -lamdhip64 -lhiprtc -lhiprand -lhipblaslt
// Run:   rocrepro exec --rocm debian:7.2.4 --with hiprand --with hipblaslt --
//          ./interpreter kernels saxpy|lcg|matmul|philox|gemm --offload-arch=gfx1151
#define __HIP_DISABLE_CPP_FUNCTIONS__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#include <hipblaslt/hipblaslt.h>
#include <hiprand/hiprand.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>
#define OK(x)                             \
  do {                                    \
    int e = (int)(x);                     \
    if (e) {                              \
      fprintf(stderr, "%s: %d\n", #x, e); \
      exit(1);                            \
    }                                     \
  } while (0)
static const char* arch;
static double now(clockid_t c) {
  timespec t;
  clock_gettime(c, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
static hipFunction_t kernel(const char* dir, const char* name) {
  std::ifstream f(std::string(dir) + "/" + name + ".hip");
  std::stringstream s;
  s << f.rdbuf();
  hiprtcProgram p;
  OK(hiprtcCreateProgram(&p, s.str().c_str(), name, 0, nullptr, nullptr));
  const char* o[] = {"-O3", arch};
  OK(hiprtcCompileProgram(p, 2, o));
  size_t n;
  OK(hiprtcGetCodeSize(p, &n));
  std::vector<char> code(n);
  OK(hiprtcGetCode(p, code.data()));
  hipModule_t m;
  OK(hipModuleLoadData(&m, code.data()));
  hipFunction_t k;
  OK(hipModuleGetFunction(&k, m, name));
  return k;
}
template <class F>
void timed(const char* name, int reps, F f) {
  f();
  OK(hipDeviceSynchronize());
  std::vector<double> cpu, wall;
  for (int i = 0; i < reps; i++) {
    double c = now(CLOCK_PROCESS_CPUTIME_ID), w = now(CLOCK_MONOTONIC);
    f();
    OK(hipDeviceSynchronize());
    cpu.push_back(now(CLOCK_PROCESS_CPUTIME_ID) - c);
    wall.push_back(now(CLOCK_MONOTONIC) - w);
  }
  std::sort(cpu.begin(), cpu.end());
  std::sort(wall.begin(), wall.end());
  printf("%s cpu %.3f least %.3f wall %.3f ms\n", name, cpu[reps / 2], cpu[0], wall[reps / 2]);
}
int main(int, char** argv) {
  arch = argv[3];
  const char* dir = argv[1];
  std::string what = argv[2];
  unsigned n = 16384;
  float a = 2;
  void *x, *y, *z;
  OK(hipMalloc(&x, 1 << 22));
  OK(hipMalloc(&y, 1 << 22));
  OK(hipMalloc(&z, 1 << 22));
  OK(hipMemset(x, 0, 1 << 22));
  OK(hipMemset(y, 0, 1 << 22));
  if (what == "saxpy") {
    auto k = kernel(dir, "saxpy_f32");
    void* p[] = {&y, &x, &n, &a};
    timed("saxpy", 200, [&] { OK(hipModuleLaunchKernel(k, n / 256, 1, 1, 256, 1, 1, 0, 0, p, nullptr)); });
  }
  if (what == "lcg") {
    auto k = kernel(dir, "lcg_u32");
    unsigned m = 131072, r = 64;
    void* p[] = {&y, &x, &m, &r};
    timed("lcg", 40, [&] { OK(hipModuleLaunchKernel(k, m / 256, 1, 1, 256, 1, 1, 0, 0, p, nullptr)); });
  }
  if (what == "matmul") {
    auto k = kernel(dir, "matmul_f32");
    unsigned m = 128;
    void* p[] = {&z, &x, &y, &m};
    timed("matmul", 40, [&] { OK(hipModuleLaunchKernel(k, m / 16, m / 16, 1, 16, 16, 1, 0, 0, p, nullptr)); });
  }
  if (what == "philox") {
    hiprandGenerator_t g;
    OK(hiprandCreateGenerator(&g, HIPRAND_RNG_PSEUDO_PHILOX4_32_10));
    OK(hiprandSetPseudoRandomGeneratorSeed(g, 7));
    timed("philox", 40, [&] { OK(hiprandGenerateUniform(g, (float*)z, 1 << 18)); });
  }
  if (what == "gemm") {
    hipblasLtHandle_t h;
    OK(hipblasLtCreate(&h));
    int m = 256;
    hipblasLtMatrixLayout_t l;
    OK(hipblasLtMatrixLayoutCreate(&l, HIP_R_16F, m, m, m));
    hipblasLtMatmulDesc_t d;
    OK(hipblasLtMatmulDescCreate(&d, HIPBLAS_COMPUTE_32F, HIP_R_32F));
    hipblasLtMatmulPreference_t pr;
    OK(hipblasLtMatmulPreferenceCreate(&pr));
    hipblasLtMatmulHeuristicResult_t res[1];
    int got = 0;
    OK(hipblasLtMatmulAlgoGetHeuristic(h, d, l, l, l, l, pr, 1, res, &got));
    if (!got) {
      fprintf(stderr, "no algorithm\n");
      return 1;
    }
    float one = 1, zero = 0;
    timed("gemm", 20,
          [&] { OK(hipblasLtMatmul(h, d, &one, x, l, y, l, &zero, z, l, z, l, &res[0].algo, nullptr, 0, 0)); });
  }
}
