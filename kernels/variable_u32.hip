// dst[i] = src[i] + variable_u32_data[i % 4]. The loader has to allocate and initialise this variable of the module.
// dst[i] = 0 if __lane_id() is not the index of the work-item in its wave, whatever the wave size is.
__device__ unsigned int variable_u32_data[4] = {1, 10, 100, 1000};

extern "C" __global__ void variable_u32(unsigned int* dst, const unsigned int* src, unsigned int n) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = threadIdx.x % warpSize == __lane_id() ? src[i] + variable_u32_data[i & 3u] : 0u;
}
