#define BLASLT_CHECK(call) \
  if (const hipblasStatus_t status = call; status != HIPBLAS_STATUS_SUCCESS) return status

// The descriptors of a matrix product: D = op(A) op(B), optionally with a bias.
struct Problem {
  hipblasLtMatmulDesc_t description = nullptr;
  hipblasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
  hipblasLtMatmulPreference_t preference = nullptr;

  hipblasStatus_t make(uint64_t m, uint64_t n, uint64_t k, hipblasOperation_t op_a, hipblasOperation_t op_b,
                       hipDataType in, hipDataType out, hipDataType scale, hipblasComputeType_t compute, bool with_bias,
                       uint64_t workspace, const void* bias, bool bias_is_known) {
    const uint64_t a_rows = op_a == HIPBLAS_OP_N ? m : k, a_columns = op_a == HIPBLAS_OP_N ? k : m;
    const uint64_t b_rows = op_b == HIPBLAS_OP_N ? k : n, b_columns = op_b == HIPBLAS_OP_N ? n : k;
    BLASLT_CHECK(hipblasLtMatrixLayoutCreate(&a, in, a_rows, a_columns, a_rows));
    BLASLT_CHECK(hipblasLtMatrixLayoutCreate(&b, in, b_rows, b_columns, b_rows));
    BLASLT_CHECK(hipblasLtMatrixLayoutCreate(&c, out, m, n, m));
    BLASLT_CHECK(hipblasLtMatrixLayoutCreate(&d, out, m, n, m));
    BLASLT_CHECK(hipblasLtMatmulDescCreate(&description, compute, scale));
    BLASLT_CHECK(hipblasLtMatmulDescSetAttribute(description, HIPBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a));
    BLASLT_CHECK(hipblasLtMatmulDescSetAttribute(description, HIPBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b));
    if (with_bias) {
      const hipblasLtEpilogue_t epilogue = HIPBLASLT_EPILOGUE_BIAS;
      BLASLT_CHECK(hipblasLtMatmulDescSetAttribute(description, HIPBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
      BLASLT_CHECK(hipblasLtMatmulDescSetAttribute(description, HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &out, sizeof out));
      if (bias_is_known)
        BLASLT_CHECK(hipblasLtMatmulDescSetAttribute(description, HIPBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    }
    BLASLT_CHECK(hipblasLtMatmulPreferenceCreate(&preference));
    return hipblasLtMatmulPreferenceSetAttribute(preference, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                 sizeof workspace);
  }

  ~Problem() {
    if (preference) hipblasLtMatmulPreferenceDestroy(preference);
    if (description) hipblasLtMatmulDescDestroy(description);
    for (hipblasLtMatrixLayout_t layout : {d, c, b, a})
      if (layout) hipblasLtMatrixLayoutDestroy(layout);
  }
};
