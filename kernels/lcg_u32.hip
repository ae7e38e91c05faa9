// dst[i] = src[i] after `rounds` rounds of a linear congruential generator: integer work that keeps a
// stream busy for a chosen time.
extern "C" __global__ void lcg_u32(unsigned int* dst, const unsigned int* src, unsigned int n,
                                   unsigned int rounds) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned int x = src[i];
  for (unsigned int r = 0; r < rounds; r++) x = x * 1664525u + 1013904223u;
  dst[i] = x;
}
