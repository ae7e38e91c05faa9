// dst[i] = src[i] + variable_u32_data[i % 4]: a variable of the module, which the loader has to place and fill. The lane that a
// work-item has must be its place in the wave, of whatever width the wave is.
__device__ unsigned int variable_u32_data[4] = {1, 10, 100, 1000};

extern "C" __global__ void variable_u32(unsigned int* dst, const unsigned int* src, unsigned int n) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = threadIdx.x % warpSize == __lane_id() ? src[i] + variable_u32_data[i & 3u] : 0u;
}
