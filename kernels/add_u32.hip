// dst[i] = src[i] + k
extern "C" __global__ void add_u32(unsigned int* dst, const unsigned int* src, unsigned int n,
                                   unsigned int k) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = src[i] + k;
}
