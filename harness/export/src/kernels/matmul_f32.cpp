static void matmul_f32_on_host(float* c, const float* a, const float* b, uint32_t n) {
  for (uint32_t row = 0; row < n; row++)
    for (uint32_t col = 0; col < n; col++) {
      float sum = 0;
      for (uint32_t k = 0; k < n; k++) sum = std::fma(a[row * n + k], b[k * n + col], sum);
      c[row * n + col] = sum;
    }
}
