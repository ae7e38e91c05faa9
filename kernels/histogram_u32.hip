// bins[src[i] % 16] += 1, atomically.
extern "C" __global__ void histogram_u32(unsigned int* bins, const unsigned int* src,
                                         unsigned int n) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[src[i] & 15u], 1u);
}
