// dst[0] = sum of src[0..n), by one workgroup of 256 work-items through local memory.
extern "C" __global__ void sum_u32(unsigned int* dst, const unsigned int* src, unsigned int n) {
  __shared__ unsigned int part[256];
  unsigned int t = threadIdx.x, sum = 0;
  for (unsigned int i = t; i < n; i += 256) sum += src[i];
  part[t] = sum;
  __syncthreads();
  for (unsigned int k = 128; k > 0; k >>= 1) {
    if (t < k) part[t] += part[t + k];
    __syncthreads();
  }
  if (t == 0) dst[0] = part[0];
}
