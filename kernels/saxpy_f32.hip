// y[i] = a * x[i] + y[i]
extern "C" __global__ void saxpy_f32(float* y, const float* x, unsigned int n, float a) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
