// dst[i] = value + i
extern "C" __global__ void fill_u32(unsigned int* dst, unsigned int n, unsigned int value) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = value + i;
}
