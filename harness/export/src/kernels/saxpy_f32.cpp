// The result is rounded once, because the compiler contracts a * x + y by default.
static void saxpy_f32_on_host(float* y, const float* x, uint32_t n, float a) {
  for (uint32_t i = 0; i < n; i++) y[i] = std::fma(a, x[i], y[i]);
}
