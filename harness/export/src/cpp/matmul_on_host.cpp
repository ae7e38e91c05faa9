// Computes D = op(A) op(B) + bias, column by column. The result is exact for small whole numbers.
template <class Out, class In>
static void matmul_on_host(Out* d, const In* a, const In* b, const Out* bias, size_t m, size_t n, size_t k, bool a_turned,
                           bool b_turned) {
  for (size_t col = 0; col < n; col++)
    for (size_t row = 0; row < m; row++) {
      double sum = bias ? double(bias[row]) : 0;
      for (size_t i = 0; i < k; i++)
        sum += double(a[a_turned ? row * k + i : i * m + row]) * double(b[b_turned ? i * n + col : col * k + i]);
      d[col * m + row] = Out(sum);
    }
}
