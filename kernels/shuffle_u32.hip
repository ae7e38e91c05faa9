// Shuffles within groups of 32 lanes; the workgroup size is a multiple of 32. With x = src[i] of each lane, dst[i] =
// (sum of x up to this lane) - (x of the next lane) + 3 * (x of the lane number xor 5) + 7 * (sum of x in the group).
extern "C" __global__ void shuffle_u32(unsigned int* dst, const unsigned int* src, unsigned int n) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31u;
  int x = i < n ? (int)src[i] : 0, sum = x;
  for (unsigned int k = 1; k < 32; k <<= 1) {
    int below = __shfl_up(sum, k, 32);
    if (lane >= k) sum += below;
  }
  int next = __shfl_down(x, 1, 32), other = __shfl_xor(x, 5, 32), all = __shfl(sum, 31, 32);
  if (i < n) dst[i] = (unsigned int)sum - (unsigned int)next + 3u * (unsigned int)other + 7u * (unsigned int)all;
}
