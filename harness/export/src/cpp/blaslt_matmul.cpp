// Computes a product with the first algorithm of the heuristic that needs no workspace.
static hipblasStatus_t matmul(hipblasLtHandle_t handle, hipStream_t stream, const void* a, const void* b, void* d,
                              const void* bias, uint64_t m, uint64_t n, uint64_t k, hipblasOperation_t op_a,
                              hipblasOperation_t op_b, hipDataType in, hipDataType out, hipDataType scale,
                              hipblasComputeType_t compute, bool with_bias) {
  Problem problem;
  BLASLT_CHECK(problem.make(m, n, k, op_a, op_b, in, out, scale, compute, with_bias, 0, bias, true));
  hipblasLtMatmulHeuristicResult_t results[8] = {};
  int count = 0;
  BLASLT_CHECK(hipblasLtMatmulAlgoGetHeuristic(handle, problem.description, problem.a, problem.b, problem.c, problem.d,
                                               problem.preference, 8, results, &count));
  if (count == 0) return HIPBLAS_STATUS_NOT_SUPPORTED;
  // The factors alpha = 1 and beta = 0 in the scale type.
  double one = 1, zero = 0;
  const float one_f32 = 1;
  const int32_t one_i32 = 1;
  if (scale == HIP_R_32F) std::memcpy(&one, &one_f32, sizeof one_f32);
  if (scale == HIP_R_32I) std::memcpy(&one, &one_i32, sizeof one_i32);
  return hipblasLtMatmul(handle, problem.description, &one, a, problem.a, b, problem.b, &zero, d, problem.c, d,
                         problem.d, &results[0].algo, nullptr, 0, stream);
}
