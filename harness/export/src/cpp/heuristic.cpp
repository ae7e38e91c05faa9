// Sets `count` to the number of algorithms that the heuristic offers.
static hipblasStatus_t matmul_heuristic(hipblasLtHandle_t handle, int* count, uint64_t m, uint64_t n, uint64_t k,
                                        hipblasOperation_t op_a, hipblasOperation_t op_b, hipDataType in,
                                        hipDataType out, hipDataType scale, hipblasComputeType_t compute, bool bias) {
  Problem problem;
  BLASLT_CHECK(problem.make(m, n, k, op_a, op_b, in, out, scale, compute, bias, 32 << 20, nullptr, false));
  hipblasLtMatmulHeuristicResult_t results[8] = {};
  return hipblasLtMatmulAlgoGetHeuristic(handle, problem.description, problem.a, problem.b, problem.c, problem.d,
                                         problem.preference, 8, results, count);
}
