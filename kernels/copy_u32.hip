// dst[i] = src[i]
extern "C" __global__ void copy_u32(unsigned int* dst, const unsigned int* src, unsigned int n) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = src[i];
}
