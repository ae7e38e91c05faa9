// c = a * b, all n x n in row-major order, n a multiple of 16; 16 x 16 tiles in local memory.
extern "C" __global__ void matmul_f32(float* c, const float* a, const float* b, unsigned int n) {
  __shared__ float ta[16][16], tb[16][16];
  unsigned int x = threadIdx.x, y = threadIdx.y;
  unsigned int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
  float sum = 0;
  for (unsigned int k = 0; k < n; k += 16) {
    ta[y][x] = a[row * n + k + x];
    tb[y][x] = b[(k + y) * n + col];
    __syncthreads();
    for (unsigned int j = 0; j < 16; j++) sum += ta[y][j] * tb[j][x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
