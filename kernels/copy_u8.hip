// dst[i] = src[i], byte by byte, for sizes that are not a multiple of four.
extern "C" __global__ void copy_u8(unsigned char* dst, const unsigned char* src, unsigned int n) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = src[i];
}
