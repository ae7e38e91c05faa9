template <class Scale>
static rocblas_status gemm_ex(rocblas_handle handle, hipStream_t stream, const void* a, const void* b, void* d,
                              const void* /*bias*/, int m, int n, int k, rocblas_operation op_a, rocblas_operation op_b,
                              rocblas_datatype in, rocblas_datatype out, rocblas_datatype compute, Scale one) {
  const rocblas_status status = rocblas_set_stream(handle, stream);
  if (status != rocblas_status_success) return status;
  const Scale zero = 0;
  const int lda = op_a == rocblas_operation_none ? m : k, ldb = op_b == rocblas_operation_none ? k : n;
  return rocblas_gemm_ex(handle, op_a, op_b, m, n, k, &one, a, in, lda, b, in, ldb, &zero, d, out, m, d, out, m, compute,
                         rocblas_gemm_algo_standard, 0, 0);
}
